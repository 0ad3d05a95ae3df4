// One Example of a dict of plain Python and NumPy values, without a detour through arrays.
//
// Only what is plain is taken: Python's own numbers and strings, flat lists of one kind of them, and C-contiguous arrays
// of the common dtypes. For anything else, mistakes included, the answer is None: src/penstock/io/example_encoder.py
// knows the rest and has the words. A record of two arrays takes 1 µs here and 7 µs there.

#include <algorithm>
#include <cstring>
#include <vector>

#include "binding.h"
#include "example.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

class PlainColumns {
 public:
  explicit PlainColumns(std::size_t num_columns) {
    columns_.reserve(num_columns);
    buffers_.reserve(num_columns);
  }
  ~PlainColumns() {
    for (Py_buffer& buffer : buffers_) PyBuffer_Release(&buffer);
  }
  PlainColumns(const PlainColumns&) = delete;
  PlainColumns& operator=(const PlainColumns&) = delete;

  // False if the value is not plain.
  bool add(PyObject* key, PyObject* value) {
    Span name;
    if (!PyUnicode_CheckExact(key) || !utf8(key, &name)) return false;
    columns_.push_back({std::string(reinterpret_cast<const char*>(name.data), name.size), Kind::none, nullptr, 0, nullptr, 0});
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) return take_items(value);
    if (is_numeric(Py_TYPE(value)->tp_name)) return take_array(value);
    return take_items_of(&value, 1);
  }

  std::vector<Column>& columns() { return columns_; }

 private:
  // Columns point into the inner vectors, which stay where they are when the outer one grows.
  template <typename T>
  using Kept = std::vector<std::vector<T>>;

  template <typename T>
  bool keep(Kind kind, Kept<T>& store, std::vector<T> values) {
    store.push_back(std::move(values));
    return keep(kind, store.back().data(), store.back().size());
  }

  bool keep(Kind kind, const void* values, std::size_t size) {
    Column& column = columns_.back();
    column.kind = kind;
    column.values = values;
    column.num_values = column.row_size = size;
    return true;
  }

  // Of NumPy's types only these: others lend bytes that mean something else, dates for example.
  static bool is_numeric(const char* type) {
    for (const char* name : {"numpy.ndarray", "numpy.float32", "numpy.float64", "numpy.int64", "numpy.int32", "numpy.uint8"}) {
      if (std::strcmp(type, name) == 0) return true;
    }
    return false;
  }

  static bool utf8(PyObject* text, Span* out) {
    Py_ssize_t size;
    const char* data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data == nullptr) {
      PyErr_Clear();
      return false;
    }
    *out = {reinterpret_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size)};
    return true;
  }

  bool take_items(PyObject* sequence) {
    const auto size = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence));
    return size == 0 || take_items_of(PySequence_Fast_ITEMS(sequence), size);
  }

  bool take_items_of(PyObject** items, std::size_t size) {
    const auto all = [&](auto is) { return std::all_of(items, items + size, is); };
    const auto is_int = [](PyObject* item) { return PyLong_Check(item) && (PyLong_CheckExact(item) || PyBool_Check(item)); };
    if (all([](PyObject* item) { return PyBytes_CheckExact(item) || PyUnicode_CheckExact(item); })) {
      return take_strings(items, size);
    }
    if (all(is_int)) return take_ints(items, size);
    if (!all([](PyObject* item) { return PyFloat_CheckExact(item); })) return false;
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(PyFloat_AS_DOUBLE(items[i]));
    return keep(Kind::floats, floats_, std::move(values));
  }

  bool take_ints(PyObject** items, std::size_t size) {
    std::vector<std::int64_t> values(size);
    for (std::size_t i = 0; i < size; ++i) {
      int overflow;
      values[i] = PyLong_AsLongLongAndOverflow(items[i], &overflow);
      if (overflow != 0) return false;
    }
    return keep(Kind::ints, ints_, std::move(values));
  }

  bool take_strings(PyObject** items, std::size_t size) {
    std::vector<Span> values(size);
    for (std::size_t i = 0; i < size; ++i) {
      if (PyBytes_CheckExact(items[i])) {
        values[i] = {reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(items[i])),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(items[i]))};
      } else if (!utf8(items[i], &values[i])) {
        return false;
      }
    }
    return keep(Kind::bytes, strings_, std::move(values));
  }

  template <typename From, typename To>
  bool take_converted(Kind kind, Kept<To>& store, const Py_buffer& view, std::size_t size) {
    std::vector<To> values(size);
    for (std::size_t i = 0; i < size; ++i) {
      From value;
      std::memcpy(&value, static_cast<const char*>(view.buf) + i * sizeof(From), sizeof(From));
      values[i] = static_cast<To>(value);
    }
    return keep(kind, store, std::move(values));
  }

  bool take_array(PyObject* array) {
    Py_buffer& view = buffers_.emplace_back();
    if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      buffers_.pop_back();
      return false;
    }
    if (view.format == nullptr || view.format[0] == 0 || view.format[1] != 0 || view.itemsize == 0) return false;
    const auto size = static_cast<std::size_t>(view.len / view.itemsize);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(view.buf) % static_cast<std::size_t>(view.itemsize) == 0;
    switch (view.format[0]) {
      case 'f':
        return is_aligned ? keep(Kind::floats, view.buf, size) : take_converted<float>(Kind::floats, floats_, view, size);
      case 'd':
        return take_converted<double>(Kind::floats, floats_, view, size);
      case 'l':
      case 'q':
        if (view.itemsize != 8) return false;
        return is_aligned ? keep(Kind::ints, view.buf, size) : take_converted<std::int64_t>(Kind::ints, ints_, view, size);
      case 'i':
        return take_converted<int>(Kind::ints, ints_, view, size);
      case 'h':
        return take_converted<short>(Kind::ints, ints_, view, size);
      case 'b':
        return take_converted<signed char>(Kind::ints, ints_, view, size);
      case 'B':
      case '?':
        return take_converted<unsigned char>(Kind::ints, ints_, view, size);
      default:
        return false;
    }
  }

  std::vector<Column> columns_;
  Kept<float> floats_;
  Kept<std::int64_t> ints_;
  Kept<Span> strings_;
  std::vector<Py_buffer> buffers_;
};

// The GIL is held throughout: nobody changes the values meanwhile, and it is short.
nb::object encode_plain_example(nb::handle features) {
  if (!PyDict_CheckExact(features.ptr())) return nb::none();
  PlainColumns plain(static_cast<std::size_t>(PyDict_GET_SIZE(features.ptr())));
  PyObject* key;
  PyObject* value;
  Py_ssize_t position = 0;
  while (PyDict_Next(features.ptr(), &position, &key, &value)) {
    if (!plain.add(key, value)) return nb::none();
  }
  std::vector<Column>& columns = plain.columns();
  std::sort(columns.begin(), columns.end(), [](const Column& a, const Column& b) { return a.key < b.key; });
  ExampleEncoder encoder(columns);
  nb::object out = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(encoder.measure_example(0))));
  if (!out.is_valid()) throw nb::python_error();
  encoder.write_example(0, reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(out.ptr())));
  return out;
}

}  // namespace

void bind_encode_one(nb::module_& m) {
  m.def("encode_plain_example", &encode_plain_example, "features"_a.none(),
        nb::sig("def encode_plain_example(features: Any) -> bytes | None"));
}

}  // namespace penstock::binding
