// Saccade's side of the comparison with other programs (bench/peers/compare): reads one command per line,
// answers with a line of JSON. The inputs are raw little-endian numbers in files that the peers read too.
//
//   checkpoint FOLDER SHAPE            writes a CLIP with random weights in the Hugging Face layout: ViT-B/32, ViT-L/14
//   load FOLDER PRECISION              opens its encoder
//   pictures FILE N OUT                encodes float32 [N, 3, 224, 224]; float32 embeddings to OUT
//   open FOLDER PRECISION              opens the public library's encoder, which decodes and preprocesses too
//   photographs LIST BATCH OUT         encodes the files that LIST names, one a line, read before the clock starts; float32
//                                      embeddings to OUT
//   texts FILE N TOKENS OUT            encodes int32 [N, TOKENS]; float32 embeddings to OUT
//   rows FILE N DIM                    keeps float32 [N, DIM] in memory for searching
//   search FILE M K OUT                the K best rows of each of M queries, float32 [M,
//                                      DIM]; int64 row numbers to OUT
//
// {"seconds": s} is the time of the work itself, without reading and writing files; {"error": "..."}
// describes a failure.
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/encoder.h"
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
    if (command == "open") return open(file, words);
    if (command == "photographs") return photographs(file, words);
    if (command == "load") return load(file, words);
    if (command == "pictures") return pictures(file, words);
    if (command == "texts") return texts(file, words);
    if (command == "rows") return rows(file, words);
    if (command == "search") return search(file, words);
    return fail(ErrorCode::kUsage, "no command {}", command);
  }

 private:
  // Returns the seconds of `work`, which returns a Result.
  template <typename Work, typename Value>
  static Status timed(const Work& work, Value& value, double& seconds) {
    const auto start = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(value, work());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {};
  }

  static Result<double> checkpoint(const std::string& folder, std::istream& words) {
    std::string name;
    words >> name;
    for (const ClipShape& shape : {kVitB32, kVitL14}) {
      if (name != shape.name) continue;
      SACCADE_TRY(write_random_clip(folder, shape));
      return 0.0;
    }
    return fail(ErrorCode::kUsage, "no shape {} (there are: {}, {})", name, kVitB32.name, kVitL14.name);
  }

  static Result<Precision> precision_of(std::istream& words) {
    std::string name;
    words >> name;
    const auto precision = from_name<Precision>(name);
    if (!precision) return fail(ErrorCode::kUsage, "no precision {}", name);
    return *precision;
  }

  Result<double> open(const std::string& folder, std::istream& words) {
    SACCADE_ASSIGN(const Precision precision, precision_of(words));
    double seconds = 0;
    SACCADE_TRY(
        timed([&] { return Encoder::load(folder, {.precision = precision}); }, photographer_, seconds));
    return seconds;
  }

  Result<double> photographs(const std::string& list, std::istream& words) {
    int batch = 0;
    std::string out;
    words >> batch >> out;
    SACCADE_ASSIGN(const std::string names, read_file(list, kMostBytes));
    std::vector<ImageInput> inputs;
    std::istringstream lines(names);
    for (std::string name; std::getline(lines, name);) {
      SACCADE_ASSIGN(std::string bytes, read_file(name, kMostBytes));
      inputs.push_back(ImageInput::bytes(std::move(bytes)));
    }
    std::optional<Embeddings> found;
    double seconds = 0;
    SACCADE_TRY(
        timed([&] { return photographer_->encode_images(inputs, {.batch_size = batch}); }, found, seconds));
    const MatrixView<const float> rows = found->view();
    SACCADE_TRY(store(out, rows.data(), static_cast<size_t>(rows.rows() * rows.columns())));
    return seconds;
  }

  Result<double> load(const std::string& folder, std::istream& words) {
    SACCADE_ASSIGN(const Precision precision, precision_of(words));
    double seconds = 0;
    SACCADE_TRY(timed([&] { return load_encoder(folder, {.precision = precision, .threads = 0}); }, encoder_,
                      seconds));
    return seconds;
  }

  Result<double> pictures(const std::string& file, std::istream& words) {
    int64_t count = 0;
    std::string out;
    words >> count >> out;
    const int64_t width = 3 * kPictureSide * kPictureSide;
    SACCADE_ASSIGN(const std::vector<float> pixels, numbers_of<float>(file, count * width));
    Matrix<float> found;
    double seconds = 0;
    SACCADE_TRY(
        timed([&] { return encoder_->encode_images(MatrixView<const float>(pixels.data(), count, width)); },
              found, seconds));
    SACCADE_TRY(store(out, found.data(), static_cast<size_t>(found.rows() * found.columns())));
    return seconds;
  }

  Result<double> texts(const std::string& file, std::istream& words) {
    int64_t count = 0, tokens = 0;
    std::string out;
    words >> count >> tokens >> out;
    SACCADE_ASSIGN(const std::vector<int32_t> ids, numbers_of<int32_t>(file, count * tokens));
    std::vector<TokenizedText> texts(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      texts[static_cast<size_t>(i)].ids.assign(ids.begin() + i * tokens, ids.begin() + (i + 1) * tokens);
    }
    Matrix<float> found;
    double seconds = 0;
    SACCADE_TRY(timed([&] { return encoder_->encode_texts(texts); }, found, seconds));
    SACCADE_TRY(store(out, found.data(), static_cast<size_t>(found.rows() * found.columns())));
    return seconds;
  }

  Result<double> rows(const std::string& file, std::istream& words) {
    int64_t count = 0, dim = 0;
    words >> count >> dim;
    SACCADE_ASSIGN(const std::vector<float> values, numbers_of<float>(file, count * dim));
    rows_ = Matrix<float>(count, dim);
    std::memcpy(rows_.data(), values.data(), values.size() * sizeof(float));
    return 0.0;
  }

  Result<double> search(const std::string& file, std::istream& words) {
    int64_t count = 0, k = 0;
    std::string out;
    words >> count >> k >> out;
    SACCADE_ASSIGN(const std::vector<float> queries, numbers_of<float>(file, count * rows_.columns()));
    std::vector<std::vector<RowScore>> found;
    double seconds = 0;
    SACCADE_TRY(timed(
        [&] {
          return exact_search(rows_.view(), MatrixView<const float>(queries.data(), count, rows_.columns()),
                              k, pool_);
        },
        found, seconds));
    std::vector<int64_t> numbers;
    for (const auto& best : found) {
      for (const RowScore& hit : best) numbers.push_back(hit.row);
    }
    SACCADE_TRY(store(out, numbers.data(), numbers.size()));
    return seconds;
  }

  std::unique_ptr<EncoderBackend> encoder_;
  std::optional<Encoder> photographer_;
  Matrix<float> rows_;
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
