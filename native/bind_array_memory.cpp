// Arrays that NumPy makes in a thread lie in an ArrayMemory as long as that thread says so: NumPy's own way (NEP 49).

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <numpy/arrayobject.h>

#include <tuple>

#include "array_memory.h"
#include "binding.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

// NumPy's name for capsules of handlers.
constexpr const char* kCapsule = "mem_handler";

ArrayMemory& memory_of(void* context) { return *static_cast<ArrayMemory*>(context); }

void* allocate(void* context, std::size_t nbytes) { return memory_of(context).allocate(nbytes); }

void* allocate_zeroed(void* context, std::size_t count, std::size_t each_bytes) {
  if (each_bytes != 0 && count > SIZE_MAX / each_bytes) return nullptr;
  return memory_of(context).allocate_zeroed(count * each_bytes);
}

void* resize(void* context, void* data, std::size_t nbytes) { return memory_of(context).resize(data, nbytes); }

void release(void* context, void* data, std::size_t) { memory_of(context).release(data); }

// Lives as long as its capsule, which every array made with it refers to.
struct Handler {
  Handler(std::size_t mapped_from_bytes, std::size_t counted_to_bytes)
      : memory(mapped_from_bytes, counted_to_bytes),
        numpys{"penstock_arrays", 1, {&memory, allocate, allocate_zeroed, resize, release}} {}

  ArrayMemory memory;
  PyDataMem_Handler numpys;
};

void drop_handler(PyObject* capsule) { delete static_cast<Handler*>(PyCapsule_GetContext(capsule)); }

void need_numpy() {
  if (PyArray_API == nullptr && _import_array() < 0) throw nb::python_error();
}

nb::object array_memory(nb::handle mapped_from_bytes, nb::handle counted_to_bytes) {
  auto* handler =
      new Handler(count("mapped_from_bytes", mapped_from_bytes), count("counted_to_bytes", counted_to_bytes));
  const nb::object capsule = nb::steal(PyCapsule_New(&handler->numpys, kCapsule, drop_handler));
  if (!capsule.is_valid()) {
    delete handler;
    throw nb::python_error();
  }
  if (PyCapsule_SetContext(capsule.ptr(), handler) != 0) throw nb::python_error();
  return capsule;
}

nb::object use_array_memory(nb::handle memory) {
  need_numpy();
  if (!PyCapsule_IsValid(memory.ptr(), kCapsule)) {
    throw nb::type_error("expected what array_memory or use_array_memory returned");
  }
  nb::object previous = nb::steal(PyDataMem_SetHandler(memory.ptr()));
  if (!previous.is_valid()) throw nb::python_error();
  return previous;
}

// Only of what `array_memory` made: other capsules of this name have other contexts.
ArrayMemory& ours(nb::handle memory) {
  if (!PyCapsule_IsValid(memory.ptr(), kCapsule) || PyCapsule_GetDestructor(memory.ptr()) != drop_handler) {
    throw nb::type_error("expected what array_memory returned");
  }
  return static_cast<Handler*>(PyCapsule_GetContext(memory.ptr()))->memory;
}

void keep_arrays(nb::handle memory, nb::handle nbytes) { ours(memory).keep(count("nbytes", nbytes)); }

std::tuple<std::size_t, std::size_t> mapped_so_far(nb::handle memory) {
  return {ours(memory).mapped_bytes(), ours(memory).largest_bytes()};
}

nb::object used_array_memory() {
  need_numpy();
  nb::object memory = nb::steal(PyDataMem_GetHandler());
  if (!memory.is_valid()) throw nb::python_error();
  return memory;
}

}  // namespace

void bind_array_memory(nb::module_& m) {
  m.def("array_memory", &array_memory, "mapped_from_bytes"_a, "counted_to_bytes"_a,
        nb::sig("def array_memory(mapped_from_bytes: int, counted_to_bytes: int) -> object"));
  m.def("use_array_memory", &use_array_memory, "memory"_a, nb::sig("def use_array_memory(memory: object) -> object"));
  m.def("keep_arrays", &keep_arrays, "memory"_a, "nbytes"_a,
        nb::sig("def keep_arrays(memory: object, nbytes: int) -> None"));
  m.def("mapped_so_far", &mapped_so_far, "memory"_a, nb::sig("def mapped_so_far(memory: object) -> tuple[int, int]"));
  m.def("used_array_memory", &used_array_memory, nb::sig("def used_array_memory() -> object"));
}

}  // namespace penstock::binding
