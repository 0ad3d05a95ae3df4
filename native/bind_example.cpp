// Bindings of the Example kernels: arrays checked, the GIL released, byte strings made under it.

#include <algorithm>
#include <memory>
#include <utility>

#include "binding.h"
#include "example.h"
#include "tfrecord.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

// The numbers are part of _native.pyi.
enum class Layout : int { examples = 0, single_example = 1, contexts = 2, feature_lists = 3 };

// An array of float32, int64 or objects, by its kind, C-contiguous and of any shape.
class Values {
 public:
  Values(nb::handle array, Kind kind, int flags) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT | flags) != 0) throw nb::python_error();
    const char* format = view_.format == nullptr ? "" : view_.format;
    if (format[0] == '@' || format[0] == '=') ++format;
    const char* expected = kind == Kind::floats ? "f" : kind == Kind::ints ? "lq" : "O";
    const bool fits = format[0] != 0 && format[1] == 0 && std::string(expected).find(format[0]) != std::string::npos &&
                      view_.itemsize == (kind == Kind::floats ? 4 : 8);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(view_.buf) % view_.itemsize == 0;
    if (fits && is_aligned) return;
    const std::string got = format;
    PyBuffer_Release(&view_);
    const char* name = kind == Kind::floats ? "float32" : kind == Kind::ints ? "int64" : "objects";
    if (!fits) throw nb::type_error((std::string("expected an array of ") + name + ", got format '" + got + "'").c_str());
    throw std::invalid_argument("arrays must be aligned");
  }
  Values(Values&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}
  ~Values() { PyBuffer_Release(&view_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  void* data() const { return view_.buf; }
  std::size_t size() const { return static_cast<std::size_t>(view_.len / view_.itemsize); }
  PyObject** objects() const { return static_cast<PyObject**>(view_.buf); }

 private:
  Py_buffer view_;
};

void store(PyObject** slot, PyObject* value) {
  PyObject* old = *slot;
  *slot = value;
  Py_XDECREF(old);
}

void store_strings(PyObject** slots, const std::vector<Span>& strings) {
  for (std::size_t i = 0; i < strings.size(); ++i) {
    PyObject* made = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(strings[i].data),
                                               static_cast<Py_ssize_t>(strings[i].size));
    if (made == nullptr) throw nb::python_error();
    store(slots + i, made);
  }
}

template <typename Run>
auto run_without_gil(std::size_t num_bytes, Run run) {
  if (num_bytes < kWorthTheGil) return run();
  const nb::gil_scoped_release no_gil;
  return run();
}

struct Asked {
  Features features;
  std::vector<nb::object> string_defaults;  // a tuple of bytes for each feature of strings with a default
};

// Features as found in some records: what a second call needs, to fill arrays whose size the first call has told.
class FoundFeatures {
 public:
  FoundFeatures(std::shared_ptr<const Asked> asked, std::unique_ptr<const RecordBytes> records, Layout layout,
                std::vector<Span> found)
      : asked_(std::move(asked)), records_(std::move(records)), layout_(layout), found_(std::move(found)) {}

  void fill(nb::handle feature, nb::handle out, nb::handle row_stride) const {
    const std::size_t i = number_of(feature);
    const Values values(out, asked_->features[i].kind, PyBUF_WRITABLE);
    const auto stride = count("row_stride", row_stride);
    if (asked_->features[i].kind == Kind::bytes) return fill_strings(i, values, stride);
    const std::size_t width = asked_->features[i].kind == Kind::floats ? sizeof(float) : sizeof(std::int64_t);
    run_without_gil(records_->num_bytes(), [&] {
      fill_rows(i, values.size(), stride, [&](Span span, std::size_t at, std::size_t capacity) {
        auto* row = static_cast<std::uint8_t*>(values.data()) + at * width;
        return static_cast<std::size_t>(read(asked_->features[i], span, row, capacity));
      });
    });
  }

  void count_steps(nb::handle feature, MutableIndices out) const {
    const std::size_t i = number_of(feature);
    require_aligned("out", out);
    if (layout_ != Layout::feature_lists) throw std::invalid_argument("only feature lists have steps");
    std::size_t at = 0;
    for (std::size_t r = 0; r < records_->spans().size(); ++r) {
      const Span span = found_[r * asked_->features.size() + i];
      const std::size_t room = out.size() - at;
      const std::size_t num_steps = penstock::count_steps(asked_->features[i], span, out.data() + at, room);
      if (num_steps > room) throw std::invalid_argument("out has too few numbers, " + std::to_string(out.size()));
      at += num_steps;
    }
  }

 private:
  std::size_t number_of(nb::handle feature) const {
    const auto i = count("feature", feature);
    if (i >= asked_->features.size()) throw nb::index_error("no such feature");
    return i;
  }

  // Calls `fill_row(span, at, capacity)` for every record, which says how many values there are.
  template <typename FillRow>
  void fill_rows(std::size_t feature, std::size_t size, std::size_t stride, FillRow fill_row) const {
    std::size_t at = 0;
    for (std::size_t r = 0; r < records_->spans().size(); ++r) {
      if (stride > 0) at = r * stride;
      const std::size_t room = at < size ? size - at : 0;
      const std::size_t capacity = stride > 0 ? std::min(stride, room) : room;
      const std::size_t num_values = fill_row(found_[r * asked_->features.size() + feature], size - room, capacity);
      if (num_values > capacity) {
        throw std::invalid_argument("out has room for " + std::to_string(capacity) + " values of record " +
                                    std::to_string(r) + ", which has " + std::to_string(num_values));
      }
      at += num_values;
    }
  }

  void fill_strings(std::size_t feature, const Values& values, std::size_t stride) const {
    std::vector<Span> strings;
    fill_rows(feature, values.size(), stride, [&](Span span, std::size_t at, std::size_t capacity) {
      const auto num_values = static_cast<std::size_t>(read(asked_->features[feature], span, nullptr, 0));
      if (num_values > capacity) return num_values;
      strings.resize(num_values);
      read(asked_->features[feature], span, strings.data(), num_values);
      store_strings(values.objects() + at, strings);
      return num_values;
    });
  }

  std::int64_t read(const Feature& feature, Span span, void* out, std::size_t capacity) const {
    if (layout_ == Layout::feature_lists) return read_steps(feature, span, out, capacity);
    const Proto proto = layout_ == Layout::contexts ? Proto::sequence_example : Proto::example;
    return read_values(feature, proto, span, out, capacity);
  }

  std::shared_ptr<const Asked> asked_;
  std::unique_ptr<const RecordBytes> records_;
  Layout layout_;
  std::vector<Span> found_;
};

class ExampleFeatures {
 public:
  ExampleFeatures(nb::list keys, nb::list kinds, nb::list num_values, nb::list defaults,
                  nb::list empty_replaces) {
    for (const auto size : {kinds.size(), num_values.size(), defaults.size(), empty_replaces.size()}) {
      if (size != keys.size()) throw std::invalid_argument("all lists must be as long as keys");
    }
    std::vector<Feature> features;
    std::vector<nb::object> string_defaults(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto key = nb::cast<nb::bytes>(keys[i]);
      const auto kind = integer<std::int64_t>("kind", kinds[i]);
      if (kind < 1 || kind > 3) throw std::invalid_argument("kind must be 1, 2 or 3, got " + std::to_string(kind));
      Feature feature{std::string(key.c_str(), key.size()), static_cast<Kind>(kind), !num_values[i].is_none(),
                      nb::cast<bool>(empty_replaces[i]), 0, !defaults[i].is_none(), {}};
      if (feature.is_dense) feature.num_values = count("num_values", num_values[i]);
      // Of a feature list the default only says that the list may be missing: see read_feature_lists.
      if (feature.has_default && nb::isinstance<nb::tuple>(defaults[i])) {
        const auto strings = nb::borrow<nb::tuple>(defaults[i]);
        if (feature.kind != Kind::bytes || strings.size() != feature.num_values) {
          throw std::invalid_argument("a default must have num_values values of its kind");
        }
        for (const nb::handle item : strings) {
          if (!PyBytes_Check(item.ptr())) throw nb::type_error("a default of strings must be a tuple of bytes");
        }
        string_defaults[i] = strings;
      } else if (feature.has_default) {
        const auto bytes = nb::cast<nb::bytes>(defaults[i]);
        const std::size_t width = feature.kind == Kind::floats ? sizeof(float) : sizeof(std::int64_t);
        if (feature.kind == Kind::bytes || feature.num_values > bytes.size() || bytes.size() != feature.num_values * width) {
          throw std::invalid_argument("a default must have num_values values of its kind");
        }
        const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.c_str());
        feature.default_bytes.assign(data, data + bytes.size());
      }
      features.push_back(std::move(feature));
    }
    asked_ = std::make_shared<const Asked>(Asked{Features(std::move(features)), std::move(string_defaults)});
  }

  nb::object parse(nb::handle records, nb::handle layout, nb::list outputs) const {
    const auto layout_number = integer<std::int64_t>("layout", layout);
    if (layout_number < 0 || layout_number > 3) throw std::invalid_argument("layout must be 0 to 3");
    const auto layout_ = static_cast<Layout>(layout_number);
    auto records_ = std::make_unique<const RecordBytes>(records);
    const Features& features = asked_->features;
    const Records spans{records_->spans().data(), records_->spans().size()};
    const std::vector<Values> arrays = checked_outputs(outputs, layout_, spans.size);
    std::vector<void*> pointers;
    for (const Values& array : arrays) pointers.push_back(array.data());
    std::vector<Span> found(spans.size * features.size());

    const Finding finding = run_without_gil(records_->num_bytes(), [&] {
      const bool is_sequence = layout_ == Layout::contexts || layout_ == Layout::feature_lists;
      const Proto proto = is_sequence ? Proto::sequence_example : Proto::example;
      const Empty empty = layout_ == Layout::single_example ? Empty::is_ignored : Empty::may_replace;
      const bool is_lists = layout_ == Layout::feature_lists;
      const Finding flaw = find_features(features, spans, proto, empty, is_lists ? 2 : 1, found.data());
      if (flaw.flaw != Flaw::none) return flaw;
      if (!is_lists) return read_features(features, spans, proto, found.data(), pointers.data());
      std::vector<std::int64_t*> splits;
      for (void* pointer : pointers) splits.push_back(static_cast<std::int64_t*>(pointer));
      return read_feature_lists(features, spans.size, found.data(), splits.data());
    });
    if (finding.flaw != Flaw::none) {
      return nb::make_tuple(static_cast<int>(finding.flaw), finding.record, finding.feature, finding.number, finding.step);
    }
    if (layout_ != Layout::feature_lists) store_dense_strings(layout_, spans.size, found, arrays);
    return nb::cast(FoundFeatures(asked_, std::move(records_), layout_, std::move(found)));
  }

 private:
  std::vector<Values> checked_outputs(const nb::list& outputs, Layout layout, std::size_t num_records) const {
    const Features& features = asked_->features;
    if (outputs.size() != features.size()) {
      throw std::invalid_argument("expected " + std::to_string(features.size()) + " outputs, got " +
                                  std::to_string(outputs.size()));
    }
    std::vector<Values> arrays;
    arrays.reserve(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) {
      const bool has_values = features[i].is_dense && layout != Layout::feature_lists;
      arrays.emplace_back(outputs[i], has_values ? features[i].kind : Kind::ints, PyBUF_WRITABLE);
      const std::size_t size = arrays.back().size();
      const bool fits = !has_values                  ? size == num_records + 1
                        : features[i].num_values == 0 ? size == 0
                                                      : size % features[i].num_values == 0 &&
                                                            size / features[i].num_values == num_records;
      if (!fits) {
        throw std::invalid_argument("output " + std::to_string(i) + " has " + std::to_string(size) + " items, for " +
                                    std::to_string(num_records) + " records");
      }
      if (!has_values) static_cast<std::int64_t*>(arrays.back().data())[0] = 0;
    }
    return arrays;
  }

  void store_dense_strings(Layout layout, std::size_t num_records, const std::vector<Span>& found,
                           const std::vector<Values>& arrays) const {
    const Features& features = asked_->features;
    const Proto proto = layout == Layout::contexts ? Proto::sequence_example : Proto::example;
    std::vector<Span> strings;
    for (std::size_t i = 0; i < features.size(); ++i) {
      const Feature& feature = features[i];
      if (!feature.is_dense || feature.kind != Kind::bytes) continue;
      strings.resize(feature.num_values);
      for (std::size_t r = 0; r < num_records; ++r) {
        PyObject** row = arrays[i].objects() + r * feature.num_values;
        const Span span = found[r * features.size() + i];
        if (span.size > 0) {
          read_values(feature, proto, span, strings.data(), strings.size());
          store_strings(row, strings);
          continue;
        }
        for (std::size_t k = 0; k < feature.num_values; ++k) {
          PyObject* item = PyTuple_GET_ITEM(asked_->string_defaults[i].ptr(), static_cast<Py_ssize_t>(k));
          Py_INCREF(item);
          store(row + k, item);
        }
      }
    }
  }

  std::shared_ptr<const Asked> asked_;
};

}  // namespace

void bind_example(nb::module_& m) {
  nb::class_<FoundFeatures>(m, "FoundFeatures")
      .def("fill", &FoundFeatures::fill, "feature"_a, "out"_a, "row_stride"_a,
           nb::sig("def fill(self, feature: int, out: NDArray[Any], row_stride: int) -> None"))
      .def("count_steps", &FoundFeatures::count_steps, "feature"_a, "out"_a.noconvert(),
           nb::sig("def count_steps(self, feature: int, out: NDArray[int64]) -> None"));
  nb::class_<ExampleFeatures>(m, "ExampleFeatures")
      .def(nb::init<nb::list, nb::list, nb::list, nb::list, nb::list>(), "keys"_a, "kinds"_a, "num_values"_a, "defaults"_a,
           "empty_replaces"_a)
      .def("parse", &ExampleFeatures::parse, "records"_a, "layout"_a, "outputs"_a,
           nb::sig("def parse(self, records: Records, layout: int, outputs: list[NDArray[Any]]) -> "
                   "FoundFeatures | tuple[int, int, int, int, int]"));
}

}  // namespace penstock::binding
