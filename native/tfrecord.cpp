// Framing of TFRecord files, over buffers. A length is only ever compared with the bytes that are there.

#include "tfrecord.h"

#include <cstring>

#include "crc32c.h"

namespace penstock {
namespace {

std::uint64_t load_little_endian(const std::uint8_t* data, int num_bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < num_bytes; ++i) value |= std::uint64_t{data[i]} << (8 * i);
  return value;
}

void store_little_endian(std::uint8_t* out, std::uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) out[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

}  // namespace

RecordScan scan_records(Span buffer, std::size_t start, RecordChecks checks, std::int64_t* offsets,
                        std::int64_t* lengths, std::size_t capacity) {
  RecordScan scan{0, start, RecordStop::end, 0, 0};
  const auto stopped = [&](RecordStop stop, std::uint64_t expected, std::uint64_t got) {
    scan.stop = stop;
    scan.expected = expected;
    scan.got = got;
    return scan;
  };
  while (scan.num_records < capacity && scan.offset < buffer.size) {
    const std::uint8_t* header = buffer.data + scan.offset;
    const std::size_t left = buffer.size - scan.offset;
    if (left < kRecordHeader) return stopped(RecordStop::header_incomplete, kRecordHeader, left);

    if (checks.length) {
      const auto stored = static_cast<std::uint32_t>(load_little_endian(header + 8, 4));
      const std::uint32_t computed = masked(crc32c(header, 8));
      if (stored != computed) return stopped(RecordStop::bad_length, stored, computed);
    }
    const std::uint64_t length = load_little_endian(header, 8);
    const std::size_t behind = left - kRecordHeader;
    if (behind < kRecordFooter || length > behind - kRecordFooter) {
      return stopped(RecordStop::data_incomplete, length, behind);
    }

    const std::uint8_t* data = header + kRecordHeader;
    if (checks.data) {
      const auto stored = static_cast<std::uint32_t>(load_little_endian(data + length, 4));
      const std::uint32_t computed = masked(crc32c(data, length));
      if (stored != computed) return stopped(RecordStop::bad_data, stored, computed);
    }
    offsets[scan.num_records] = static_cast<std::int64_t>(scan.offset + kRecordHeader);
    lengths[scan.num_records] = static_cast<std::int64_t>(length);
    ++scan.num_records;
    scan.offset += kRecordFrame + length;
  }
  return scan;
}

RecordScan check_records(Span buffer, const std::int64_t* offsets, const std::int64_t* lengths,
                         std::size_t num_records) {
  for (std::size_t i = 0; i < num_records; ++i) {
    const auto offset = static_cast<std::uint64_t>(offsets[i]);
    const auto length = static_cast<std::uint64_t>(lengths[i]);
    if (offset < kRecordHeader || offset > buffer.size || length > buffer.size - offset ||
        buffer.size - offset - length < kRecordFooter) {
      return {i, offset, RecordStop::header_incomplete, length, buffer.size};
    }
    const std::uint8_t* data = buffer.data + offset;
    const auto stored_length_sum = static_cast<std::uint32_t>(load_little_endian(data - 4, 4));
    const std::uint32_t length_sum = masked(crc32c(data - kRecordHeader, 8));
    if (stored_length_sum != length_sum) return {i, offset, RecordStop::bad_length, stored_length_sum, length_sum};
    const std::uint64_t stored_length = load_little_endian(data - kRecordHeader, 8);
    if (stored_length != length) return {i, offset, RecordStop::data_incomplete, length, stored_length};
    const auto stored_sum = static_cast<std::uint32_t>(load_little_endian(data + length, 4));
    const std::uint32_t sum = masked(crc32c(data, length));
    if (stored_sum != sum) return {i, offset, RecordStop::bad_data, stored_sum, sum};
  }
  return {num_records, 0, RecordStop::end, 0, 0};
}

void frame_in_place(std::uint8_t* out, std::size_t size) {
  store_little_endian(out, size, 8);
  store_little_endian(out + 8, masked(crc32c(out, 8)), 4);
  const std::uint8_t* data = out + kRecordHeader;
  store_little_endian(out + kRecordHeader + size, masked(crc32c(data, size)), 4);
}

void frame_record(Span data, std::uint8_t* out) {
  if (data.size > 0) std::memcpy(out + kRecordHeader, data.data, data.size);
  frame_in_place(out, data.size);
}

}  // namespace penstock
