// Parts of buffers, by offsets and lengths that may be any numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire.h"

namespace penstock {

// The parts of a buffer, as many as lie in it: the number of the first that does not, or `num_parts`.
std::size_t cut_parts(Span buffer, const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_parts,
                      Span* out);

}  // namespace penstock
