// Rows of a table, picked by index into a batch.
//
// Each row lies somewhere else, so the processor cannot guess where the next one begins, and waits for memory once a row.
// The index tells: a row's first lines are asked for while the row before it is copied. From there on the hardware
// follows by itself. (Measured on rows of 3 and 4 kB: 15 % over NumPy's take; below some 500 bytes NumPy is quicker.)

#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace penstock {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLinesAhead = 16;

void prefetch(const std::uint8_t* row, std::size_t row_bytes) {
#if defined(__GNUC__)
  const std::size_t stop = row_bytes < kLine * kLinesAhead ? row_bytes : kLine * kLinesAhead;
  for (std::size_t at = 0; at < stop; at += kLine) __builtin_prefetch(row + at);
#endif
}

}  // namespace

void gather(const std::uint8_t* rows, std::size_t num_rows, std::size_t row_bytes, const std::int64_t* index,
            std::uint8_t* out, std::size_t num_out) {
  // All indices are checked before the first byte moves: a refused call leaves `out` as it was.
  for (std::size_t i = 0; i < num_out; ++i) {
    if (index[i] < 0 || static_cast<std::uint64_t>(index[i]) >= num_rows) {
      throw std::out_of_range("index[" + std::to_string(i) + "] is " + std::to_string(index[i]) + ", not within [0, " +
                              std::to_string(num_rows) + ")");
    }
  }
  if (num_out > 0) prefetch(rows + index[0] * row_bytes, row_bytes);
  for (std::size_t i = 0; i < num_out; ++i) {
    if (i + 1 < num_out) prefetch(rows + index[i + 1] * row_bytes, row_bytes);
    std::memcpy(out + i * row_bytes, rows + index[i] * row_bytes, row_bytes);
  }
}

}  // namespace penstock
