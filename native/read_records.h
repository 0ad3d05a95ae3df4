// Records of a file, wherever they lie, brought together in the order in which they are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

struct FilePiece {
  std::uint64_t begin, end;  // in the file
  std::uint64_t target;      // in the memory
  std::size_t number;

  std::uint64_t size() const { return end - begin; }
};

// A piece that goes into the first `used` bytes of a memory; throws std::invalid_argument for any other numbers.
FilePiece file_piece(std::int64_t begin, std::int64_t end, std::int64_t target, std::size_t number, std::size_t used);

struct PiecesRead {
  std::size_t num_whole;  // pieces before the first that is not
  std::int64_t stop;      // where the file ended, or minus the error of the system
};

#if !defined(_WIN32)
// Reads pieces to their places in a memory of `size` bytes, of which those behind `used` are room to read neighbours at
// once. Sorts the pieces by their place in the file; those after the whole ones were not read.
PiecesRead read_file_pieces(int file, std::vector<FilePiece>& pieces, std::uint8_t* memory, std::size_t used,
                            std::size_t size);
#endif

}  // namespace penstock
