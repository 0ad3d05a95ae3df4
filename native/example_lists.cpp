// The three kinds of list in a Feature, packed or not.
//
// Nothing is set aside by a count that the bytes claim: there is one float for four bytes that are there, one int for at
// least one byte, one string for at least two.

#include <algorithm>
#include <cstring>

#include "example.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "floats are copied as they are in a record: lowest byte first"
#endif

namespace penstock {
namespace {

constexpr std::uint8_t kPackedTag = tag_of(1, kDelimited);

// The bytes of a list, after its length. A length that reaches too far is cut, as protobuf cuts it, to nothing if it likes.
// Only where TensorFlow reads numbers of SequenceExamples, it must see by a first byte how they are stored.
bool open_list(Cursor& cursor, bool needs_byte, Cursor* list) {
  std::uint32_t length;
  if (!cursor.varint32(&length)) return false;
  *list = Cursor(cursor.at, cursor.end_of(length));
  return length == 0 || !list->done() || !needs_byte;
}

}  // namespace

std::int64_t read_floats(Cursor& cursor, Proto proto, float* out, std::size_t capacity) {
  Cursor list(cursor);
  if (!open_list(cursor, proto == Proto::sequence_example, &list)) return kBadList;
  std::size_t count = 0;
  if (list.expect(kPackedTag)) {
    std::uint32_t num_bytes;
    if (!list.varint32(&num_bytes)) return kBadList;
    if (proto == Proto::sequence_example) {
      num_bytes = static_cast<std::uint32_t>(list.end_of(num_bytes) - list.at);
      if (num_bytes % sizeof(float) != 0) return kBadList;
    }
    count = num_bytes / sizeof(float);
    if (count * sizeof(float) > list.left()) return kBadList;
    const std::size_t num_written = std::min(count, capacity);
    if (num_written > 0) std::memcpy(out, list.at, num_written * sizeof(float));
    list.at += count * sizeof(float);
  } else {
    for (; !list.done(); ++count) {
      if (!list.expect(tag_of(1, kFixed32)) || list.left() < sizeof(float)) return kBadList;
      if (count < capacity) std::memcpy(out + count, list.at, sizeof(float));
      list.at += sizeof(float);
    }
  }
  cursor.at = list.at;
  return static_cast<std::int64_t>(count);
}

std::int64_t read_ints(Cursor& cursor, Proto proto, std::int64_t* out, std::size_t capacity) {
  Cursor list(cursor);
  if (!open_list(cursor, proto == Proto::sequence_example, &list)) return kBadList;
  std::size_t count = 0;
  std::uint64_t value;
  const auto keep = [&] {
    if (count < capacity) out[count] = static_cast<std::int64_t>(value);
  };
  if (list.expect(kPackedTag)) {
    std::uint32_t num_bytes;
    if (!list.varint32(&num_bytes)) return kBadList;
    Cursor chunk(list.at, list.end_of(num_bytes));
    for (; !chunk.done(); ++count) {
      if (!chunk.varint(&value)) return kBadList;
      keep();
    }
    list.at = chunk.at;
  } else {
    for (; !list.done(); ++count) {
      if (!list.expect(tag_of(1, kVarint)) || !list.varint(&value)) return kBadList;
      keep();
    }
  }
  cursor.at = list.at;
  return static_cast<std::int64_t>(count);
}

std::int64_t read_bytes(Cursor& cursor, Span* out, std::size_t capacity) {
  Cursor list(cursor);
  if (!open_list(cursor, false, &list)) return kBadList;
  std::size_t count = 0;
  for (; !list.done(); ++count) {
    Span value;
    if (!list.expect(kPackedTag) || !list.string(&value)) return kBadList;
    if (count < capacity) out[count] = value;
  }
  cursor.at = list.at;
  return static_cast<std::int64_t>(count);
}

}  // namespace penstock
