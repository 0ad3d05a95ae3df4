// The shuffle buffer of tf.data over indices: 8 bytes per slot, whatever an element weighs.
//
// Step t draws a slot with a hash of (key, t), emits what is in it, and puts the next incoming index there. A step waits
// until its replacement has come, or until it is known that none will (`draining`); so what is emitted does not depend on
// how the incoming or the outgoing indices are cut into calls.

#include <stdexcept>
#include <string>

#include "kernels.h"
#include "mix.h"

namespace penstock {

WindowProgress window_shuffle(std::int64_t* slots, std::size_t num_slots, std::size_t filled,
                              const std::int64_t* incoming, std::size_t num_incoming, bool draining,
                              std::uint64_t key, std::uint64_t step, std::int64_t* out, std::size_t num_out) {
  if (num_slots < 1) throw std::invalid_argument("slots must hold at least 1 index, got an empty array");
  if (filled > num_slots) {
    throw std::invalid_argument("filled is " + std::to_string(filled) + ", but there are only " +
                                std::to_string(num_slots) + " slots");
  }

  std::size_t consumed = 0;
  std::size_t produced = 0;
  while (filled < num_slots && consumed < num_incoming) slots[filled++] = incoming[consumed++];

  const std::uint64_t stream = mix64(key + kGolden);
  const auto draw = [&](std::size_t bound) { return below(mix64(stream + kGolden * step++), bound); };

  if (filled == num_slots) {
    while (produced < num_out && consumed < num_incoming) {
      std::int64_t& slot = slots[draw(num_slots)];
      out[produced++] = slot;
      slot = incoming[consumed++];
    }
  }
  if (draining && consumed == num_incoming) {
    while (produced < num_out && filled > 0) {
      std::int64_t& slot = slots[draw(filled)];
      out[produced++] = slot;
      slot = slots[--filled];
    }
  }
  return {consumed, produced, filled};
}

}  // namespace penstock
