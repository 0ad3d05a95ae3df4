// Whether an array lies as other libraries take it without a copy; NumPy takes long to say where one begins.

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION

#include <nanobind/nanobind.h>
#include <numpy/ndarraytypes.h>

#include <cstdint>
#include <cstring>

#include "binding.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

// By name, and only what stands in the array itself is asked for: so NumPy's table of functions is not needed.
bool is_array(PyObject* object) {
  for (PyTypeObject* type = Py_TYPE(object); type != nullptr; type = type->tp_base) {
    if (std::strcmp(type->tp_name, "numpy.ndarray") == 0) return true;
  }
  return false;
}

bool is_aligned(nb::handle object, std::size_t alignment) {
  if (!is_array(object.ptr())) throw nb::type_error("expected an array");
  if (alignment == 0) throw nb::value_error("alignment must not be 0");
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  return PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS) &&
         reinterpret_cast<std::uintptr_t>(PyArray_BYTES(array)) % alignment == 0;
}

}  // namespace

void bind_aligned(nb::module_& m) {
  m.def("is_aligned", &is_aligned, "array"_a, "alignment"_a,
        nb::sig("def is_aligned(array: NDArray[Any], alignment: int) -> bool"));
}

}  // namespace penstock::binding
