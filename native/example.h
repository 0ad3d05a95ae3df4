// tf.train.Example and SequenceExample, many records at a time, to and from columns.
//
// Which bytes are accepted, and what they mean, is what TensorFlow's own parsers accept and mean, since the same file
// must give the same values in both. Where they differ from a plain reading of protobuf:
// - Example: of a Feature only its first list counts, of a list only its first packed chunk; a key that comes twice counts
//   as it is last, except that an empty Feature may not replace a full one (see `Empty`).
// - SequenceExample: an entry is its key, then its value; packed values must fill their chunk; the last entry counts,
//   empty or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wire.h"

namespace penstock {

// The field numbers of the lists in a Feature. A Feature to be written may also have none of them.
enum class Kind : std::uint8_t { none = 0, bytes = 1, floats = 2, ints = 3 };

enum class Proto : std::uint8_t { example, sequence_example };

// --- values of one list (example_lists.cpp) ---

constexpr std::int64_t kBadList = -1;

// Each reads the list whose tag was read already, and leaves the cursor where it stopped. It writes at most `capacity`
// values and returns how many there are, or kBadList.
std::int64_t read_floats(Cursor& cursor, Proto proto, float* out, std::size_t capacity);
std::int64_t read_ints(Cursor& cursor, Proto proto, std::int64_t* out, std::size_t capacity);
std::int64_t read_bytes(Cursor& cursor, Span* out, std::size_t capacity);

// --- features of many records (example_parse.cpp) ---

// Whether an empty Feature of a key replaces an earlier one that is not: as each feature says, or never.
enum class Empty : std::uint8_t { may_replace, is_ignored };

struct Feature {
  std::string key;
  Kind kind;
  bool is_dense;           // each record has exactly `num_values`
  bool empty_replaces;     // see Empty
  std::size_t num_values;  // of a dense feature
  bool has_default;
  std::vector<std::uint8_t> default_bytes;  // of numbers: `num_values` of them
};

// The features asked for, found by key.
class Features {
 public:
  explicit Features(std::vector<Feature> features);

  std::size_t size() const { return features_.size(); }
  const Feature& operator[](std::size_t i) const { return features_[i]; }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Records mostly have their keys in one order: `guess` is tried before anything is hashed.
  std::size_t find(Span key, std::size_t guess) const;

 private:
  bool is(std::size_t i, Span key) const;

  std::vector<Feature> features_;
  std::vector<std::uint32_t> slots_;  // 1 + feature, 0 where free
};

// The numbers are part of _native.pyi.
enum class Flaw : int {
  none = 0,
  bad_record = 1,    // not the message that it should be
  bad_feature = 2,   // not a Feature, or a list that is not one
  wrong_kind = 3,    // number: the kind that came
  missing = 4,       // required, and not there
  wrong_count = 5,   // number: how many values came
};

struct Finding {
  Flaw flaw = Flaw::none;
  std::size_t record = 0;
  std::size_t feature = 0;
  std::int64_t number = 0;
  std::int64_t step = -1;  // in a feature list
};

struct Records {
  const Span* data;
  std::size_t size;
};

// Where each feature of each record is: `found[record * features.size() + feature]`, data null where missing.
// `field` is that of the map within the message: 1, or 2 for the feature lists of a SequenceExample.
Finding find_features(const Features& features, const Records& records, Proto proto, Empty empty,
                      std::uint32_t field, Span* found);

// Dense numbers are written to `outputs[feature]`, row by row; for others than dense it takes the row splits, one more
// than records. Dense bytes are only checked.
Finding read_features(const Features& features, const Records& records, Proto proto, const Span* found,
                      void* const* outputs);

// The values of one found Feature; nothing of it can be wrong any more.
std::int64_t read_values(const Feature& feature, Proto proto, Span found, void* out, std::size_t capacity);

// --- feature lists of a SequenceExample (sequence_example.cpp) ---

// Writes the row splits of steps, one more than records, to `step_splits[feature]`, and checks every step.
Finding read_feature_lists(const Features& features, std::size_t num_records, const Span* found,
                           std::int64_t* const* step_splits);

// The number of values of each step of a list that was checked; writes at most `capacity` of them, returns how many.
std::size_t count_steps(const Feature& feature, Span list, std::int64_t* out, std::size_t capacity);

// The values of all steps of such a list, one after the other; at most `capacity`, returns how many there are.
std::int64_t read_steps(const Feature& feature, Span list, void* out, std::size_t capacity);

// --- encoding (example_encode.cpp) ---

// Values of one feature of all records: row r has values `splits[r]` to `splits[r + 1]`, or `row_size` of them each
// where there are no splits.
struct Column {
  std::string key;
  Kind kind;
  const void* values;  // float, int64, or Span
  std::size_t num_values;
  const std::int64_t* splits;
  std::size_t row_size;
};

// Throws unless every row of the column lies within its values.
void check_column(const Column& column, std::size_t num_rows);

// Measured first, then written in the same order: what was measured is remembered, so that ints and strings are gone
// through once for each.
class ExampleEncoder {
 public:
  explicit ExampleEncoder(const std::vector<Column>& columns) : columns_(columns) { sizes_.reserve(columns.size() + 1); }

  // An Example of row r of every column: its size, then its bytes. Returns the end of what was written.
  std::size_t measure_example(std::size_t row);
  std::uint8_t* write_example(std::size_t row, std::uint8_t* out);

  // The feature lists of one SequenceExample: the rows of a column are its steps.
  std::size_t measure_feature_lists(const std::vector<std::size_t>& num_steps);
  std::uint8_t* write_feature_lists(const std::vector<std::size_t>& num_steps, std::uint8_t* out);

 private:
  std::size_t measure(std::size_t size) {
    sizes_.push_back(size);
    return size;
  }
  std::size_t measured() { return sizes_[next_++]; }

  const std::vector<Column>& columns_;
  std::vector<std::size_t> sizes_;
  std::size_t next_ = 0;
};

}  // namespace penstock
