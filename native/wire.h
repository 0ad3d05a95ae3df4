// Protobuf's wire format, read from memory that may say anything.
//
// A Cursor never looks at or behind its end. It holds the few habits of protobuf's own stream that decide which bytes
// are accepted: a varint has at most ten bytes and is cut to the width asked for; a part that claims to be longer than
// what holds it ends where that ends. Strings are not cut: the caller compares their length with `left()`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

struct Span {
  const std::uint8_t* data;
  std::size_t size;
};

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

constexpr std::uint8_t tag_of(std::uint32_t field, WireType type) { return static_cast<std::uint8_t>(field << 3 | type); }

constexpr int kMostVarintBytes = 10;

struct Cursor {
  const std::uint8_t* at;
  const std::uint8_t* end;

  explicit Cursor(Span span) : at(span.data), end(span.data + span.size) {}
  Cursor(const std::uint8_t* begin, const std::uint8_t* end_) : at(begin), end(end_) {}

  bool done() const { return at == end; }
  std::size_t left() const { return static_cast<std::size_t>(end - at); }

  bool varint(std::uint64_t* value) {
    if (at != end && *at < 0x80) {
      *value = *at++;
      return true;
    }
    return long_varint(value);
  }

  bool varint32(std::uint32_t* value) {
    std::uint64_t wide;
    if (!varint(&wide)) return false;
    *value = static_cast<std::uint32_t>(wide);
    return true;
  }

  // Only the one-byte spelling of a tag.
  bool expect(std::uint8_t tag) {
    if (at == end || *at != tag) return false;
    ++at;
    return true;
  }

  // Where a part of `length` bytes ends.
  const std::uint8_t* end_of(std::uint32_t length) const { return length < left() ? at + length : end; }

  bool string(Span* value) {
    std::uint32_t length;
    if (!varint32(&length) || length > left()) return false;
    *value = {at, length};
    at += length;
    return true;
  }

  // What follows a tag that is not known. A length that reaches too far skips the rest, as in TensorFlow's parser.
  bool skip(std::uint32_t tag) {
    std::uint64_t ignored;
    switch (tag & 7) {
      case kVarint:
        return varint(&ignored);
      case kFixed64:
        return advance(8);
      case kFixed32:
        return advance(4);
      case kDelimited: {
        std::uint32_t length;
        if (!varint32(&length)) return false;
        at = end_of(length);
        return true;
      }
      default:  // groups, and types that do not exist
        return false;
    }
  }

 private:
  bool advance(std::size_t num_bytes) {
    if (left() < num_bytes) return false;
    at += num_bytes;
    return true;
  }

  bool long_varint(std::uint64_t* value) {
    std::uint64_t result = 0;
    const std::uint8_t* next = at;
    for (int shift = 0; shift < 7 * kMostVarintBytes; shift += 7) {
      if (next == end) return false;
      const std::uint64_t byte = *next++;
      result |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        at = next;
        *value = result;
        return true;
      }
    }
    return false;
  }
};

}  // namespace penstock
