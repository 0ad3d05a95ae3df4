// Records of a file, wherever they lie, brought together in the order in which they are wanted.
//
// A read costs about a microsecond whatever its size, and a window shuffle wants thousands of small records from a part of
// the file that is a few times as large. So records that lie near each other are read at once, with what lies between them,
// into a small buffer that stays in the cache, and copied from there to their places. Who checks and parses them afterwards
// goes through memory from one end to the other. Long records, and neighbours that stay neighbours, are read in place.

#include "read_records.h"

#include <stdexcept>

#if !defined(_WIN32)
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#endif

namespace penstock {

FilePiece file_piece(std::int64_t begin, std::int64_t end, std::int64_t target, std::size_t number, std::size_t used) {
  const auto target_ = static_cast<std::uint64_t>(target);
  if (begin < 0 || end < begin || target < 0 || target_ > used ||
      static_cast<std::uint64_t>(end - begin) > used - target_) {
    throw std::invalid_argument("the records do not fit in memory");
  }
  return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end), target_, number};
}

#if !defined(_WIN32)
namespace {

// What takes as long as another read: bytes between records that are read with them.
constexpr std::uint64_t kGapBytes = 16 * 1024;
// From here on a copy takes longer than another read.
constexpr std::uint64_t kLongBytes = 16 * 1024;
// Several fit into the second-level cache beside what is copied out of it.
constexpr std::size_t kNearbyBytes = 256 * 1024;

// By place in the file: digit by digit, of as many digits as their distance has. Comparing takes five times as long.
void sort_by_place(std::vector<FilePiece>& pieces) {
  constexpr unsigned kBits = 11;
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
  if (pieces.empty()) return;
  const auto before = [](const FilePiece& a, const FilePiece& b) { return a.begin < b.begin; };
  if (std::is_sorted(pieces.begin(), pieces.end(), before)) return;
  const auto [lowest, highest] = std::minmax_element(pieces.begin(), pieces.end(), before);
  const std::uint64_t base = lowest->begin, span = highest->begin - base;
  if (pieces.size() < 256) return std::stable_sort(pieces.begin(), pieces.end(), before);
  std::vector<FilePiece> sorted(pieces.size());
  for (unsigned shift = 0; shift < 64 && (span >> shift) != 0; shift += kBits) {
    std::array<std::size_t, kMask + 1> starts{};
    for (const FilePiece& piece : pieces) ++starts[(piece.begin - base) >> shift & kMask];
    std::size_t at = 0;
    for (std::size_t& start : starts) at += std::exchange(start, at);
    for (const FilePiece& piece : pieces) sorted[starts[(piece.begin - base) >> shift & kMask]++] = piece;
    pieces.swap(sorted);
  }
}

class Reader {
 public:
  Reader(int file, std::uint8_t* memory, std::uint8_t* nearby, std::size_t nearby_bytes)
      : file_(file), memory_(memory), nearby_(nearby), nearby_bytes_(nearby_bytes) {}

  // How many of the pieces were read before the end of the file, or an error.
  std::size_t read(const std::vector<FilePiece>& pieces) {
    std::size_t i = 0;
    while (i < pieces.size()) {
      const std::size_t next = is_long(pieces, i) ? read_in_place(pieces, i) : read_nearby(pieces, i);
      if (is_stopped_) return next;
      i = next;
    }
    return i;
  }

  // Where the file ended, or minus an error's number.
  std::int64_t stop() const { return stop_; }

 private:
  // The first piece from i on that does not lie behind the one before both in the file and in memory.
  static std::size_t end_of_run(const std::vector<FilePiece>& pieces, std::size_t i) {
    while (++i < pieces.size() && pieces[i].begin == pieces[i - 1].end &&
           pieces[i].target == pieces[i - 1].target + pieces[i - 1].size()) {
    }
    return i;
  }

  bool is_long(const std::vector<FilePiece>& pieces, std::size_t i) const {
    const std::uint64_t size = pieces[end_of_run(pieces, i) - 1].end - pieces[i].begin;
    return size >= kLongBytes || size > nearby_bytes_;
  }

  std::size_t read_in_place(const std::vector<FilePiece>& pieces, std::size_t i) {
    const std::size_t next = end_of_run(pieces, i);
    const std::uint64_t got = read_at(pieces[i].begin, pieces[next - 1].end, memory_ + pieces[i].target);
    while (i < next && pieces[i].end <= got) ++i;
    return i;
  }

  std::size_t read_nearby(const std::vector<FilePiece>& pieces, std::size_t i) {
    const std::uint64_t begin = pieces[i].begin;
    std::uint64_t end = pieces[i].end;
    std::size_t next = i + 1;
    for (; next < pieces.size(); ++next) {
      const std::uint64_t further = std::max(end, pieces[next].end);
      if (pieces[next].begin > end + kGapBytes || further - begin > nearby_bytes_) break;
      end = further;
    }
    const std::uint64_t got = read_at(begin, end, nearby_);
    for (; i < next && pieces[i].end <= got; ++i) {
      std::memcpy(memory_ + pieces[i].target, nearby_ + (pieces[i].begin - begin), pieces[i].size());
    }
    return i;
  }

  // Where in the file the reading ended.
  std::uint64_t read_at(std::uint64_t begin, std::uint64_t end, std::uint8_t* out) {
    std::uint64_t at = begin;
    while (at < end) {
      const auto got = ::pread(file_, out + (at - begin), static_cast<std::size_t>(end - at), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        stop_ = got < 0 ? -static_cast<std::int64_t>(errno) : static_cast<std::int64_t>(at);
        is_stopped_ = true;
        break;
      }
      at += static_cast<std::uint64_t>(got);
    }
    return at;
  }

  const int file_;
  std::uint8_t* const memory_;
  std::uint8_t* const nearby_;
  const std::size_t nearby_bytes_;
  std::int64_t stop_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

PiecesRead read_file_pieces(int file, std::vector<FilePiece>& pieces, std::uint8_t* memory, std::size_t used,
                            std::size_t size) {
  sort_by_place(pieces);
  Reader reader(file, memory, memory + used, std::min(kNearbyBytes, size - used));
  const std::size_t num_whole = reader.read(pieces);
  return {num_whole, reader.stop()};
}
#endif

}  // namespace penstock
