// Saccade's side of the comparison with other programs (bench/peers/compare): reads one command per line,
// answers with a line of JSON. The inputs are raw little-endian numbers in files that the peers read too.
//
//   checkpoint FOLDER SHAPE            writes random weights in the Hugging Face layout: ViT-B/32 and ViT-L/14 of CLIP,
//                                      so400m/384 of SigLIP
//   load FOLDER PRECISION              opens its encoder
//   pictures FILE N OUT S              encodes float32 [N, 3, height, width] of the encoder's own size; float32 embeddings to OUT
//   texts FILE N TOKENS OUT S          encodes int32 [N, TOKENS]; float32 embeddings to OUT
//   photographs LIST HOW OUT S         encodes the files that LIST names, one a line, as one batch, read before the clock
//                                      starts; HOW: exact, or fast (large JPEGs decoded at a reduced size, as
//                                      `saccade index` does); float32 embeddings to OUT
//   rows FILE N DIM                    keeps float32 [N, DIM] in memory for searching
//   search FILE M K HOW OUT S          the K best rows of each of M queries, float32 [M, DIM]; HOW: fp32, or int8 (by
//                                      8-bit codes first, with the same answers); int64 row numbers to OUT
//
// {"seconds": s} is the time of the work itself, without reading and writing files: the median of all runs
// within S seconds, at least one. {"error": "..."} describes a failure.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "saccade/collection/picture.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"
#include "saccade/image/read_pixels.h"
#include "saccade/index/exact_search.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/options/precision_names.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

constexpr int64_t kMostBytes = int64_t{8} << 30;

template <typename Number>
Result<std::vector<Number>> numbers_of(const std::string& file, int64_t count) {
  SACCADE_ASSIGN(const std::string bytes, read_file(file, kMostBytes));
  if (bytes.size() != static_cast<size_t>(count) * sizeof(Number)) {
    return fail(ErrorCode::kMismatch, "{} has {} bytes, not {} numbers", file, bytes.size(), count);
  }
  std::vector<Number> numbers(static_cast<size_t>(count));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

template <typename Number>
Status store(const std::string& file, const Number* numbers, size_t count) {
  return write_file_atomic(file, {reinterpret_cast<const char*>(numbers), count * sizeof(Number)});
}

class Runner {
 public:
  Result<double> run(const std::string& line) {
    std::istringstream words(line);
    std::string command, file;
    words >> command >> file;
    if (command == "checkpoint") {
      return checkpoint(file, words);
    }
    if (command == "photographs") return photographs(file, words);
    if (command == "load") return load(file, words);
    if (command == "pictures") return pictures(file, words);
    if (command == "texts") return texts(file, words);
    if (command == "rows") return rows(file, words);
    if (command == "search") return search(file, words);
    return fail(ErrorCode::kUsage, "no command {}", command);
  }

 private:
  // Runs `work`, which returns a Result, until `least` seconds have passed, at least once. Returns the median seconds of
  // one run.
  template <typename Work, typename Value>
  static Result<double> timed(double least, const Work& work, Value& value) {
    std::vector<double> each;
    const auto began = std::chrono::steady_clock::now();
    do {
      const auto start = std::chrono::steady_clock::now();
      SACCADE_ASSIGN(value, work());
      each.push_back(seconds_since(start));
    } while (seconds_since(began) < least);
    const auto middle = each.begin() + std::ssize(each) / 2;
    std::ranges::nth_element(each, middle);
    return *middle;
  }

  static Result<double> checkpoint(const std::string& folder, std::istream& words) {
    std::string name;
    words >> name;
    for (const ClipShape& shape : {kVitB32, kVitL14}) {
      if (name != shape.name) continue;
      SACCADE_TRY(write_random_clip(folder, shape));
      return 0.0;
    }
    if (name == kSo400m.name) {
      SACCADE_TRY(write_random_siglip(folder, kSo400m));
      return 0.0;
    }
    return fail(ErrorCode::kUsage, "no shape {} (there are: {}, {}, {})", name, kVitB32.name, kVitL14.name,
                kSo400m.name);
  }

  static Result<Precision> precision_of(std::istream& words) {
    std::string name;
    words >> name;
    const auto precision = from_name<Precision>(name);
    if (!precision) return fail(ErrorCode::kUsage, "no precision {}", name);
    return *precision;
  }

  Result<double> load(const std::string& folder, std::istream& words) {
    SACCADE_ASSIGN(const Precision precision, precision_of(words));
    encoder_.reset();  // before the next one takes memory
    return timed(
        0, [&] { return load_encoder(folder, {.precision = precision, .threads = 0}); }, encoder_);
  }

  Result<double> photographs(const std::string& list, std::istream& words) {
    std::string how, out;
    double least = 0;
    words >> how >> out >> least;
    SACCADE_ASSIGN(const std::string names, read_file(list, kMostBytes));
    std::vector<std::string> files;
    std::istringstream lines(names);
    for (std::string name; std::getline(lines, name);) {
      SACCADE_ASSIGN(files.emplace_back(), read_file(name, kMostBytes));
    }
    IngestSettings settings;
    settings.fast_decode = how == "fast";
    const Preprocessing& preprocessing = encoder_->preprocessing();
    const PixelOptions options =
        pixel_options(preprocessing, picture_decode_options(settings, preprocessing));
    Matrix<float> found;
    const auto encode = [&]() -> Result<Matrix<float>> {
      const PixelBatch batch = read_pixels(
          std::ssize(files), [&](int64_t i) -> Result<std::string> { return files[static_cast<size_t>(i)]; },
          options, pool_);
      if (!batch.failed.empty()) return fail(batch.failed.front().second);
      return encoder_->encode_images(batch.rows());
    };
    SACCADE_ASSIGN(const double seconds, timed(least, encode, found));
    SACCADE_TRY(store(out, found.data(), static_cast<size_t>(found.rows() * found.columns())));
    return seconds;
  }

  Result<double> pictures(const std::string& file, std::istream& words) {
    int64_t count = 0;
    std::string out;
    double least = 0;
    words >> count >> out >> least;
    const EncoderInfo& info = encoder_->info();
    const int64_t width = int64_t{3} * info.image_height * info.image_width;
    SACCADE_ASSIGN(const std::vector<float> pixels, numbers_of<float>(file, count * width));
    Matrix<float> found;
    const auto encode = [&] {
      return encoder_->encode_images(MatrixView<const float>(pixels.data(), count, width));
    };
    SACCADE_ASSIGN(const double seconds, timed(least, encode, found));
    SACCADE_TRY(store(out, found.data(), static_cast<size_t>(found.rows() * found.columns())));
    return seconds;
  }

  Result<double> texts(const std::string& file, std::istream& words) {
    int64_t count = 0, tokens = 0;
    std::string out;
    double least = 0;
    words >> count >> tokens >> out >> least;
    SACCADE_ASSIGN(const std::vector<int32_t> ids, numbers_of<int32_t>(file, count * tokens));
    std::vector<TokenizedText> texts(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      texts[static_cast<size_t>(i)].ids.assign(ids.begin() + i * tokens, ids.begin() + (i + 1) * tokens);
    }
    Matrix<float> found;
    SACCADE_ASSIGN(const double seconds, timed(
                                             least, [&] { return encoder_->encode_texts(texts); }, found));
    SACCADE_TRY(store(out, found.data(), static_cast<size_t>(found.rows() * found.columns())));
    return seconds;
  }

  // Reads straight into the matrix, as there may be gigabytes.
  Result<double> rows(const std::string& file, std::istream& words) {
    int64_t count = 0, dim = 0;
    words >> count >> dim;
    codes_ = {};
    rows_ = {};
    Matrix<float> rows(count, dim);
    const auto bytes = static_cast<std::streamsize>(rows.values().size() * sizeof(float));
    std::ifstream from(file, std::ios::binary);
    if (!from.read(reinterpret_cast<char*>(rows.data()), bytes)) {
      return fail(ErrorCode::kMismatch, "{} does not have {} bytes", file, bytes);
    }
    rows_ = std::move(rows);
    return 0.0;
  }

  // Makes the rows' 8-bit codes, once.
  Int8Rows codes() {
    const int64_t width = int8_row_bytes(rows_.columns());
    if (codes_.empty()) {
      codes_.resize(static_cast<size_t>(rows_.rows() * width));
      const Int8Encoder encoder(rows_.columns());
      pool_.parallel_for(rows_.rows(), 1024, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          encoder.encode(
              rows_.view().row(row), row,
              std::span(codes_).subspan(static_cast<size_t>(row * width), static_cast<size_t>(width)));
        }
      });
    }
    return {.data = codes_.data(), .count = rows_.rows(), .dim = rows_.columns()};
  }

  Result<double> search(const std::string& file, std::istream& words) {
    int64_t count = 0, k = 0;
    std::string how, out;
    double least = 0;
    words >> count >> k >> how >> out >> least;
    SACCADE_ASSIGN(const std::vector<float> queries, numbers_of<float>(file, count * rows_.columns()));
    SearchedRows searched{.rows = rows_.view()};
    if (how == "int8") searched.int8 = codes();
    FoundRows found;
    const auto find = [&] {
      return find_rows(searched, MatrixView<const float>(queries.data(), count, rows_.columns()), k, pool_);
    };
    SACCADE_ASSIGN(const double seconds, timed(least, find, found));
    std::vector<int64_t> numbers;
    for (const auto& best : found.best) {
      for (const RowScore& hit : best) numbers.push_back(hit.row);
    }
    SACCADE_TRY(store(out, numbers.data(), numbers.size()));
    return seconds;
  }

  std::unique_ptr<EncoderBackend> encoder_;
  Matrix<float> rows_;
  std::vector<std::byte> codes_;
  ThreadPool pool_;  // as many threads as the processors that the comparison leaves us, the caller's included
};

int serve() {
  Runner runner;
  for (std::string line; std::getline(std::cin, line);) {
    const Result<double> seconds = runner.run(line);
    const Json answer = seconds ? Json{{"seconds", *seconds}} : Json{{"error", seconds.error().message}};
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace saccade::bench

int main() {
  return saccade::bench::serve();
}
