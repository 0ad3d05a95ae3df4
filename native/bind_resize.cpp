// resize_bilinear for Python: which dtypes and layouts there are, and room for the rows in between.

#include <string>
#include <vector>

#include "binding.h"
#include "kernels.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

class Lent {
 public:
  Lent(nb::handle array, int flags) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_FORMAT | flags) != 0) throw nb::python_error();
  }
  ~Lent() { PyBuffer_Release(&view_); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  const Py_buffer* operator->() const { return &view_; }
  char format() const { return view_.format == nullptr || view_.format[0] == 0 || view_.format[1] != 0 ? 0 : view_.format[0]; }
  std::size_t size(int axis) const { return static_cast<std::size_t>(view_.shape[axis]); }
  bool is_aligned() const {
    return reinterpret_cast<std::uintptr_t>(view_.buf) % static_cast<std::size_t>(view_.itemsize) == 0 &&
           view_.strides[0] % view_.itemsize == 0;
  }

 private:
  Py_buffer view_;
};

// What fits into a Tap.
constexpr std::size_t kMostPlaces = 0xffffffff;

using Kernel = void (*)(const Pixels&, const Resize&, float*, float*);

Kernel kernel_of(char format) {
  switch (format) {
    case 'B':
      return resize_bilinear<std::uint8_t>;
    case 'b':
      return resize_bilinear<std::int8_t>;
    case 'H':
      return resize_bilinear<std::uint16_t>;
    case 'h':
      return resize_bilinear<std::int16_t>;
    case 'i':
      return resize_bilinear<std::int32_t>;
    case 'f':
      return resize_bilinear<float>;
    case 'd':
      return resize_bilinear<double>;
    default:
      return nullptr;
  }
}

void resize_bilinear_into(nb::handle image, nb::handle out) {
  const Lent from(image, PyBUF_STRIDES);
  const Lent to(out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const Kernel kernel = kernel_of(from.format());
  if (kernel == nullptr) throw std::invalid_argument("image must be of 8 or 16 bits, int32, float32 or float64");
  if (to.format() != 'f') throw std::invalid_argument("out must be float32");
  if (from->ndim != 3 || to->ndim != 3 || from->shape[2] != to->shape[2]) {
    throw std::invalid_argument("image and out must be (height, width, channels), with channels the same");
  }
  if (from->len == 0 || to->len == 0) throw std::invalid_argument("image and out must have pixels");
  if (from->strides[2] != from->itemsize || from->strides[1] != from->shape[2] * from->itemsize) {
    throw std::invalid_argument("each row of image must be contiguous");
  }
  if (!from.is_aligned() || !to.is_aligned()) throw std::invalid_argument("image and out must be aligned");
  const Pixels pixels{static_cast<const std::uint8_t*>(from->buf), from.size(0), from.size(1), from.size(2),
                      static_cast<std::ptrdiff_t>(from->strides[0])};
  if (pixels.height > kMostPlaces || pixels.width > kMostPlaces / pixels.channels) {
    throw std::invalid_argument("image must have less than 2**32 rows, and values in a row");
  }
  const nb::gil_scoped_release no_gil;
  std::vector<Tap> taps(to.size(0) + to.size(1));
  const Resize resize{taps.data(), taps.data() + to.size(0), to.size(0), to.size(1)};
  make_taps(pixels.height, resize.height, 1, taps.data());
  make_taps(pixels.width, resize.width, pixels.channels, taps.data() + resize.height);
  std::vector<float> scratch(resize_scratch(pixels, resize));
  kernel(pixels, resize, scratch.data(), static_cast<float*>(to->buf));
}

}  // namespace

void bind_resize(nb::module_& m) {
  m.def("resize_bilinear", &resize_bilinear_into, "image"_a, "out"_a,
        nb::sig("def resize_bilinear(image: NDArray[Any], out: NDArray[float32]) -> None"));
}

}  // namespace penstock::binding
