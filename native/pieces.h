// Parts of buffers and files, by offsets and lengths that may be any numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire.h"

namespace penstock {

// The parts of a buffer, as many as lie in it: the number of the first that does not, or `num_parts`.
std::size_t cut_parts(Span buffer, const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_parts,
                      Span* out);

// Whether pieces of a file, one behind the other, fit in `size` bytes.
bool pieces_fit(const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_pieces, std::size_t size);

struct PiecesRead {
  std::size_t num_whole;  // pieces before the first that is not
  std::int64_t got;       // bytes of that one, or minus the error of the system
};

#if !defined(_WIN32)
// Reads pieces of a file, which fit, one behind the other.
PiecesRead read_pieces(int file, const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_pieces,
                       std::uint8_t* out);
#endif

}  // namespace penstock
