// CRC-32C (Castagnoli), the checksum of TFRecord files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

std::uint32_t crc32c(const std::uint8_t* data, std::size_t size);

// The same without the processor's instruction, for processors that lack it and for the tests.
std::uint32_t crc32c_portable(const std::uint8_t* data, std::size_t size);

// A checksum that is stored next to what it covers is rotated and offset, so that a checksum of checksums stays useful.
inline std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace penstock
