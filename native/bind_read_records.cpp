// Bindings of read_records.cpp.

#include "binding.h"

#if defined(_WIN32)

namespace penstock::binding {
void bind_read_records(nb::module_&) {}
}  // namespace penstock::binding

#else

#include "read_records.h"

using namespace nb::literals;

namespace penstock::binding {
namespace {

nb::tuple read_records(int file, Indices begins, Indices ends, Indices targets, nb::handle memory, nb::handle used) {
  const Memory memory_(memory, PyBUF_WRITABLE);
  const std::size_t size = memory_.num_rows() * memory_.row_bytes();
  const std::size_t used_ = count("used", used);
  require_aligned("begins", begins);
  require_aligned("ends", ends);
  require_aligned("targets", targets);
  if (begins.size() != ends.size() || begins.size() != targets.size()) {
    throw std::invalid_argument("begins, ends and targets must be of one length");
  }
  if (used_ > size) throw std::invalid_argument("the records do not fit in memory");
  std::vector<FilePiece> pieces(begins.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = file_piece(begins.data()[i], ends.data()[i], targets.data()[i], i, used_);
  }
  PiecesRead done;
  {
    const nb::gil_scoped_release no_gil;
    done = read_file_pieces(file, pieces, memory_.data(), used_, size);
  }
  nb::list missing;
  for (std::size_t i = done.num_whole; i < pieces.size(); ++i) missing.append(pieces[i].number);
  return nb::make_tuple(missing, done.stop);
}

}  // namespace

void bind_read_records(nb::module_& m) {
  m.def("read_records", &read_records, "file"_a, "begins"_a.noconvert(), "ends"_a.noconvert(), "targets"_a.noconvert(),
        "memory"_a, "used"_a,
        nb::sig("def read_records(file: int, begins: NDArray[int64], ends: NDArray[int64], targets: NDArray[int64], "
                "memory: NDArray[uint8], used: int) -> tuple[list[int], int]"));
}

}  // namespace penstock::binding

#endif
