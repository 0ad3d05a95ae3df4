// What the bindings share: how Python's arguments become buffers and numbers, with errors that show them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "wire.h"

namespace nb = nanobind;

namespace penstock::binding {

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

inline std::size_t count(const char* name, nb::handle value) {
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

// Below this many bytes most kernels take no longer than handing the GIL over and back.
inline constexpr std::size_t kWorthTheGil = 16 * 1024;

// Bytes of many records: a list or tuple of `bytes`, or a tuple (buffer, offsets, lengths). Holds on to them, so that they
// can be read without the GIL whatever other threads do to the list.
class RecordBytes {
 public:
  explicit RecordBytes(nb::handle records);
  ~RecordBytes() {
    if (has_buffer_) PyBuffer_Release(&buffer_);
  }
  RecordBytes(const RecordBytes&) = delete;
  RecordBytes& operator=(const RecordBytes&) = delete;

  const std::vector<Span>& spans() const { return spans_; }
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  void take_strings(nb::handle records);
  void take_slices(nb::handle buffer, nb::handle offsets, nb::handle lengths);

  std::vector<Span> spans_;
  std::size_t num_bytes_ = 0;
  nb::object strings_;
  Py_buffer buffer_;
  bool has_buffer_ = false;
};

void bind_tfrecord(nb::module_& m);
void bind_example(nb::module_& m);
void bind_encoder(nb::module_& m);
void bind_encode_one(nb::module_& m);
void bind_aligned(nb::module_& m);
void bind_array_memory(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_read_records(nb::module_& m);
void bind_resize(nb::module_& m);

}  // namespace penstock::binding
