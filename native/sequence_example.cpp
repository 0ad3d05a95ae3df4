// The feature lists of a SequenceExample: each is a list of Features, its steps.

#include "example.h"

namespace penstock {
namespace {

constexpr std::uint8_t kStepTag = tag_of(1, kDelimited);

// One step, as TensorFlow reads it: two bytes can only be an empty list, and what lies between the end of a list and the
// end of its step is taken for the next step.
std::int64_t read_step(Cursor& list, const Feature& feature, void* out, std::size_t capacity) {
  std::uint32_t length;
  if (!list.expect(kStepTag) || !list.varint32(&length)) return kBadList;
  if (length == 0) return 0;
  Cursor step(list.at, length == 2 ? list.end : list.end_of(length));
  if (!step.expect(tag_of(static_cast<std::uint32_t>(feature.kind), kDelimited))) return kBadList;
  std::int64_t count = 0;
  if (length == 2) {
    if (!step.varint32(&length) || length != 0) return kBadList;
  } else if (feature.kind == Kind::bytes) {
    count = read_bytes(step, static_cast<Span*>(out), capacity);
  } else if (feature.kind == Kind::floats) {
    count = read_floats(step, Proto::sequence_example, static_cast<float*>(out), capacity);
  } else {
    count = read_ints(step, Proto::sequence_example, static_cast<std::int64_t*>(out), capacity);
  }
  list.at = step.at;
  return count;
}

constexpr std::size_t kValueBytes[] = {0, sizeof(Span), sizeof(float), sizeof(std::int64_t)};

}  // namespace

Finding read_feature_lists(const Features& features, std::size_t num_records, const Span* found,
                           std::int64_t* const* step_splits) {
  for (std::size_t r = 0; r < num_records; ++r) {
    for (std::size_t i = 0; i < features.size(); ++i) {
      const Feature& feature = features[i];
      const Span bytes = found[r * features.size() + i];
      if (bytes.data == nullptr && feature.is_dense && !feature.has_default) return {Flaw::missing, r, i};
      Cursor list(bytes);
      std::int64_t step = 0;
      for (; !list.done(); ++step) {
        const std::int64_t count = read_step(list, feature, nullptr, 0);
        if (count == kBadList) return {Flaw::bad_feature, r, i, 0, step};
        if (feature.is_dense && count != static_cast<std::int64_t>(feature.num_values)) {
          return {Flaw::wrong_count, r, i, count, step};
        }
      }
      step_splits[i][r + 1] = step_splits[i][r] + step;
    }
  }
  return {};
}

std::size_t count_steps(const Feature& feature, Span bytes, std::int64_t* out, std::size_t capacity) {
  std::size_t num_steps = 0;
  for (Cursor list(bytes); !list.done(); ++num_steps) {
    const std::int64_t count = read_step(list, feature, nullptr, 0);
    if (num_steps < capacity) out[num_steps] = count;
  }
  return num_steps;
}

std::int64_t read_steps(const Feature& feature, Span bytes, void* out, std::size_t capacity) {
  std::size_t count = 0;
  auto* at = static_cast<std::uint8_t*>(out);
  for (Cursor list(bytes); !list.done();) {
    const std::size_t room = count < capacity ? capacity - count : 0;
    const auto step = static_cast<std::size_t>(read_step(list, feature, at, room));
    count += step;
    if (count <= capacity) at += step * kValueBytes[static_cast<int>(feature.kind)];
  }
  return static_cast<std::int64_t>(count);
}

}  // namespace penstock
