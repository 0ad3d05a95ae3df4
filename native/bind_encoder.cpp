// Bindings of example_encode.cpp.

#include <memory>

#include "binding.h"
#include "example.h"
#include "tfrecord.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

// Columns as Python gives them, kept alive: (key, kind, values, row splits or None, values per row). Values are a
// contiguous array of float32 or int64, or a list of bytes; of kind 0 there are none.
class ColumnsOf {
 public:
  explicit ColumnsOf(const nb::list& columns) {
    for (const nb::handle item : columns) add(nb::cast<nb::tuple>(item));
  }

  const std::vector<Column>& columns() const { return columns_; }

  void check(std::size_t i, std::size_t num_rows) const {
    if (columns_[i].splits != nullptr && num_splits_[i] < num_rows + 1) {
      throw std::invalid_argument("column '" + columns_[i].key + "' must have " + std::to_string(num_rows + 1) +
                                  " row splits, got " + std::to_string(num_splits_[i]));
    }
    check_column(columns_[i], num_rows);
  }

 private:
  using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
  using Ints = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;

  void add(const nb::tuple& given) {
    if (given.size() != 5) throw std::invalid_argument("a column is (key, kind, values, row_splits, row_size)");
    const auto key = nb::cast<nb::bytes>(given[0]);
    const auto kind = integer<std::int64_t>("kind", given[1]);
    Column column{std::string(key.c_str(), key.size()), static_cast<Kind>(kind), nullptr, 0, nullptr,
                  count("row_size", given[4])};
    switch (kind) {
      case 0:
        break;
      case 1: {
        strings_.push_back(std::make_unique<RecordBytes>(nb::handle(given[2])));
        column.values = strings_.back()->spans().data();
        column.num_values = strings_.back()->spans().size();
        break;
      }
      case 2:
        take<Floats>(given[2], &column);
        break;
      case 3:
        take<Ints>(given[2], &column);
        break;
      default:
        throw std::invalid_argument("kind must be 0 to 3, got " + std::to_string(kind));
    }
    std::size_t num_splits = 0;
    if (!given[3].is_none()) {
      Indices splits;
      if (!nb::try_cast(given[3], splits, false)) throw nb::type_error("row splits must be a contiguous int64 array");
      require_aligned("row splits", splits);
      column.splits = splits.data();
      num_splits = splits.size();
      kept_.push_back(nb::borrow(given[3]));
    }
    num_splits_.push_back(num_splits);
    columns_.push_back(std::move(column));
  }

  template <typename Array>
  void take(nb::handle values, Column* column) {
    Array array;
    if (!nb::try_cast(values, array, false)) {
      throw nb::type_error(("column '" + column->key + "' must be a C-contiguous array of its kind").c_str());
    }
    if (reinterpret_cast<std::uintptr_t>(array.data()) % sizeof(*array.data()) != 0) {
      throw std::invalid_argument("column '" + column->key + "' must be aligned");
    }
    column->values = array.data();
    column->num_values = array.size();
    kept_.push_back(nb::borrow(values));
  }

  std::vector<Column> columns_;
  std::vector<std::size_t> num_splits_;
  std::vector<nb::object> kept_;
  std::vector<std::unique_ptr<RecordBytes>> strings_;
};

nb::object uninitialized_bytes(std::size_t size) {
  nb::object made = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

std::uint8_t* memory_of(const nb::object& bytes) { return reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(bytes.ptr())); }

nb::object encode_examples(nb::list columns, bool framed, MutableIndices lengths) {
  const ColumnsOf given(columns);
  require_aligned("lengths", lengths);
  const std::size_t num_records = lengths.size();
  for (std::size_t i = 0; i < given.columns().size(); ++i) given.check(i, num_records);
  ExampleEncoder encoder(given.columns());
  const std::size_t frame = framed ? kRecordFrame : 0;
  std::size_t total = 0;
  const auto measure = [&] {
    for (std::size_t r = 0; r < num_records; ++r) {
      const std::size_t size = encoder.measure_example(r);
      lengths.data()[r] = static_cast<std::int64_t>(size);
      total += size + frame;
    }
  };
  const auto write = [&](std::uint8_t* out) {
    for (std::size_t r = 0; r < num_records; ++r) {
      if (framed) {
        encoder.write_example(r, out + kRecordHeader);
        frame_in_place(out, static_cast<std::size_t>(lengths.data()[r]));
      } else {
        encoder.write_example(r, out);
      }
      out += static_cast<std::size_t>(lengths.data()[r]) + frame;
    }
  };
  if (num_records < 16) {
    measure();
    nb::object out = uninitialized_bytes(total);
    write(memory_of(out));
    return out;
  }
  {
    const nb::gil_scoped_release no_gil;
    measure();
  }
  nb::object out = uninitialized_bytes(total);
  const nb::gil_scoped_release no_gil;
  write(memory_of(out));
  return out;
}

nb::object encode_feature_lists(nb::list columns, nb::list num_steps) {
  const ColumnsOf given(columns);
  std::vector<std::size_t> steps;
  for (const nb::handle item : num_steps) steps.push_back(count("num_steps", item));
  if (steps.size() != given.columns().size()) throw std::invalid_argument("one number of steps for each column");
  for (std::size_t i = 0; i < steps.size(); ++i) given.check(i, steps[i]);
  ExampleEncoder encoder(given.columns());
  nb::object out = uninitialized_bytes(encoder.measure_feature_lists(steps));
  encoder.write_feature_lists(steps, memory_of(out));
  return out;
}

}  // namespace

void bind_encoder(nb::module_& m) {
  m.def("encode_examples", &encode_examples, "columns"_a, "framed"_a, "lengths"_a.noconvert(),
        nb::sig("def encode_examples(columns: list[EncodedColumn], framed: bool, lengths: NDArray[int64]) -> bytes"));
  m.def("encode_feature_lists", &encode_feature_lists, "columns"_a, "num_steps"_a,
        nb::sig("def encode_feature_lists(columns: list[EncodedColumn], num_steps: list[int]) -> bytes"));
}

}  // namespace penstock::binding
