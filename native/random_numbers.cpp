// The numbers of Dataset.random: each follows from the key and its index alone.

#include "kernels.h"
#include "mix.h"

namespace penstock {

void random_numbers(std::uint64_t key, const std::int64_t* index, std::int64_t* out, std::size_t num_out) {
  for (std::size_t i = 0; i < num_out; ++i) {
    const std::uint64_t counter = static_cast<std::uint64_t>(index[i]) * kGolden + key;
    out[i] = static_cast<std::int64_t>(mix64(counter) >> 32);
  }
}

}  // namespace penstock
