// Leaves of one element written to their row of columns: what NumPy does too, with all it finds out each time known.

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION

#include <nanobind/nanobind.h>
#include <numpy/ndarraytypes.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "binding.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

// Only what stands in the array itself is asked for, so that NumPy's table of functions is not needed.
PyArrayObject* array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }
PyObject* dtype(PyObject* object) { return reinterpret_cast<PyObject*>(PyArray_DESCR(array(object))); }

bool have_rows_of_shape(PyObject* column, PyObject* leaf) {
  const int ndim = PyArray_NDIM(array(leaf));
  if (PyArray_NDIM(array(column)) != ndim + 1) return false;
  const npy_intp* shape = PyArray_DIMS(array(leaf));
  return std::equal(shape, shape + ndim, PyArray_DIMS(array(column)) + 1);
}

bool are_equal(PyObject* a, PyObject* b) {
  if (a == b) return true;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal == 1;
}

// Of other scalars one type has many dtypes: lengths, units, fields.
bool is_number(PyObject* column) { return std::strchr("biufc", PyArray_DESCR(array(column))->kind) != nullptr; }

void assign(PyObject* column, nb::handle i, PyObject* leaf) {
  if (PyObject_SetItem(column, i.ptr(), leaf) != 0) throw nb::python_error();
}

// Whether both lie in one piece, and bytes are all there is to them: objects are counted, and fields may be objects.
// Strides tell how long a row is only where there are two rows, and something in them.
bool can_copy(PyObject* column, PyObject* leaf) {
  const npy_intp* shape = PyArray_DIMS(array(column));
  const char kind = PyArray_DESCR(array(column))->kind;
  return dtype(leaf) == dtype(column) && kind != 'O' && kind != 'V' && shape[0] > 1 && PyArray_CHKFLAGS(array(leaf), NPY_ARRAY_C_CONTIGUOUS) &&
         PyArray_CHKFLAGS(array(column), NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE) &&
         std::find(shape, shape + PyArray_NDIM(array(column)), 0) == shape + PyArray_NDIM(array(column));
}

void copy(PyObject* column, Py_ssize_t i, PyObject* leaf) {
  const auto row_bytes = static_cast<std::size_t>(PyArray_STRIDES(array(column))[0]);
  char* to = PyArray_BYTES(array(column)) + static_cast<std::size_t>(i) * row_bytes;
  const char* from = PyArray_BYTES(array(leaf));
  if (row_bytes < kWorthTheGil) {
    std::memmove(to, from, row_bytes);
    return;
  }
  const nb::gil_scoped_release no_gil;
  std::memmove(to, from, row_bytes);
}

bool write(PyObject* column, PyTypeObject* type, nb::handle i, Py_ssize_t row, PyObject* leaf, PyTypeObject* ndarray) {
  if (Py_TYPE(leaf) != type) return false;
  if (type != ndarray) {
    if (!is_number(column) && !are_equal(nb::object(nb::handle(leaf).attr("dtype")).ptr(), dtype(column))) return false;
    assign(column, i, leaf);
    return true;
  }
  if (!have_rows_of_shape(column, leaf)) return false;
  // Bytes mean the same where the dtype is the very same; of two that count as equal NumPy knows.
  if (can_copy(column, leaf)) {
    copy(column, row, leaf);
    return true;
  }
  if (!are_equal(dtype(leaf), dtype(column))) return false;
  assign(column, i, leaf);
  return true;
}

bool write_row(nb::tuple columns, nb::tuple types, nb::handle i, nb::tuple leaves) {
  const Py_ssize_t size = PyTuple_GET_SIZE(columns.ptr());
  if (PyTuple_GET_SIZE(types.ptr()) != size || PyTuple_GET_SIZE(leaves.ptr()) != size) {
    throw std::invalid_argument("expected as many types and leaves as columns");
  }
  const Py_ssize_t row = PyLong_AsSsize_t(i.ptr());
  if (row == -1 && PyErr_Occurred()) throw nb::python_error();
  for (Py_ssize_t k = 0; k < size; ++k) {
    PyObject* column = PyTuple_GET_ITEM(columns.ptr(), k);
    PyTypeObject* ndarray = Py_TYPE(column);
    if (std::strcmp(ndarray->tp_name, "numpy.ndarray") != 0) throw nb::type_error("columns must be arrays");
    if (PyArray_NDIM(array(column)) == 0 || row < 0 || row >= PyArray_DIM(array(column), 0)) {
      throw nb::index_error(("row " + std::to_string(row) + " is outside a column").c_str());
    }
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(types.ptr(), k));
    if (!write(column, type, i, row, PyTuple_GET_ITEM(leaves.ptr(), k), ndarray)) return false;
  }
  return true;
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("write_row", &write_row, "columns"_a, "types"_a, "row"_a, "leaves"_a,
        nb::sig("def write_row(columns: tuple[NDArray[Any], ...], types: tuple[type, ...], row: int, "
                "leaves: tuple[Any, ...]) -> bool"));
}

}  // namespace penstock::binding
