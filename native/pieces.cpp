// Parts of buffers and files. An offset or a length is only ever compared before it is used.

#include "pieces.h"

#if !defined(_WIN32)
#include <unistd.h>

#include <cerrno>
#endif

namespace penstock {

std::size_t cut_parts(Span buffer, const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_parts,
                      Span* out) {
  for (std::size_t i = 0; i < num_parts; ++i) {
    const auto offset = static_cast<std::uint64_t>(offsets[i]);
    const auto length = static_cast<std::uint64_t>(lengths[i]);
    if (offset > buffer.size || length > buffer.size - offset) return i;
    out[i] = {buffer.data + offset, static_cast<std::size_t>(length)};
  }
  return num_parts;
}

bool pieces_fit(const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_pieces, std::size_t size) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < num_pieces; ++i) {
    if (lengths[i] < 0 || offsets[i] < 0 || static_cast<std::uint64_t>(lengths[i]) > size - total) return false;
    total += static_cast<std::size_t>(lengths[i]);
  }
  return true;
}

#if !defined(_WIN32)
namespace {

// Reads `length` bytes at `offset`, or fewer at the end of the file; minus errno for an error.
std::int64_t read_whole(int file, std::uint8_t* out, std::int64_t length, std::int64_t offset) {
  std::int64_t done = 0;
  while (done < length) {
    // An offset so large that it would go over the end of its type is behind the end of any file.
    if (offset > INT64_MAX - length) break;
    const auto got = ::pread(file, out + done, static_cast<std::size_t>(length - done), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -static_cast<std::int64_t>(errno);
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace

PiecesRead read_pieces(int file, const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_pieces,
                       std::uint8_t* out) {
  for (std::size_t i = 0; i < num_pieces; ++i) {
    const std::int64_t got = read_whole(file, out, lengths[i], offsets[i]);
    if (got < lengths[i]) return {i, got};
    out += lengths[i];
  }
  return {num_pieces, 0};
}
#endif

}  // namespace penstock
