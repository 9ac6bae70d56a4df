// Measures the approximate index over many rows: time and memory of building, recall and time of queries by text and by image,
// beside exact search in the same run.
//
//   approximate_bench IMAGES.npy TEXTS.npy FOLDER ROWS...
//
// The rows are drawn around real embeddings, which no white noise is like: a row is a real one plus a share of the difference of
// two others, so that it has their means, directions and clusters, and lies between them. Queries by text are made likewise of
// the embeddings of texts, so that they lie as far from the images as an encoder's texts do. Both are then turned into 512
// columns by an orthogonal rotation, with a little noise in all of them. IMAGES.npy: the rows of `saccade collection export`.
// TEXTS.npy: those of `saccade embed` of captions of such images. Files of rows are written to FOLDER, and removed.
//
// Prints a line of JSON for each number of rows. Times are medians, in milliseconds; "..._cpu_ms" is processor time, all threads,
// which other load on the machine disturbs less.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/json.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/core/seconds_since.h"
#include "saccade/index/exact_search.h"
#include "saccade/index/lists/list_search.h"
#include "saccade/index/lists/list_tuning.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kDim = 512;
constexpr float kBetween = 0.5F;  // share of a difference that is added to a real row
constexpr float kNoise = 0.01F;   // standard deviation in each column, beside a length of 1
// Queries, and from how many rows on there are fewer and of one recall: exact neighbors of all take the most time then.
constexpr int64_t kTexts = 750;
constexpr int64_t kImages = 500;
constexpr int64_t kManyRows = 2'000'000;
constexpr int64_t kFewTexts = 300;
constexpr int64_t kFewImages = 150;
constexpr int64_t kTimed = 100;

// Draws rows around real ones.
class Drawer {
 public:
  explicit Drawer(const Matrix<float>& real) : real_(real) {
    SplitMix random(11, 0);
    for (int64_t c = 0; c < kDim; ++c) signs_.push_back((random.next() & 1) != 0 ? 1.0F : -1.0F);
  }
  // Draws row `number`; the same for the same number.
  void draw(int64_t number, uint64_t seed, std::span<float> row) const {
    SplitMix random(seed, number);
    const auto some = [&] {
      return real_.row(static_cast<int64_t>(random.below(static_cast<uint32_t>(real_.rows()))));
    };
    const auto base = some();
    const auto plus = some();
    const auto minus = some();
    std::ranges::fill(row, 0.0F);
    for (size_t c = 0; c < base.size(); ++c) row[c] = base[c] + kBetween * (plus[c] - minus[c]);
    for (float& value : row) {
      // The sum of four uniform numbers is close to a normal one, of variance 1 / 3.
      const uint64_t bits = random.next();
      float sum = 0;
      for (unsigned i = 0; i < 4; ++i) sum += static_cast<float>(bits >> (16 * i) & 0xffff) / 32768.0F - 1;
      value += kNoise * 0.866F * sum;
    }
    for (size_t c = 0; c < row.size(); ++c) row[c] *= signs_[c];
    for (size_t half = 1; half < row.size(); half *= 2) {
      for (size_t first = 0; first < row.size(); first += 2 * half) {
        for (size_t i = first; i < first + half; ++i) {
          const float a = row[i];
          const float b = row[i + half];
          row[i] = a + b;
          row[i + half] = a - b;
        }
      }
    }
    normalize_row(row);
  }

 private:
  const Matrix<float>& real_;
  std::vector<float> signs_;
};

struct Files {
  MappedFile rows;
  MappedFile int8;
};

// Writes `count` rows, in full and in 8 bits, and maps them.
Result<Files> write_rows(const Drawer& drawer, const fs::path& folder, int64_t count, ThreadPool& pool) {
  const fs::path full = folder / "bench-rows.f32";
  const fs::path codes = folder / "bench-rows.i8";
  {
    std::ofstream full_file(full, std::ios::binary);
    std::ofstream codes_file(codes, std::ios::binary);
    const Int8Encoder encoder(kDim);
    constexpr int64_t kBlock = 32'768;
    const int64_t width = int8_row_bytes(kDim);
    Matrix<float> rows(kBlock, kDim);
    std::vector<std::byte> stored(static_cast<size_t>(kBlock * width));
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t some = std::min(kBlock, count - first);
      pool.parallel_for(some, 512, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          drawer.draw(first + r, 1, rows.row(r));
          encoder.encode(
              rows.row(r), first + r,
              std::span(stored).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width)));
        }
      });
      full_file.write(reinterpret_cast<const char*>(rows.data()), some * kDim * 4);
      codes_file.write(reinterpret_cast<const char*>(stored.data()), some * width);
    }
    if (!full_file || !codes_file) return fail(ErrorCode::kIo, "{}: cannot be written", full.string());
  }
  Files files;
  SACCADE_ASSIGN(files.rows, MappedFile::open(full));
  SACCADE_ASSIGN(files.int8, MappedFile::open(codes));
  // They are gone with the mappings.
  fs::remove(full);
  fs::remove(codes);
  return files;
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Returns a figure of /proc/self/status, in MB.
double memory_mb(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::strtod(line.c_str() + name.size() + 1, nullptr) / 1000;
  }
  return 0;
}

struct Times {
  std::vector<double> wall;
  std::vector<double> processor;
  template <typename Work>
  Status time(const Work& work) {
    const double before = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    SACCADE_TRY(work());
    wall.push_back(1e3 * seconds_since(start));
    processor.push_back(1e3 * (processor_seconds() - before));
    return {};
  }
  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values.empty() ? 0 : values[values.size() / 2];
  }
};

Matrix<float> drawn(const Drawer& drawer, int64_t count, uint64_t seed) {
  Matrix<float> rows(count, kDim);
  for (int64_t q = 0; q < count; ++q) drawer.draw(q, seed, rows.row(q));
  return rows;
}

Result<Json> measure_kind(const SearchedRows& searched, const BuiltLists& lists,
                          MatrixView<const float> queries, double recall, ThreadPool& pool) {
  const ListIndex index = lists.view();
  const ListChecks checks(index.lists());
  const auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(const ListRecall tuned,
                 tune_lists(searched, index, checks, {queries, {}}, {.recall = recall}, pool));
  const double tuning = seconds_since(start);
  Times near;
  const int64_t first = queries.rows() - kTimed;
  for (int64_t round = 0; round < 2; ++round) {
    near = {};  // the first round reads what is not in memory yet
    for (int64_t q = first; q < queries.rows(); ++q) {
      const auto search = [&]() -> Status {
        SACCADE_TRY(find_near_rows(searched, index, checks, tuned.probe, queries.row(q), kRecallAt, pool));
        return {};
      };
      SACCADE_TRY(near.time(search));
    }
  }
  return Json{{"recall", tuned.measured},
              {"queries", tuned.queries},
              {"scanned", tuned.probe.scanned},
              {"rescored", tuned.probe.rescored},
              {"tuning_seconds", tuning},
              {"query_ms", Times::median(near.wall)},
              {"query_cpu_ms", Times::median(near.processor)}};
}

Status measure(const Drawer& images, const Drawer& texts, const fs::path& folder, int64_t count) {
  ThreadPool pool;
  auto start = std::chrono::steady_clock::now();
  SACCADE_ASSIGN(const Files files, write_rows(images, folder, count, pool));
  const double drawing = seconds_since(start);
  const SearchedRows searched{{reinterpret_cast<const float*>(files.rows.bytes().data()), count, kDim},
                              {},
                              {files.int8.bytes().data(), count, kDim}};
  start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  SACCADE_ASSIGN(const BuiltLists lists, build_lists(searched.rows, {}, {}, pool));
  Json json = {
      {"rows", count},
      {"threads", pool.size()},
      {"drawing_seconds", drawing},
      {"lists", std::ssize(lists.ends)},
      {"build_seconds", seconds_since(start)},
      {"build_cpu_seconds", processor_seconds() - processor},
      {"build_anonymous_peak_mb", memory_mb("RssAnon")},
      {"index_bytes_a_row",
       static_cast<double>(lists.rows.size() * 4 + lists.factors.size() * 2 + lists.signs.size() * 8 +
                           lists.means.values().size_bytes() + lists.ends.size() * 16) /
           static_cast<double>(count)}};
  const bool many = count >= kManyRows;
  const Matrix<float> text_queries = drawn(texts, many ? kFewTexts : kTexts, 2);
  const Matrix<float> image_queries = drawn(images, many ? kFewImages : kImages, 3);
  for (const double recall : {0.95, 0.9, 0.99}) {
    if (many && recall != 0.95) continue;
    SACCADE_ASSIGN(json[fmt::format("text_{}", recall)],
                   measure_kind(searched, lists, text_queries.view(), recall, pool));
  }
  SACCADE_ASSIGN(json["image_0.95"], measure_kind(searched, lists, image_queries.view(), 0.95, pool));
  Times exact;
  for (int64_t q = 0; q < 11; ++q) {
    const auto search = [&]() -> Status {
      SACCADE_TRY(find_rows(searched, text_queries.view().slice(q, 1), kRecallAt, pool));
      return {};
    };
    SACCADE_TRY(exact.time(search));
  }
  json["exact_ms"] = Times::median(exact.wall);
  json["exact_cpu_ms"] = Times::median(exact.processor);
  json["anonymous_mb"] = memory_mb("RssAnon");
  fmt::print("{}\n", dump_json(json));
  std::fflush(stdout);
  return {};
}

Status run(int argc, char** argv) {
  if (argc < 5) return fail(ErrorCode::kUsage, "approximate_bench IMAGES.npy TEXTS.npy FOLDER ROWS...");
  SACCADE_ASSIGN(const Matrix<float> images, read_npy(argv[1]));
  SACCADE_ASSIGN(const Matrix<float> texts, read_npy(argv[2]));
  if (images.columns() > kDim || images.columns() != texts.columns() || images.rows() < 2 ||
      texts.rows() < 2) {
    return fail(ErrorCode::kUsage, "images have {} columns, texts {}: expected the same number, at most {}",
                images.columns(), texts.columns(), kDim);
  }
  const Drawer of_images(images);
  const Drawer of_texts(texts);
  for (int i = 4; i < argc; ++i)
    SACCADE_TRY(measure(of_images, of_texts, argv[3], std::strtoll(argv[i], nullptr, 10)));
  return {};
}

}  // namespace
}  // namespace saccade::bench

int main(int argc, char** argv) {
  const saccade::Status done = saccade::bench::run(argc, argv);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
