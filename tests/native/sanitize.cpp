// Runs the kernels that read untrusted bytes over the corpus, and over damaged copies of it, under the sanitizers.
//
//   sanitize FOLDER [ROUNDS]
//
// Every input lies in a block of exactly its size, so that one byte too far is found. What the kernels say is not compared
// with anything here: tests/native does that.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../../native/crc32c.h"
#include "../../native/example.h"
#include "../../native/mix.h"
#include "../../native/pieces.h"
#include "../../native/read_records.h"
#include "../../native/tfrecord.h"

using namespace penstock;

namespace {

using Bytes = std::vector<std::uint8_t>;

struct Exact {
  explicit Exact(const Bytes& bytes) : data(new std::uint8_t[bytes.size()]), size(bytes.size()) {
    if (size > 0) std::memcpy(data.get(), bytes.data(), size);
  }
  Span span() const { return {data.get(), size}; }
  std::unique_ptr<std::uint8_t[]> data;
  std::size_t size;
};

void require(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::size_t below(std::size_t bound) { return penstock::below(mix64(seed_ + kGolden * ++step_), bound); }

 private:
  std::uint64_t seed_;
  std::uint64_t step_ = 0;
};

Bytes damaged(Bytes bytes, Draws& draws) {
  const std::size_t num_changes = 1 + draws.below(4);
  for (std::size_t i = 0; i < num_changes && !bytes.empty(); ++i) {
    const std::size_t at = draws.below(bytes.size());
    switch (draws.below(5)) {
      case 0:
        bytes[at] = static_cast<std::uint8_t>(draws.below(256));
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(bytes[at] + 1);
        break;
      case 2:
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 3:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::uint8_t>(draws.below(2) ? 0xff : 10));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

Features features(bool is_dense) {
  std::vector<Feature> asked;
  for (const Kind kind : {Kind::bytes, Kind::floats, Kind::ints}) {
    // All kinds look for one key under three names: what is wrong for one is right for another.
    const char* keys[] = {"", "aa", "a", "b"};
    const std::size_t width = kind == Kind::floats ? 4 : 8;
    asked.push_back({keys[static_cast<int>(kind)], kind, is_dense, !is_dense, is_dense ? 2U : 0U, is_dense,
                     std::vector<std::uint8_t>(kind == Kind::bytes ? 0 : 2 * width)});
  }
  return Features(std::move(asked));
}

void parse(const Feature& asked, const Exact& record) {
  const Features one({asked});
  const Span span = record.span();
  const Records records{&span, 1};
  for (const Proto proto : {Proto::example, Proto::sequence_example}) {
    for (const std::uint32_t field : {1U, 2U}) {
      if (proto == Proto::example && field == 2) continue;
      Span found{nullptr, 0};
      if (find_features(one, records, proto, Empty::may_replace, field, &found).flaw != Flaw::none) continue;
      if (field == 2) {
        std::int64_t splits[2] = {0, 0};
        std::int64_t* pointers[] = {splits};
        if (read_feature_lists(one, 1, &found, pointers).flaw != Flaw::none) continue;
        std::vector<std::int64_t> counts(static_cast<std::size_t>(splits[1]));
        require(count_steps(asked, found, counts.data(), counts.size()) == counts.size(), "as many steps as counted");
        const auto total = static_cast<std::size_t>(read_steps(asked, found, nullptr, 0));
        std::vector<Span> values(total);  // the widest kind of value
        require(read_steps(asked, found, values.data(), total) == static_cast<std::int64_t>(total), "steps read twice");
        continue;
      }
      std::vector<std::int64_t> output(2 + 2 * asked.num_values);
      void* pointers[] = {output.data()};
      if (read_features(one, records, proto, &found, pointers).flaw != Flaw::none) continue;
      const auto total = static_cast<std::size_t>(read_values(asked, proto, found, nullptr, 0));
      std::vector<Span> values(total);
      read_values(asked, proto, found, values.data(), total);
      read_values(asked, proto, found, values.data(), total / 2);
    }
  }
}

void scan(const Exact& bytes) {
  std::int64_t offsets[4];
  std::int64_t lengths[4];
  for (const bool checks : {true, false}) {
    for (std::size_t start = 0; start <= bytes.size && start < 20; ++start) {
      const RecordScan found = scan_records(bytes.span(), start, {checks, checks}, offsets, lengths, 4);
      require(found.num_records <= 4 && found.offset <= bytes.size, "a scan that stays inside");
      for (std::size_t i = 0; i < found.num_records; ++i) {
        const auto end = static_cast<std::size_t>(offsets[i] + lengths[i]);
        require(end + kRecordFooter <= bytes.size, "a record that stays inside");
      }
    }
  }
}

// Numbers that a damaged index may hold: near the ends of a buffer of this size, or anywhere at all.
std::int64_t some_number(std::size_t size, Draws& draws) {
  const auto near = static_cast<std::int64_t>(draws.below(size + 40)) - 20;
  switch (draws.below(6)) {
    case 0:
      return std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(draws.below(20));
    case 1:
      return std::numeric_limits<std::int64_t>::min() + static_cast<std::int64_t>(draws.below(20));
    default:
      return near;
  }
}

// Records by places that are right, and by places that are not.
void check_places(const Bytes& bytes, Draws& draws) {
  const Exact exact(bytes);
  constexpr std::size_t kMost = 8;
  std::int64_t offsets[kMost];
  std::int64_t lengths[kMost];
  const std::size_t found = scan_records(exact.span(), 0, {false, false}, offsets, lengths, kMost).num_records;
  for (std::size_t i = found; i < kMost; ++i) {
    offsets[i] = some_number(bytes.size(), draws);
    lengths[i] = some_number(bytes.size(), draws);
  }
  if (found > 0 && draws.below(2) == 0) lengths[draws.below(found)] = some_number(bytes.size(), draws);
  for (std::size_t start = 0; start < kMost; ++start) {
    const std::size_t count = kMost - start;
    const RecordScan checked = check_records(exact.span(), offsets + start, lengths + start, count);
    require(checked.num_records <= count, "no more records than there are");
    Span parts[kMost];
    const std::size_t num_parts = cut_parts(exact.span(), offsets + start, lengths + start, count, parts);
    require(checked.num_records <= num_parts, "what is framed right lies in the buffer");
    std::size_t total = 0;
    for (std::size_t i = 0; i < num_parts; ++i) {
      for (std::size_t at = 0; at < parts[i].size; ++at) total += parts[i].data[at];
    }
    require(total <= 255 * kMost * bytes.size(), "parts that can be read");
  }
}

// Pieces of a file by any places, into a block of exactly the size that they are said to fit in.
void read_places(const std::string& path, std::size_t file_size, Draws& draws) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, "a file of the corpus");
  const std::size_t used = draws.below(4 * file_size + 40);
  const std::size_t size = used + draws.below(2 * file_size + 2);
  std::vector<FilePiece> pieces;
  for (std::size_t i = 0; i < 6; ++i) {
    // Any numbers now and then; mostly those that fit.
    const bool any = draws.below(3) == 0;
    const auto near = static_cast<std::int64_t>(draws.below(file_size + 1));
    const std::int64_t begin = any ? some_number(file_size, draws) : near;
    const std::int64_t end = any ? some_number(file_size, draws) : near + static_cast<std::int64_t>(draws.below(40));
    const std::int64_t target = any ? some_number(used, draws) : static_cast<std::int64_t>(draws.below(used + 1));
    try {
      pieces.push_back(file_piece(begin, end, target, i, used));
    } catch (const std::invalid_argument&) {
    }
  }
  const Exact out(Bytes(size, 7));
  const PiecesRead done = read_file_pieces(file, pieces, out.data.get(), used, size);
  require(done.num_whole <= pieces.size(), "no more pieces than there are");
  for (std::size_t i = 0; i < done.num_whole; ++i) {
    require(pieces[i].size() == 0 || pieces[i].end <= file_size, "a whole piece is in the file");
  }
  ::close(file);
}

Bytes framed(const Bytes& data) {
  Bytes out(data.size() + kRecordFrame);
  frame_record({data.data(), data.size()}, out.data());
  const Exact exact(out);
  std::int64_t offset;
  std::int64_t length;
  const RecordScan found = scan_records(exact.span(), 0, {true, true}, &offset, &length, 1);
  require(found.num_records == 1 && offset == 12 && length == static_cast<std::int64_t>(data.size()), "a frame read back");
  return out;
}

void encode(const Bytes& data) {
  // Any bytes, taken for values of each kind.
  const std::size_t count = data.size() / 8;
  std::vector<std::int64_t> ints(count);
  std::vector<float> floats(count);
  if (count > 0) std::memcpy(ints.data(), data.data(), count * 8);
  if (count > 0) std::memcpy(floats.data(), data.data(), count * 4);
  const std::vector<Span> strings(2, Span{data.data(), data.size()});
  const std::vector<Column> columns{{"f", Kind::floats, floats.data(), count, nullptr, count},
                                    {"i", Kind::ints, ints.data(), count, nullptr, count},
                                    {"s", Kind::bytes, strings.data(), 2, nullptr, 2}};
  for (const Column& column : columns) check_column(column, 1);
  ExampleEncoder encoder(columns);
  const std::size_t size = encoder.measure_example(0);
  const std::unique_ptr<std::uint8_t[]> out(new std::uint8_t[size]);
  require(encoder.write_example(0, out.get()) == out.get() + size, "an Example of the size measured");
  ExampleEncoder lists(columns);
  const std::vector<std::size_t> num_steps{1, 1, 1};
  const std::size_t lists_size = lists.measure_feature_lists(num_steps);
  const std::unique_ptr<std::uint8_t[]> lists_out(new std::uint8_t[lists_size]);
  require(lists.write_feature_lists(num_steps, lists_out.get()) == lists_out.get() + lists_size, "lists as measured");
}

void run(const Bytes& bytes) {
  const Exact exact(bytes);
  for (const bool is_dense : {true, false}) {
    const Features asked = features(is_dense);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      parse(asked[i], exact);
      Feature under_a = asked[i];
      under_a.key = "a";
      parse(under_a, exact);
    }
  }
  scan(exact);
  require(crc32c(exact.data.get(), exact.size) == crc32c_portable(exact.data.get(), exact.size), "one checksum");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: sanitize FOLDER [ROUNDS]\n");
    return 2;
  }
  const std::size_t num_rounds = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 500;
  std::size_t num_inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    run(bytes);
    encode(bytes);
    Bytes three = framed(bytes);
    const Bytes once = three;
    for (int i = 0; i < 2; ++i) three.insert(three.end(), once.begin(), once.end());
    Draws draws(bytes.size() + 1000 * ++num_inputs);
    for (std::size_t i = 0; i < num_rounds; ++i) {
      run(damaged(bytes, draws));
      const Bytes other = damaged(three, draws);
      scan(Exact(other));
      check_places(i % 2 == 0 ? three : other, draws);
      read_places(entry.path().string(), bytes.size(), draws);
    }
  }
  const Bytes long_data(10000, 7);
  for (std::size_t size : {0, 1, 7, 8, 3071, 3072, 3073, 9999}) run(Bytes(long_data.begin(), long_data.begin() + size));
  std::printf("%zu files, %zu damaged copies of each: nothing found\n", num_inputs, num_rounds);
  require(num_inputs > 0, "a corpus");
  return 0;
}
