// Columns to Examples: values packed, keys in the order given.

#include <cstring>
#include <stdexcept>

#include "example.h"

namespace penstock {
namespace {

constexpr std::size_t kTagBytes = 1;
constexpr std::uint8_t kFirst = tag_of(1, kDelimited);
constexpr std::uint8_t kSecond = tag_of(2, kDelimited);

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// A delimited field: tag, length, bytes.
std::size_t field_size(std::size_t num_bytes) { return kTagBytes + varint_size(num_bytes) + num_bytes; }

std::uint8_t* write_varint(std::uint8_t* out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::uint8_t>(value | 0x80);
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

std::uint8_t* open_field(std::uint8_t* out, std::uint8_t tag, std::size_t num_bytes) {
  *out++ = tag;
  return write_varint(out, num_bytes);
}

std::uint8_t* write_bytes(std::uint8_t* out, const void* data, std::size_t size) {
  if (size > 0) std::memcpy(out, data, size);
  return out + size;
}

struct Row {
  std::size_t first;
  std::size_t size;
};

Row row_of(const Column& column, std::size_t row) {
  if (column.splits == nullptr) return {row * column.row_size, column.row_size};
  return {static_cast<std::size_t>(column.splits[row]),
          static_cast<std::size_t>(column.splits[row + 1] - column.splits[row])};
}

const Span* strings(const Column& column, Row row) { return static_cast<const Span*>(column.values) + row.first; }
const float* floats(const Column& column, Row row) { return static_cast<const float*>(column.values) + row.first; }
const std::int64_t* ints(const Column& column, Row row) {
  return static_cast<const std::int64_t*>(column.values) + row.first;
}

// The values alone: packed numbers without their tag, strings with theirs.
std::size_t values_size(const Column& column, Row row) {
  std::size_t size = 0;
  switch (column.kind) {
    case Kind::none:
      return 0;
    case Kind::floats:
      return row.size * sizeof(float);
    case Kind::ints:
      for (std::size_t i = 0; i < row.size; ++i) size += varint_size(static_cast<std::uint64_t>(ints(column, row)[i]));
      return size;
    default:
      for (std::size_t i = 0; i < row.size; ++i) size += field_size(strings(column, row)[i].size);
      return size;
  }
}

std::size_t list_size(const Column& column, std::size_t values) {
  return column.kind == Kind::bytes || values == 0 ? values : field_size(values);
}

std::size_t feature_size(const Column& column, std::size_t values) {
  return column.kind == Kind::none ? 0 : field_size(list_size(column, values));
}

std::uint8_t* write_feature(const Column& column, Row row, std::size_t values, std::uint8_t* out) {
  if (column.kind == Kind::none) return out;
  out = open_field(out, tag_of(static_cast<std::uint32_t>(column.kind), kDelimited), list_size(column, values));
  if (row.size == 0) return out;
  switch (column.kind) {
    case Kind::floats:
      return write_bytes(open_field(out, kFirst, values), floats(column, row), values);
    case Kind::ints:
      out = open_field(out, kFirst, values);
      for (std::size_t i = 0; i < row.size; ++i) out = write_varint(out, static_cast<std::uint64_t>(ints(column, row)[i]));
      return out;
    default:
      for (std::size_t i = 0; i < row.size; ++i) {
        const Span& value = strings(column, row)[i];
        out = write_bytes(open_field(out, kFirst, value.size), value.data, value.size);
      }
      return out;
  }
}

std::size_t entry_size(const Column& column, std::size_t value) {
  return field_size(column.key.size()) + field_size(value);
}

std::uint8_t* open_entry(const Column& column, std::size_t value, std::uint8_t* out) {
  out = open_field(out, kFirst, entry_size(column, value));
  out = write_bytes(open_field(out, kFirst, column.key.size()), column.key.data(), column.key.size());
  return open_field(out, kSecond, value);
}

}  // namespace

void check_column(const Column& column, std::size_t num_rows) {
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument("column '" + column.key + "' " + what);
  };
  if (column.splits == nullptr) {
    if (column.row_size > 0 && num_rows > column.num_values / column.row_size) {
      refuse("has " + std::to_string(column.num_values) + " values, too few for " + std::to_string(num_rows) +
             " rows of " + std::to_string(column.row_size));
    }
    return;
  }
  for (std::size_t r = 0; r < num_rows; ++r) {
    if (column.splits[r] < 0 || column.splits[r] > column.splits[r + 1]) {
      refuse("has row splits that fall, at row " + std::to_string(r));
    }
  }
  if (num_rows > 0 && static_cast<std::uint64_t>(column.splits[num_rows]) > column.num_values) {
    refuse("has row splits up to " + std::to_string(column.splits[num_rows]) + ", but only " +
           std::to_string(column.num_values) + " values");
  }
}

std::size_t ExampleEncoder::measure_example(std::size_t row) {
  const std::size_t own = sizes_.size();
  sizes_.push_back(0);
  std::size_t features = 0;
  for (const Column& column : columns_) {
    const std::size_t values = measure(values_size(column, row_of(column, row)));
    features += field_size(entry_size(column, feature_size(column, values)));
  }
  sizes_[own] = features;
  return field_size(features);
}

std::uint8_t* ExampleEncoder::write_example(std::size_t row, std::uint8_t* out) {
  out = open_field(out, kFirst, measured());
  for (const Column& column : columns_) {
    const std::size_t values = measured();
    out = open_entry(column, feature_size(column, values), out);
    out = write_feature(column, row_of(column, row), values, out);
  }
  return out;
}

std::size_t ExampleEncoder::measure_feature_lists(const std::vector<std::size_t>& num_steps) {
  const std::size_t own = sizes_.size();
  sizes_.push_back(0);
  std::size_t lists = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t own_list = sizes_.size();
    sizes_.push_back(0);
    std::size_t list = 0;
    for (std::size_t step = 0; step < num_steps[i]; ++step) {
      list += field_size(feature_size(columns_[i], measure(values_size(columns_[i], row_of(columns_[i], step)))));
    }
    sizes_[own_list] = list;
    lists += field_size(entry_size(columns_[i], list));
  }
  sizes_[own] = lists;
  return field_size(lists);
}

std::uint8_t* ExampleEncoder::write_feature_lists(const std::vector<std::size_t>& num_steps, std::uint8_t* out) {
  out = open_field(out, kSecond, measured());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    out = open_entry(columns_[i], measured(), out);
    for (std::size_t step = 0; step < num_steps[i]; ++step) {
      const std::size_t values = measured();
      out = open_field(out, kFirst, feature_size(columns_[i], values));
      out = write_feature(columns_[i], row_of(columns_[i], step), values, out);
    }
  }
  return out;
}

}  // namespace penstock
