// Counter-based randomness: 64-bit mixing and unbiased-enough reduction to a range.
#pragma once

#include <cstdint>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace penstock {

// Steps a counter through 64-bit space: 2**64 divided by the golden ratio.
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

// The finalizer of SplitMix64: a bijection of 64 bits in which every input bit moves every output bit.
inline std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Maps 64 random bits to [0, bound) by the high half of a 128-bit product. The bias is below bound / 2**64.
inline std::uint64_t below(std::uint64_t random, std::uint64_t bound) {
#if defined(_MSC_VER)
  return __umulh(random, bound);
#else
  __extension__ using uint128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<uint128>(random) * bound) >> 64);
#endif
}

}  // namespace penstock
