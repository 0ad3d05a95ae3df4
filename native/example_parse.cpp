// Records to columns, in two steps: where the features of a record are, then what is in them.

#include <cstring>
#include <stdexcept>

#include "example.h"

namespace penstock {
namespace {

constexpr std::uint8_t kMapTag = tag_of(1, kDelimited);  // a map's entries, in Features and in FeatureLists
constexpr std::uint8_t kKeyTag = tag_of(1, kDelimited);
constexpr std::uint8_t kValueTag = tag_of(2, kDelimited);

std::uint64_t hash(Span key) {
  std::uint64_t state = 0xcbf29ce484222325ULL ^ key.size;
  for (std::size_t i = 0; i < key.size; ++i) state = (state ^ key.data[i]) * 0x100000001b3ULL;
  return state ^ (state >> 32);
}

struct Entry {
  Span key{nullptr, 0};
  Span value{nullptr, 0};
};

// Two fields in any order, and nothing else.
bool read_entry(Cursor entry, Entry* out) {
  for (int field = 0; field < 2; ++field) {
    std::uint32_t tag;
    if (!entry.varint32(&tag)) return false;
    if (tag != kKeyTag && tag != kValueTag) return false;
    if (!entry.string(tag == kKeyTag ? &out->key : &out->value)) return false;
  }
  return entry.done();
}

bool read_entry_in_order(Cursor entry, Entry* out) {
  return entry.expect(kKeyTag) && entry.string(&out->key) && entry.expect(kValueTag) && entry.string(&out->value) &&
         entry.done();
}

// Calls `visit(entry)` for every entry of a map; false if it is none, or a visit says so.
template <typename Visit>
bool read_map(Cursor& message, Proto proto, Visit visit) {
  std::uint32_t length;
  if (!message.varint32(&length)) return false;
  Cursor map(message.at, message.end_of(length));
  while (!map.done()) {
    if (!map.expect(kMapTag) || !map.varint32(&length)) return false;
    const Cursor bytes(map.at, map.end_of(length));
    Entry entry;
    if (!(proto == Proto::example ? read_entry(bytes, &entry) : read_entry_in_order(bytes, &entry))) return false;
    if (!visit(entry)) return false;
    map.at = bytes.end;
  }
  message.at = map.end;
  return true;
}

}  // namespace

Features::Features(std::vector<Feature> features) : features_(std::move(features)) {
  std::size_t num_slots = 4;
  while (num_slots < 2 * features_.size()) num_slots *= 2;
  slots_.assign(num_slots, 0);
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const std::string& key = features_[i].key;
    const Span span{reinterpret_cast<const std::uint8_t*>(key.data()), key.size()};
    if (find(span, kNone) != kNone) throw std::invalid_argument("the key '" + key + "' comes twice");
    std::size_t slot = hash(span) & (num_slots - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (num_slots - 1);
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
  }
}

bool Features::is(std::size_t i, Span key) const {
  const std::string& own = features_[i].key;
  return own.size() == key.size && (key.size == 0 || std::memcmp(own.data(), key.data, key.size) == 0);
}

std::size_t Features::find(Span key, std::size_t guess) const {
  if (guess < features_.size() && is(guess, key)) return guess;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash(key) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (is(slots_[slot] - 1, key)) return slots_[slot] - 1;
  }
  return kNone;
}

Finding find_features(const Features& features, const Records& records, Proto proto, Empty empty,
                      std::uint32_t field, Span* found) {
  const std::uint8_t wanted = tag_of(field, kDelimited);
  // Which feature came after which in the records so far; the last is for the first of a record.
  std::vector<std::size_t> after(features.size() + 1);
  for (std::size_t i = 0; i <= features.size(); ++i) after[i] = (i + 1) % (features.size() + 1);

  for (std::size_t r = 0; r < records.size; ++r) {
    Span* row = found + r * features.size();
    for (std::size_t i = 0; i < features.size(); ++i) row[i] = {nullptr, 0};
    Finding finding{Flaw::bad_record, r};
    std::size_t last = features.size();

    const auto keep = [&](const Entry& entry) {
      const std::size_t i = features.find(entry.key, after[last]);
      if (i == Features::kNone) return true;
      after[last] = i;
      last = i;
      if (proto == Proto::example) {
        const bool replaces = features[i].empty_replaces && empty == Empty::may_replace;
        if (entry.value.size == 0 && !replaces) return true;
        const std::uint8_t tag = entry.value.size == 0 ? tag_of(1, kDelimited) : entry.value.data[0];
        if (tag != tag_of(1, kDelimited) && tag != tag_of(2, kDelimited) && tag != tag_of(3, kDelimited)) {
          finding.flaw = Flaw::bad_feature;
          finding.feature = i;
          return false;
        }
      }
      row[i] = entry.value;
      return true;
    };
    const auto pass = [](const Entry&) { return true; };

    Cursor message(records.data[r]);
    while (!message.done()) {
      const std::uint8_t tag = *message.at;
      const bool is_map = tag == tag_of(1, kDelimited) ||
                          (proto == Proto::sequence_example && tag == tag_of(2, kDelimited));
      if (is_map) {
        ++message.at;
        if (!(tag == wanted ? read_map(message, proto, keep) : read_map(message, proto, pass))) return finding;
      } else {
        std::uint32_t unknown;
        if (!message.varint32(&unknown) || !message.skip(unknown)) return finding;
      }
    }
  }
  return {};
}

std::int64_t read_values(const Feature& feature, Proto proto, Span found, void* out, std::size_t capacity) {
  if (found.size == 0) return 0;
  Cursor cursor(found);
  ++cursor.at;
  switch (feature.kind) {
    case Kind::bytes:
      return read_bytes(cursor, static_cast<Span*>(out), capacity);
    case Kind::floats:
      return read_floats(cursor, proto, static_cast<float*>(out), capacity);
    default:
      return read_ints(cursor, proto, static_cast<std::int64_t*>(out), capacity);
  }
}

namespace {

// What a Feature says it is; 0 if nothing.
std::int64_t kind_in(Span feature) {
  switch (feature.data[0]) {
    case tag_of(1, kDelimited):
      return 1;
    case tag_of(2, kDelimited):
      return 2;
    case tag_of(3, kDelimited):
      return 3;
    default:
      return 0;
  }
}

constexpr std::size_t kNumberBytes[] = {0, 0, sizeof(float), sizeof(std::int64_t)};

}  // namespace

Finding read_features(const Features& features, const Records& records, Proto proto, const Span* found,
                      void* const* outputs) {
  for (std::size_t r = 0; r < records.size; ++r) {
    for (std::size_t i = 0; i < features.size(); ++i) {
      const Feature& feature = features[i];
      const Span bytes = found[r * features.size() + i];
      const bool has_list = bytes.size > 0;
      if (has_list && kind_in(bytes) != static_cast<std::int64_t>(feature.kind)) {
        const std::int64_t kind = kind_in(bytes);
        return {kind == 0 ? Flaw::bad_feature : Flaw::wrong_kind, r, i, kind};
      }
      if (!feature.is_dense) {
        const std::int64_t count = read_values(feature, proto, bytes, nullptr, 0);
        if (count == kBadList) return {Flaw::bad_feature, r, i};
        auto* splits = static_cast<std::int64_t*>(outputs[i]);
        splits[r + 1] = splits[r] + count;
        continue;
      }
      const bool is_bytes = feature.kind == Kind::bytes;
      const std::size_t row_bytes = feature.num_values * kNumberBytes[static_cast<int>(feature.kind)];
      std::uint8_t* row = is_bytes ? nullptr : static_cast<std::uint8_t*>(outputs[i]) + r * row_bytes;
      // An empty Feature is a missing one, but not in a SequenceExample.
      if (bytes.data == nullptr || (!has_list && proto == Proto::example)) {
        if (!feature.has_default) return {Flaw::missing, r, i};
        if (!is_bytes) std::memcpy(row, feature.default_bytes.data(), row_bytes);
        continue;
      }
      const std::int64_t count = read_values(feature, proto, bytes, row, is_bytes ? 0 : feature.num_values);
      if (count == kBadList) return {Flaw::bad_feature, r, i};
      if (count != static_cast<std::int64_t>(feature.num_values)) return {Flaw::wrong_count, r, i, count};
    }
  }
  return {};
}

}  // namespace penstock
