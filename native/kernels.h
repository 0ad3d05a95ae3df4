// The kernels: plain functions over buffers that the caller owns.
//
// They hold no state, take no lock, start no thread and allocate nothing; module.cpp calls them without the GIL.
// A bad argument throws std::invalid_argument (ValueError in Python) or std::out_of_range (IndexError), with the
// numbers. Results depend on the arguments alone, on every platform: they are part of what a saved state means, so a
// change to any constant or to the number of rounds changes the order of every shuffled dataset.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

// permute.cpp: P, a bijection of [0, n) chosen by `key`.
void permute(std::int64_t n, std::uint64_t key, std::int64_t start, std::int64_t* out, std::size_t num_out);
void permute_at(std::int64_t n, std::uint64_t key, const std::int64_t* index, std::int64_t* out, std::size_t num_out);

// random_numbers.cpp: numbers in [0, 2**32), each of the key and one index. `out` may be `index`.
void random_numbers(std::uint64_t key, const std::int64_t* index, std::int64_t* out, std::size_t num_out);

// window_shuffle.cpp: the shuffle buffer of tf.data, over indices.
struct WindowProgress {
  std::size_t consumed;
  std::size_t produced;
  std::size_t filled;
};
WindowProgress window_shuffle(std::int64_t* slots, std::size_t num_slots, std::size_t filled,
                              const std::int64_t* incoming, std::size_t num_incoming, bool draining,
                              std::uint64_t key, std::uint64_t step, std::int64_t* out, std::size_t num_out);

// gather.cpp: rows of equal size, picked by index. Of `index`, the first `num_out` are picked now; the others, up to
// `num_known`, are expected to be picked next, and only their memory is asked for.
struct Table {
  const std::uint8_t* rows;
  std::size_t num_rows;
  std::size_t row_bytes;

  bool has(std::int64_t i) const { return static_cast<std::uint64_t>(i) < num_rows; }
};
void gather(const Table& table, const std::int64_t* index, std::size_t num_out, std::size_t num_known,
            std::uint8_t* out);

// resize.cpp: an image in another size, as float32. `scratch` is of so many floats: `resize_scratch`.
struct Pixels {
  const std::uint8_t* data;  // rows of `width * channels` values, `row_stride` bytes apart
  std::size_t height, width, channels;
  std::ptrdiff_t row_stride;
};
// The two pixels on either side of a new one, each times `step`, and how much of the upper one is in it.
struct Tap {
  std::uint32_t lower, upper;
  float share;
};
struct Resize {
  const Tap* rows;     // of step 1
  const Tap* columns;  // of a step for each channel
  std::size_t height, width;
};
inline constexpr std::size_t kResizePad = 4;
inline std::size_t resize_scratch(const Pixels& image, const Resize& resize) {
  return (image.width + 2 * resize.width) * image.channels + 3 * kResizePad;
}
void make_taps(std::size_t num_in, std::size_t num_out, std::size_t step, Tap* out);
template <typename T>
void resize_bilinear(const Pixels& image, const Resize& resize, float* scratch, float* out);

}  // namespace penstock
