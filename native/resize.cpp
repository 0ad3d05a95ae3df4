// Bilinear resize into float32, with TensorFlow's arithmetic: each step of a result is rounded as it is there, so that
// results are equal to the last bit. For that the compiler must not join a product and a sum (CMakeLists.txt).
//
// A row of the result lies between two rows of the image. Those are brought to the new width one at a time, and kept until
// the result has passed them: an image of bytes is never all floats, and rows that no result looks at are not even
// read. 500 x 375 bytes to 224 x 224: 0.10 ms; conversion of all to floats and OpenCV's resize of those 0.13 ms.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define PENSTOCK_RESIZE_AVX2 1
#endif
#if defined(__GNUC__)
#define PENSTOCK_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define PENSTOCK_ALWAYS_INLINE inline
#endif

namespace penstock {
namespace {

#if defined(__GNUC__)
// Three channels are computed as four, which processors do at once: what the fourth writes is overwritten by the next.
typedef float Four __attribute__((vector_size(16)));

template <std::size_t kChannels>
PENSTOCK_ALWAYS_INLINE void widen_by_fours(const float* levels, const Tap* taps, std::size_t num_taps, float* out) {
  for (std::size_t x = 0; x < num_taps; ++x) {
    Four left, right;
    std::memcpy(&left, levels + taps[x].lower, sizeof(Four));
    std::memcpy(&right, levels + taps[x].upper, sizeof(Four));
    const float share = taps[x].share;
    left += (right - left) * Four{share, share, share, share};
    std::memcpy(out + x * kChannels, &left, sizeof(Four));
  }
}
#endif

PENSTOCK_ALWAYS_INLINE void widen_any(const float* levels, const Tap* taps, std::size_t num_taps, std::size_t channels,
                                      float* out) {
  for (std::size_t x = 0; x < num_taps; ++x) {
    const float* left = levels + taps[x].lower;
    const float* right = levels + taps[x].upper;
    for (std::size_t c = 0; c < channels; ++c) *out++ = left[c] + (right[c] - left[c]) * taps[x].share;
  }
}

// One row in its new width. `levels` is room for it as floats.
template <typename T>
PENSTOCK_ALWAYS_INLINE void widen(const Pixels& image, std::size_t y, const Resize& resize, float* __restrict levels,
                                  float* out) {
  const T* __restrict row = reinterpret_cast<const T*>(image.data + static_cast<std::ptrdiff_t>(y) * image.row_stride);
  const std::size_t size = image.width * image.channels;
  for (std::size_t i = 0; i < size; ++i) levels[i] = static_cast<float>(row[i]);
#if defined(__GNUC__)
  if (image.channels == 3) return widen_by_fours<3>(levels, resize.columns, resize.width, out);
  if (image.channels == 4) return widen_by_fours<4>(levels, resize.columns, resize.width, out);
#endif
  widen_any(levels, resize.columns, resize.width, image.channels, out);
}

template <typename T>
PENSTOCK_ALWAYS_INLINE void resize_rows(const Pixels& image, const Resize& resize, float* scratch, float* out) {
  const std::size_t num_in = image.width * image.channels, num_out = resize.width * image.channels;
  float* levels = scratch;
  float* above = levels + num_in + kResizePad;
  float* below = above + num_out + kResizePad;
  std::size_t y_above = image.height, y_below = image.height;  // rows that are there: none
  for (std::size_t y = 0; y < resize.height; ++y) {
    const Tap& tap = resize.rows[y];
    if (tap.lower != y_above) {
      if (tap.lower == y_below) {
        std::swap(above, below);
        std::swap(y_above, y_below);
      } else {
        widen<T>(image, tap.lower, resize, levels, above);
        y_above = tap.lower;
      }
    }
    if (tap.upper != tap.lower && tap.upper != y_below) {
      widen<T>(image, tap.upper, resize, levels, below);
      y_below = tap.upper;
    }
    const float* __restrict top = above;
    const float* __restrict bottom = tap.upper == tap.lower ? above : below;
    float* __restrict to = out + y * num_out;
    for (std::size_t i = 0; i < num_out; ++i) to[i] = top[i] + (bottom[i] - top[i]) * tap.share;
  }
}

#ifdef PENSTOCK_RESIZE_AVX2
template <typename T>
__attribute__((target("avx2"))) void resize_rows_avx2(const Pixels& image, const Resize& resize, float* scratch,
                                                      float* out) {
  resize_rows<T>(image, resize, scratch, out);
}
#endif

}  // namespace

void make_taps(std::size_t num_in, std::size_t num_out, std::size_t step, Tap* out) {
  const float scale = static_cast<float>(num_in) / static_cast<float>(num_out);
  const auto place = [&](float pixel) {
    const auto last = static_cast<std::int64_t>(num_in) - 1;
    return static_cast<std::uint32_t>(std::clamp(static_cast<std::int64_t>(pixel), std::int64_t{0}, last)) *
           static_cast<std::uint32_t>(step);
  };
  for (std::size_t i = 0; i < num_out; ++i) {
    const float center = (static_cast<float>(i) + 0.5F) * scale - 0.5F;
    const float lower = std::floor(center);
    out[i] = {place(lower), place(std::ceil(center)), center - lower};
  }
}

template <typename T>
void resize_bilinear(const Pixels& image, const Resize& resize, float* scratch, float* out) {
#ifdef PENSTOCK_RESIZE_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return resize_rows_avx2<T>(image, resize, scratch, out);
#endif
  resize_rows<T>(image, resize, scratch, out);
}

template void resize_bilinear<std::uint8_t>(const Pixels&, const Resize&, float*, float*);
template void resize_bilinear<std::int8_t>(const Pixels&, const Resize&, float*, float*);
template void resize_bilinear<std::uint16_t>(const Pixels&, const Resize&, float*, float*);
template void resize_bilinear<std::int16_t>(const Pixels&, const Resize&, float*, float*);
template void resize_bilinear<std::int32_t>(const Pixels&, const Resize&, float*, float*);
template void resize_bilinear<float>(const Pixels&, const Resize&, float*, float*);
template void resize_bilinear<double>(const Pixels&, const Resize&, float*, float*);

}  // namespace penstock
