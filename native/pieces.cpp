// Parts of buffers. An offset or a length is only ever compared before it is used.

#include "pieces.h"

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

}  // namespace penstock
