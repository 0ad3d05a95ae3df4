// A keyed bijection of [0, n) that is computed, not stored: the order of a full shuffle in O(1) bytes.
//
// A Feistel network over pairs. With rows = ceil(sqrt(n)) and columns = ceil(n / rows), x is the pair
// (x / columns, x % columns); a round adds a keyed hash of one half to the other, modulo that half's size, and the halves
// take turns. Each round can be undone, so the whole is a bijection of [0, rows * columns). That domain has fewer than
// `rows` numbers too many; a result among them is fed in again until one below n comes out ("cycle walking"), which keeps
// it a bijection of [0, n). The expected number of passes is below 1 + rows / n: at most 4/3 (n = 3), and 1.001 for n = 10**6.
//
// Refused: halves of whole bits (xor instead of addition). The domain is then a power of two, up to twice n, and the walk
// takes up to two passes and a branch that cannot be predicted.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels.h"
#include "mix.h"

namespace penstock {
namespace {

// In a tiny domain few values pass through each hash, and eight rounds leave a bias between permutations that a
// chi-square test over keys can see (n = 5 to 16). More rounds remove it, and cost little where there is little to do.
constexpr int kRounds = 8;
constexpr int kTinyRounds = 32;
constexpr std::uint64_t kTiny = 64;
static_assert(kRounds % 2 == 0 && kTinyRounds % 2 == 0, "the halves take turns in pairs");

class Permutation {
 public:
  struct Pair {
    std::uint64_t row;
    std::uint64_t column;
  };

  Permutation(std::int64_t n, std::uint64_t key) : n_(static_cast<std::uint64_t>(n)) {
    if (n < 1) throw std::invalid_argument("n must be at least 1, got " + std::to_string(n));
    // The square root in floating point is off by at most one at this size: correct it in integers.
    rows_ = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n_)));
    while (rows_ * rows_ > n_) --rows_;
    while (rows_ * rows_ < n_) ++rows_;
    columns_ = (n_ + rows_ - 1) / rows_;
    num_rounds_ = n_ < kTiny ? kTinyRounds : kRounds;
    for (int i = 0; i < num_rounds_; ++i) round_keys_[i] = mix64(key + kGolden * static_cast<std::uint64_t>(i + 1));
  }

  Pair split(std::uint64_t x) const { return {x / columns_, x % columns_}; }

  // Several at a time: each is one long chain of multiplications, and the processor has room for four.
  static constexpr std::size_t kLanes = 4;
  void apply(Pair (&pairs)[kLanes], std::int64_t* out) const {
    for (int i = 0; i < num_rounds_; i += 2) {
      for (Pair& p : pairs) two_rounds(p, i);
    }
    for (std::size_t k = 0; k < kLanes; ++k) {
      const std::uint64_t result = join(pairs[k]);
      out[k] = result < n_ ? static_cast<std::int64_t>(result) : (*this)(pairs[k]);
    }
  }

  // Moves on to the pair of x + 1 without dividing.
  void advance(Pair& p) const {
    if (++p.column == columns_) {
      p.column = 0;
      ++p.row;
    }
  }

  std::int64_t operator()(Pair p) const {
    std::uint64_t result;
    do {
      for (int i = 0; i < num_rounds_; i += 2) two_rounds(p, i);
      result = join(p);
    } while (result >= n_);
    return static_cast<std::int64_t>(result);
  }

 private:
  void two_rounds(Pair& p, int i) const {
    p.row = add(p.row, p.column, round_keys_[i], rows_);
    p.column = add(p.column, p.row, round_keys_[i + 1], columns_);
  }

  std::uint64_t join(Pair p) const { return p.row * columns_ + p.column; }

  // (half + hash of other) mod size. Both halves are below 2**32, so the multiplication comes first in the hash;
  // `below` reads its high bits, which makes a last xor-shift superfluous.
  static std::uint64_t add(std::uint64_t half, std::uint64_t other, std::uint64_t round_key, std::uint64_t size) {
    std::uint64_t h = (other ^ round_key) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 32)) * 0x94D049BB133111EBu;
    const std::uint64_t sum = half + below(h, size);
    return std::min(sum, sum - size);  // sum - size wraps around to a large number when sum < size: no branch
  }

  std::uint64_t n_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  int num_rounds_;
  std::uint64_t round_keys_[kTinyRounds];
};

}  // namespace

void permute(std::int64_t n, std::uint64_t key, std::int64_t start, std::int64_t* out, std::size_t num_out) {
  const Permutation permutation(n, key);
  if (start < 0 || start > n || num_out > static_cast<std::uint64_t>(n - start)) {
    throw std::out_of_range("positions " + std::to_string(start) + " to " + std::to_string(start) + " + " +
                            std::to_string(num_out) + " are not all within [0, " + std::to_string(n) + ")");
  }
  Permutation::Pair p = permutation.split(static_cast<std::uint64_t>(start));
  std::size_t i = 0;
  for (; num_out - i >= Permutation::kLanes; i += Permutation::kLanes) {
    Permutation::Pair pairs[Permutation::kLanes];
    for (auto& pair : pairs) {
      pair = p;
      permutation.advance(p);
    }
    permutation.apply(pairs, out + i);
  }
  for (; i < num_out; ++i) {
    out[i] = permutation(p);
    permutation.advance(p);
  }
}

void permute_at(std::int64_t n, std::uint64_t key, const std::int64_t* index, std::int64_t* out, std::size_t num_out) {
  const Permutation permutation(n, key);
  for (std::size_t i = 0; i < num_out; ++i) {
    const std::int64_t x = index[i];
    if (x < 0 || x >= n) {
      throw std::out_of_range("index[" + std::to_string(i) + "] is " + std::to_string(x) + ", not within [0, " +
                              std::to_string(n) + ")");
    }
    out[i] = permutation(permutation.split(static_cast<std::uint64_t>(x)));
  }
}

}  // namespace penstock
