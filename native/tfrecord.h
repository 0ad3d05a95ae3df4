// TFRecord files: each record is its length (8 bytes), the length's checksum (4), the data, the data's checksum (4).
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire.h"

namespace penstock {

constexpr std::size_t kRecordHeader = 12;
constexpr std::size_t kRecordFooter = 4;
constexpr std::size_t kRecordFrame = kRecordHeader + kRecordFooter;

// Why a scan stopped where it did. The numbers are part of _native.pyi.
enum class RecordStop : int {
  end = 0,                 // the buffer is used up, or the arrays are full
  header_incomplete = 1,   // fewer than 12 bytes are left; got: how many
  data_incomplete = 2,     // the record goes on behind the buffer; expected: bytes of data, got: bytes behind the header
  bad_length = 3,          // the checksum of the length; expected: as stored, got: as computed
  bad_data = 4,            // the checksum of the data; expected: as stored, got: as computed
};

struct RecordScan {
  std::size_t num_records;  // whole records before the stop
  std::size_t offset;       // where the next record, or the bad one, begins
  RecordStop stop;
  std::uint64_t expected;
  std::uint64_t got;
};

struct RecordChecks {
  bool length;
  bool data;
};

RecordScan scan_records(Span buffer, std::size_t start, RecordChecks checks, std::int64_t* offsets,
                        std::int64_t* lengths, std::size_t capacity);

// The first of some records, whose places in a buffer are known, that is not framed as it should be: `num_records` is its
// number, `offset` that of its frame. All are fine where the stop is `end`. A length that differs from the one expected is
// `data_incomplete`.
RecordScan check_records(Span buffer, const std::int64_t* offsets, const std::int64_t* lengths, std::size_t num_records);

// Writes the frame around data that is at `out + kRecordHeader` already.
void frame_in_place(std::uint8_t* out, std::size_t size);

// Writes a framed record of `data.size + kRecordFrame` bytes.
void frame_record(Span data, std::uint8_t* out);

}  // namespace penstock
