// penstock._native: checks what Python hands over, releases the GIL, calls a kernel. See kernels.h.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "binding.h"
#include "kernels.h"

using namespace nb::literals;
using namespace penstock::binding;

namespace {

template <typename A, typename B>
bool overlap(const A& a, const B& b) {
  if (a.size() == 0 || b.size() == 0) return false;
  // std::less orders pointers into different arrays, which a plain < need not.
  const std::less<const std::int64_t*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

// One number of `out` for each of `index`, which may be the same array.
void require_places(const Indices& index, const MutableIndices& out) {
  require_aligned("index", index);
  require_aligned("out", out);
  if (index.size() != out.size()) {
    throw std::invalid_argument("index and out must have the same length, got " + std::to_string(index.size()) +
                                " and " + std::to_string(out.size()));
  }
  if (index.data() != out.data() && overlap(index, out)) {
    throw std::invalid_argument("index and out must be the same memory or share none of it");
  }
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
  require_places(index, out);
  const nb::gil_scoped_release no_gil;
  penstock::permute_at(n_, key_, index.data(), out.data(), out.size());
}

void random_numbers(nb::handle key, Indices index, MutableIndices out) {
  const auto key_ = integer<std::uint64_t>("key", key);
  require_places(index, out);
  const auto run = [&] { penstock::random_numbers(key_, index.data(), out.data(), out.size()); };
  if (out.size() * sizeof(std::int64_t) < kWorthTheGil) return run();
  const nb::gil_scoped_release no_gil;
  run();
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
  // What is still referred to when the interpreter ends (by a module's globals, by another library) is no leak of ours,
  // and would be reported in the user's terminal.
  nb::set_leak_warnings(false);
  m.doc() = "Kernels over buffers, and memory for arrays. Types and contracts: _native.pyi.";
  m.def("permute", &permute, "n"_a, "key"_a, "start"_a, "out"_a.noconvert(),
        nb::sig("def permute(n: int, key: int, start: int, out: NDArray[int64]) -> None"));
  m.def("permute_at", &permute_at, "n"_a, "key"_a, "index"_a.noconvert(), "out"_a.noconvert(),
        nb::sig("def permute_at(n: int, key: int, index: NDArray[int64], out: NDArray[int64]) -> None"));
  m.def("random_numbers", &random_numbers, "key"_a, "index"_a.noconvert(), "out"_a.noconvert(),
        nb::sig("def random_numbers(key: int, index: NDArray[int64], out: NDArray[int64]) -> None"));
  m.def("window_shuffle", &window_shuffle, "slots"_a.noconvert(), "filled"_a, "incoming"_a.noconvert(), "draining"_a,
        "key"_a, "step"_a, "out"_a.noconvert(),
        nb::sig("def window_shuffle(slots: NDArray[int64], filled: int, incoming: NDArray[int64], draining: bool, "
                "key: int, step: int, out: NDArray[int64]) -> tuple[int, int, int]"));
  m.def("gather", &gather, "rows"_a, "index"_a.noconvert(), "start"_a, "out"_a,
        nb::sig("def gather(rows: NDArray[Any], index: NDArray[int64], start: int, out: NDArray[Any]) -> None"));
  bind_tfrecord(m);
  bind_example(m);
  bind_encoder(m);
  bind_encode_one(m);
  bind_aligned(m);
  bind_array_memory(m);
  bind_rows(m);
  bind_read_records(m);
  bind_resize(m);
}
