// penstock._native: checks what Python hands over, releases the GIL, calls a kernel. See kernels.h.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableIndices = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Any Python or NumPy integer. A number that does not fit is a ValueError that shows it; left to nanobind it would be
// a TypeError about overloads.
template <typename T>
T integer(const char* name, nb::handle value) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  constexpr bool is_signed = static_cast<T>(-1) < 0;
  T result;
  if constexpr (is_signed) {
    result = static_cast<T>(PyLong_AsLongLong(number.ptr()));
  } else {
    result = static_cast<T>(PyLong_AsUnsignedLongLong(number.ptr()));
  }
  if (result == static_cast<T>(-1) && PyErr_Occurred()) {
    PyErr_Clear();
    const std::string range = is_signed ? "[-2**63, 2**63)" : "[0, 2**64)";
    throw std::invalid_argument(std::string(name) + " must be within " + range + ", got " + nb::repr(number).c_str());
  }
  return result;
}

std::size_t count(const char* name, nb::handle value) {
  const auto result = integer<std::int64_t>(name, value);
  if (result < 0) throw std::invalid_argument(std::string(name) + " must not be negative, got " + std::to_string(result));
  return static_cast<std::size_t>(result);
}

// NumPy makes unaligned arrays (np.frombuffer at an odd offset); the compiler takes it that there are none.
template <typename A>
void require_aligned(const char* name, const A& array) {
  if (reinterpret_cast<std::uintptr_t>(array.data()) % alignof(std::int64_t) != 0) {
    throw std::invalid_argument(std::string(name) + " must be aligned to " + std::to_string(alignof(std::int64_t)) +
                                " bytes");
  }
}

template <typename A, typename B>
bool overlap(const A& a, const B& b) {
  if (a.size() == 0 || b.size() == 0) return false;
  // std::less orders pointers into different arrays, which a plain < need not.
  const std::less<const std::int64_t*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

void permute(nb::handle n, nb::handle key, nb::handle start, MutableIndices out) {
  const auto n_ = integer<std::int64_t>("n", n);
  const auto key_ = integer<std::uint64_t>("key", key);
  const auto start_ = integer<std::int64_t>("start", start);
  require_aligned("out", out);
  const nb::gil_scoped_release no_gil;
  penstock::permute(n_, key_, start_, out.data(), out.size());
}

void permute_at(nb::handle n, nb::handle key, Indices index, MutableIndices out) {
  const auto n_ = integer<std::int64_t>("n", n);
  const auto key_ = integer<std::uint64_t>("key", key);
  require_aligned("index", index);
  require_aligned("out", out);
  if (index.size() != out.size()) {
    throw std::invalid_argument("index and out must have the same length, got " + std::to_string(index.size()) +
                                " and " + std::to_string(out.size()));
  }
  if (index.data() != out.data() && overlap(index, out)) {
    throw std::invalid_argument("index and out must be the same memory or share none of it");
  }
  const nb::gil_scoped_release no_gil;
  penstock::permute_at(n_, key_, index.data(), out.data(), out.size());
}

std::tuple<std::size_t, std::size_t, std::size_t> window_shuffle(MutableIndices slots, nb::handle filled,
                                                                 Indices incoming, bool draining, nb::handle key,
                                                                 nb::handle step, MutableIndices out) {
  const auto filled_ = count("filled", filled);
  const auto key_ = integer<std::uint64_t>("key", key);
  const auto step_ = count("step", step);
  require_aligned("slots", slots);
  require_aligned("incoming", incoming);
  require_aligned("out", out);
  if (overlap(slots, incoming) || overlap(slots, out) || overlap(incoming, out)) {
    throw std::invalid_argument("slots, incoming and out must not share memory");
  }
  const nb::gil_scoped_release no_gil;
  const auto progress = penstock::window_shuffle(slots.data(), slots.size(), filled_, incoming.data(), incoming.size(),
                                                 draining, key_, step_, out.data(), out.size());
  return {progress.consumed, progress.produced, progress.filled};
}

// The memory of a C-contiguous array of any dtype. NumPy's own refusals (another layout, read-only) pass through.
class Memory {
 public:
  Memory(nb::handle array, int flags) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_ND | flags) != 0) throw nb::python_error();
    if (view_.ndim == 0) {
      PyBuffer_Release(&view_);
      throw std::invalid_argument("expected arrays with a first axis, got a scalar");
    }
  }
  ~Memory() { PyBuffer_Release(&view_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(view_.buf); }
  std::size_t num_rows() const { return static_cast<std::size_t>(view_.shape[0]); }
  std::size_t row_bytes() const {
    std::size_t result = static_cast<std::size_t>(view_.itemsize);
    for (int i = 1; i < view_.ndim; ++i) result *= static_cast<std::size_t>(view_.shape[i]);
    return result;
  }

 private:
  Py_buffer view_;
};

// Below this a gather takes no longer than handing the GIL over and back.
constexpr std::size_t kWorthTheGil = 16 * 1024;

void gather(nb::handle rows, Indices index, nb::handle start, nb::handle out) {
  const Memory rows_(rows, 0);
  const Memory out_(out, PyBUF_WRITABLE);
  const auto start_ = count("start", start);
  require_aligned("index", index);
  if (rows_.row_bytes() != out_.row_bytes()) {
    throw std::invalid_argument("rows and out must have rows of one size, got " + std::to_string(rows_.row_bytes()) +
                                " and " + std::to_string(out_.row_bytes()) + " bytes");
  }
  if (start_ > index.size() || out_.num_rows() > index.size() - start_) {
    throw std::invalid_argument("index must have " + std::to_string(out_.num_rows()) + " numbers from " +
                                std::to_string(start_) + " on, one for each row of out, got " +
                                std::to_string(index.size()) + " in all");
  }
  const penstock::Table table{rows_.data(), rows_.num_rows(), rows_.row_bytes()};
  const auto run = [&] {
    penstock::gather(table, index.data() + start_, out_.num_rows(), index.size() - start_, out_.data());
  };
  if (out_.num_rows() * table.row_bytes < kWorthTheGil) return run();
  const nb::gil_scoped_release no_gil;
  run();
}

}  // namespace

// The documentation of these functions is in src/penstock/_native.pyi.
NB_MODULE(_native, m) {
  m.doc() = "Kernels over buffers: no state, no threads, no policy. Types and contracts: _native.pyi.";
  m.def("permute", &permute, "n"_a, "key"_a, "start"_a, "out"_a.noconvert(),
        nb::sig("def permute(n: int, key: int, start: int, out: NDArray[int64]) -> None"));
  m.def("permute_at", &permute_at, "n"_a, "key"_a, "index"_a.noconvert(), "out"_a.noconvert(),
        nb::sig("def permute_at(n: int, key: int, index: NDArray[int64], out: NDArray[int64]) -> None"));
  m.def("window_shuffle", &window_shuffle, "slots"_a.noconvert(), "filled"_a, "incoming"_a.noconvert(), "draining"_a,
        "key"_a, "step"_a, "out"_a.noconvert(),
        nb::sig("def window_shuffle(slots: NDArray[int64], filled: int, incoming: NDArray[int64], draining: bool, "
                "key: int, step: int, out: NDArray[int64]) -> tuple[int, int, int]"));
  m.def("gather", &gather, "rows"_a, "index"_a.noconvert(), "start"_a, "out"_a,
        nb::sig("def gather(rows: NDArray[Any], index: NDArray[int64], start: int, out: NDArray[Any]) -> None"));
}
