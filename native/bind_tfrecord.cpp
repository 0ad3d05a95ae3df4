// Bindings of crc32c.cpp and tfrecord.cpp, and of the bytes of many records.

#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "binding.h"
#include "crc32c.h"
#include "pieces.h"
#include "tfrecord.h"

using namespace nb::literals;

namespace penstock::binding {

RecordBytes::RecordBytes(nb::handle records) {
  const bool is_tuple = nb::isinstance<nb::tuple>(records) && nb::len(records) == 3;
  if (is_tuple && !PyBytes_Check(PyTuple_GET_ITEM(records.ptr(), 1))) {
    const auto parts = nb::borrow<nb::tuple>(records);
    take_slices(parts[0], parts[1], parts[2]);
  } else {
    take_strings(records);
  }
}

void RecordBytes::take_strings(nb::handle records) {
  strings_ = nb::steal(PySequence_Tuple(records.ptr()));
  if (!strings_.is_valid()) throw nb::python_error();
  const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(strings_.ptr()));
  spans_.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(strings_.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyBytes_Check(item)) {
      const std::string kind = Py_TYPE(item)->tp_name;
      throw nb::type_error(("record " + std::to_string(i) + " must be bytes, got " + kind).c_str());
    }
    const auto num_bytes = static_cast<std::size_t>(PyBytes_GET_SIZE(item));
    spans_.push_back({reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(item)), num_bytes});
    num_bytes_ += num_bytes;
  }
}

void RecordBytes::take_slices(nb::handle buffer, nb::handle offsets, nb::handle lengths) {
  Indices offsets_;
  Indices lengths_;
  if (!nb::try_cast(offsets, offsets_, false) || !nb::try_cast(lengths, lengths_, false)) {
    throw nb::type_error("offsets and lengths must be one-dimensional C-contiguous arrays of int64");
  }
  require_aligned("offsets", offsets_);
  require_aligned("lengths", lengths_);
  if (offsets_.size() != lengths_.size()) {
    throw std::invalid_argument("offsets and lengths must be of one length, got " + std::to_string(offsets_.size()) +
                                " and " + std::to_string(lengths_.size()));
  }
  if (PyObject_GetBuffer(buffer.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  has_buffer_ = true;
  const auto end = static_cast<std::size_t>(buffer_.len);
  spans_.resize(offsets_.size());
  const Span whole{static_cast<const std::uint8_t*>(buffer_.buf), end};
  const std::size_t i = cut_parts(whole, offsets_.data(), lengths_.data(), offsets_.size(), spans_.data());
  if (i < offsets_.size()) {
    PyBuffer_Release(&buffer_);
    has_buffer_ = false;
    throw nb::index_error(("record " + std::to_string(i) + " is at " + std::to_string(offsets_.data()[i]) + ", " +
                           std::to_string(lengths_.data()[i]) + " bytes long, in a buffer of " + std::to_string(end))
                              .c_str());
  }
  for (const Span& record : spans_) num_bytes_ += record.size;
}

namespace {

// Any object that lends its bytes, as one piece.
class Bytes {
 public:
  explicit Bytes(nb::handle object, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }
  Span span() const { return {data(), size()}; }

 private:
  Py_buffer view_;
};

template <std::uint32_t (*kChecksum)(const std::uint8_t*, std::size_t)>
std::uint32_t checksum(nb::handle data) {
  const Bytes data_(data);
  const nb::gil_scoped_release no_gil;
  return kChecksum(data_.data(), data_.size());
}

std::tuple<std::size_t, std::size_t, int, std::uint64_t, std::uint64_t> scan(nb::handle buffer, nb::handle start,
                                                                             bool check_length, bool check_data,
                                                                             MutableIndices offsets,
                                                                             MutableIndices lengths) {
  const Bytes buffer_(buffer);
  const auto start_ = count("start", start);
  require_aligned("offsets", offsets);
  require_aligned("lengths", lengths);
  if (offsets.size() != lengths.size()) {
    throw std::invalid_argument("offsets and lengths must be of one length, got " + std::to_string(offsets.size()) +
                                " and " + std::to_string(lengths.size()));
  }
  if (start_ > buffer_.size()) {
    throw nb::index_error(("start is " + std::to_string(start_) + ", behind the " + std::to_string(buffer_.size()) +
                           " bytes of the buffer")
                              .c_str());
  }
  const nb::gil_scoped_release no_gil;
  const RecordScan found = scan_records(buffer_.span(), start_, {check_length, check_data}, offsets.data(),
                                        lengths.data(), offsets.size());
  return {found.num_records, found.offset, static_cast<int>(found.stop), found.expected, found.got};
}

std::size_t frame(nb::handle records, nb::handle out, nb::handle start) {
  const RecordBytes records_(records);
  const Bytes out_(out, PyBUF_WRITABLE);
  const auto start_ = count("start", start);
  const std::size_t needed = records_.num_bytes() + records_.spans().size() * kRecordFrame;
  if (start_ > out_.size() || needed > out_.size() - start_) {
    throw std::invalid_argument("out must have " + std::to_string(needed) + " bytes from " + std::to_string(start_) +
                                " on, got " + std::to_string(out_.size()) + " in all");
  }
  const auto run = [&] {
    std::uint8_t* at = out_.data() + start_;
    for (const Span& record : records_.spans()) {
      frame_record(record, at);
      at += record.size + kRecordFrame;
    }
    return start_ + needed;
  };
  if (needed < kWorthTheGil) return run();
  const nb::gil_scoped_release no_gil;
  return run();
}

// One record: writers add them one by one.
std::size_t frame_one(nb::bytes record, nb::handle out, nb::handle start) {
  const Bytes out_(out, PyBUF_WRITABLE);
  const auto start_ = count("start", start);
  const Span data{reinterpret_cast<const std::uint8_t*>(record.c_str()), record.size()};
  const std::size_t needed = data.size + kRecordFrame;
  if (start_ > out_.size() || needed > out_.size() - start_) {
    throw std::invalid_argument("out must have " + std::to_string(needed) + " bytes from " + std::to_string(start_) +
                                " on, got " + std::to_string(out_.size()) + " in all");
  }
  const auto run = [&] {
    frame_record(data, out_.data() + start_);
    return start_ + needed;
  };
  if (needed < kWorthTheGil) return run();
  const nb::gil_scoped_release no_gil;
  return run();
}

// Frames records one after the other into a bytearray, which cannot change its size while this lives. With the GIL all
// the time: a buffer is short, and nobody sees half a record.
class RecordBuffer {
 public:
  explicit RecordBuffer(nb::handle memory) : memory_(memory, PyBUF_WRITABLE) {}

  // False, and nothing happens, unless it is `bytes` and fits.
  bool add(nb::handle record) {
    if (!PyBytes_CheckExact(record.ptr())) return false;
    const Span data{reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(record.ptr())),
                    static_cast<std::size_t>(PyBytes_GET_SIZE(record.ptr()))};
    if (data.size + kRecordFrame > memory_.size() - filled_) return false;
    frame_record(data, memory_.data() + filled_);
    filled_ += data.size + kRecordFrame;
    return true;
  }

  std::size_t take() { return std::exchange(filled_, 0); }

 private:
  const Bytes memory_;
  std::size_t filled_ = 0;
};

std::tuple<std::size_t, int, std::uint64_t, std::uint64_t> check(nb::handle buffer, Indices offsets, Indices lengths) {
  const Bytes buffer_(buffer);
  require_aligned("offsets", offsets);
  require_aligned("lengths", lengths);
  if (offsets.size() != lengths.size()) throw std::invalid_argument("offsets and lengths must be of one length");
  const nb::gil_scoped_release no_gil;
  const RecordScan found = check_records(buffer_.span(), offsets.data(), lengths.data(), offsets.size());
  return {found.num_records, static_cast<int>(found.stop), found.expected, found.got};
}

nb::list cut(nb::handle records) {
  const RecordBytes records_(records);
  nb::list out = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(records_.spans().size())));
  Py_ssize_t i = 0;
  for (const Span& record : records_.spans()) {
    PyObject* made = PyBytes_FromStringAndSize(reinterpret_cast<const char*>(record.data),
                                               static_cast<Py_ssize_t>(record.size));
    if (made == nullptr) throw nb::python_error();
    PyList_SET_ITEM(out.ptr(), i++, made);
  }
  return out;
}

}  // namespace

void bind_tfrecord(nb::module_& m) {
  m.def("crc32c", &checksum<crc32c>, "data"_a, nb::sig("def crc32c(data: Buffer) -> int"));
  m.def("crc32c_portable", &checksum<crc32c_portable>, "data"_a, nb::sig("def crc32c_portable(data: Buffer) -> int"));
  m.def("scan_records", &scan, "buffer"_a, "start"_a, "check_length"_a, "check_data"_a, "offsets"_a.noconvert(),
        "lengths"_a.noconvert(),
        nb::sig("def scan_records(buffer: Buffer, start: int, check_length: bool, check_data: bool, "
                "offsets: NDArray[int64], lengths: NDArray[int64]) -> tuple[int, int, int, int, int]"));
  m.def("frame_record", &frame_one, "record"_a, "out"_a, "start"_a,
        nb::sig("def frame_record(record: bytes, out: Buffer, start: int) -> int"));
  nb::class_<RecordBuffer>(m, "RecordBuffer")
      .def(nb::init<nb::handle>(), "memory"_a, nb::sig("def __init__(self, memory: bytearray) -> None"))
      .def("add", &RecordBuffer::add, "record"_a.none(), nb::sig("def add(self, record: object) -> bool"))
      .def("take", &RecordBuffer::take);
  m.def("check_records", &check, "buffer"_a, "offsets"_a.noconvert(), "lengths"_a.noconvert(),
        nb::sig("def check_records(buffer: Buffer, offsets: NDArray[int64], lengths: NDArray[int64]) -> "
                "tuple[int, int, int, int]"));
  m.def("cut_records", &cut, "records"_a, nb::sig("def cut_records(records: Records) -> list[bytes]"));
  m.def("frame_records", &frame, "records"_a, "out"_a, "start"_a,
        nb::sig("def frame_records(records: Records, out: Buffer, start: int) -> int"));
}

}  // namespace penstock::binding
