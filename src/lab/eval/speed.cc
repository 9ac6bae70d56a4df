#include "lab/eval/speed.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <sstream>

#include "lab/data/read_dataset.h"
#include "lab/eval/figures/sample.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/image/image_codec.h"
#include "saccade/index/exact_search.h"
#include "saccade/index/max_sim.h"

namespace saccade::lab {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMostGalleryBytes = int64_t{32} << 30;

constexpr std::array<std::string_view, 4> kImageStages = {"read", "decode", "preprocess", "encode"};
constexpr std::array<std::string_view, 2> kTextStages = {"tokenize", "encode"};
constexpr std::array<std::string_view, 3> kQueryStages = {"tokenize", "encode", "score"};
constexpr std::array<std::string_view, 5> kImageQueryStages = {"read", "decode", "preprocess", "encode",
                                                               "score"};

// Images that a query is scored against, stored as in collections: one embedding each. With late interaction,
// all their rows are also kept in fp16.
class Gallery {
 public:
  // Makes a gallery: the encoded images first, then random embeddings up to `size`. With late interaction,
  // random images cycle through the numbers of rows of the encoded ones.
  static Result<Gallery> make(const EmbeddedRows& pictures, int64_t dim, const SpeedOptions& options) {
    Gallery gallery;
    gallery.answers_ = options.answers;
    gallery.candidates_ = options.candidates;
    gallery.late_ = pictures.late;
    const int64_t known = std::min(pictures.size(), options.gallery);
    gallery.random_ = options.gallery - known;
    const auto too_large = [&](int64_t bytes_each) -> Status {
      if (options.gallery <= kMostGalleryBytes / bytes_each) return {};
      return fail(ErrorCode::kLimit, "a gallery of {} images with {} bytes of rows each, {} is the most",
                  options.gallery, bytes_each, kMostGalleryBytes / bytes_each);
    };
    SACCADE_TRY(too_large(4 * dim));
    const int64_t bytes = gallery.late_ ? 2 * dim * gallery.count_rows(pictures, options.gallery) : 0;
    SACCADE_TRY(too_large(4 * dim + bytes / options.gallery));
    gallery.rows_ = Matrix<float>(options.gallery, dim);
    const Matrix<float> means = mean_rows(pictures);
    for (int64_t i = 0; i < known; ++i) {
      std::ranges::copy(std::as_const(means).row(i), gallery.rows_.row(i).begin());
    }
    for (int64_t i = known; i < options.gallery; ++i) {
      SplitMix random(options.seed, i);
      fill_random(random, gallery.rows_.row(i));
    }
    if (gallery.late_) gallery.store(pictures, known, bytes, options);
    return gallery;
  }

  // Finds the best images for each query.
  Status answer(const EmbeddedRows& queries, ThreadPool& pool) const {
    if (!late_) {
      SACCADE_ASSIGN(const auto found, exact_search(rows_.view(), queries.sets.rows.view(), answers_, pool));
      return found.size() == static_cast<size_t>(queries.size())
                 ? Status()
                 : fail(ErrorCode::kInternal, "{} answers to {} queries", found.size(), queries.size());
    }
    const Matrix<float> means = mean_rows(queries);
    SACCADE_ASSIGN(const auto found,
                   exact_search(rows_.view(), means.view(), std::max(answers_, candidates_), pool));
    for (size_t q = 0; q < found.size(); ++q) {
      const int64_t begin = queries.sets.begin[q];
      SACCADE_ASSIGN(const PackedQuery packed,
                     pack_query(queries.sets.rows.view().slice(begin, queries.sets.begin[q + 1] - begin),
                                RowPrecision::kFp16));
      std::vector<StoredRows> items;
      for (const RowScore& candidate : found[q]) items.push_back(stored_[static_cast<size_t>(candidate.row)]);
      SACCADE_ASSIGN(std::vector<float> scores, max_sim(items, packed, pool));
      const auto last = std::min<int64_t>(answers_, static_cast<int64_t>(scores.size()));
      std::ranges::partial_sort(scores, scores.begin() + last, std::greater<>());
    }
    return {};
  }

  [[nodiscard]] int64_t size() const { return rows_.rows(); }
  [[nodiscard]] int64_t random() const { return random_; }

 private:
  static void fill_random(SplitMix& random, std::span<float> row) {
    for (float& value : row) {
      value = static_cast<float>(static_cast<double>(random.next() >> 11) * 0x1p-52 - 1);
    }
    normalize_row(row);
  }
  static int64_t rows_of(const EmbeddedRows& pictures, int64_t item) {
    const auto i = static_cast<size_t>(item % pictures.size());
    return pictures.sets.begin[i + 1] - pictures.sets.begin[i];
  }
  static int64_t count_rows(const EmbeddedRows& pictures, int64_t size) {
    int64_t rows = 0;
    for (int64_t i = 0; i < size; ++i) rows += rows_of(pictures, i);
    return rows;
  }
  void store(const EmbeddedRows& pictures, int64_t known, int64_t bytes, const SpeedOptions& options) {
    const int64_t dim = rows_.columns();
    bytes_.resize(static_cast<size_t>(bytes));
    std::byte* next = bytes_.data();
    for (int64_t i = 0; i < options.gallery; ++i) {
      const int64_t count = rows_of(pictures, i);
      const auto size = static_cast<size_t>(2 * dim * count);
      if (i < known) {
        const int64_t begin = pictures.sets.begin[static_cast<size_t>(i)];
        store_rows(pictures.sets.rows.view().slice(begin, count), RowPrecision::kFp16, {next, size});
      } else {
        SplitMix random(~options.seed, i);
        Matrix<float> rows(count, dim);
        for (int64_t r = 0; r < count; ++r) fill_random(random, rows.row(r));
        store_rows(rows.view(), RowPrecision::kFp16, {next, size});
      }
      stored_.push_back({{RowPrecision::kFp16, dim}, next, count});
      next += size;
    }
  }

  Matrix<float> rows_;  // [size, dim]
  bool late_ = false;
  std::vector<std::byte> bytes_;
  std::vector<StoredRows> stored_;
  int64_t random_ = 0;
  int64_t answers_ = 0;
  int64_t candidates_ = 0;
};

class Measurement {
 public:
  Measurement(EncoderBackend& encoder, const SpeedInputs& inputs, const SpeedOptions& options,
              ThreadPool& pool, const SpeedClock& clock)
      : encoder_(encoder),
        inputs_(inputs),
        options_(options),
        pool_(pool),
        clock_(clock),
        preprocessing_(with_transparency(encoder.preprocessing(), options.transparency)),
        decode_({.vector_side = vector_side(preprocessing_),
                 .processes = options.processes,
                 .stop = options.stop}) {}

  Result<SpeedResult> run() {
    result_.batch = options_.batch;
    result_.late = encoder_.late_interaction() != nullptr;
    gallery_rows_.late = result_.late;
    gallery_rows_.sets.rows = Matrix<float>(0, encoder_.info().dim);
    const bool sees = encoder_.info().image_height > 0 && !inputs_.images.empty();
    const bool reads = encoder_.tokenizer() != nullptr && !inputs_.texts.empty();
    if (!sees && !reads) {
      return fail(ErrorCode::kBadData, "nothing to measure with: {} images and {} texts, and the encoder {}",
                  inputs_.images.size(), inputs_.texts.size(),
                  encoder_.tokenizer() == nullptr ? "has no tokenizer" : "reads texts only");
    }
    if (result_.late && !sees) {
      return fail(ErrorCode::kBadData, "late interaction is scored against images, and there are none");
    }
    if (options_.benchmark && !(sees && reads)) {
      return fail(ErrorCode::kUsage, "the benchmark's pass needs images and texts, and an encoder of both");
    }
    if (sees) SACCADE_TRY(images());
    SACCADE_ASSIGN(const Gallery gallery, Gallery::make(gallery_rows_, encoder_.info().dim, options_));
    result_.gallery = gallery.size();
    result_.random_rows = gallery.random();
    if (gallery_rows_.size() > 0) {
      result_.rows_per_image =
          static_cast<double>(gallery_rows_.sets.begin.back()) / static_cast<double>(gallery_rows_.size());
    }
    gallery_rows_ = {};
    if (reads) SACCADE_TRY(texts());
    if (reads) SACCADE_TRY(queries(gallery));
    if (sees) SACCADE_TRY(image_queries(gallery));
    if (options_.benchmark) SACCADE_TRY(benchmark_pass());
    return std::move(result_);
  }

 private:
  // Reports progress. Every check for cancellation is here.
  Status tell(std::string_view what, int64_t done, int64_t total) {
    if (options_.stop.stop_requested()) {
      return fail(ErrorCode::kCancelled, "stopped while measuring speed: nothing is kept");
    }
    if (options_.progress) {
      options_.progress({.what = what, .done = done, .total = total, .detail = options_.progress_detail});
    }
    return {};
  }
  [[nodiscard]] int64_t passes() const { return options_.warm_up + options_.repeats; }

  // Runs some images through the first four stages.
  Result<EmbeddedRows> embed(std::span<const ImageRef> pictures, StageWatch& watch,
                             std::vector<std::string>* hashes) {
    const auto count = static_cast<int64_t>(pictures.size());
    const auto first_error = [&](std::vector<Status>& statuses) -> Status {
      for (size_t i = 0; i < statuses.size(); ++i) {
        if (!statuses[i]) {
          const bool named = statuses[i].error().message.find(pictures[i].name()) != std::string::npos;
          return named ? std::move(statuses[i]) : std::move(statuses[i]).in(pictures[i].name());
        }
      }
      return {};
    };
    std::vector<std::string> bytes(pictures.size());
    std::vector<Image> images(pictures.size());
    std::vector<Status> statuses(pictures.size());
    Matrix<float> pixels(count, int64_t{3} * preprocessing_.output_height() * preprocessing_.output_width());
    const auto each = [&](const std::function<Status(size_t)>& body) -> Status {
      pool_.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) statuses[i] = body(i);
      });
      return first_error(statuses);
    };
    watch.begin();
    SACCADE_TRY(each([&](size_t i) -> Status {
      SACCADE_ASSIGN(bytes[i], read_image_bytes(pictures[i], decode_.max_bytes));
      return {};
    }));
    watch.end_stage(0);
    SACCADE_TRY(each([&](size_t i) -> Status {
      SACCADE_ASSIGN(DecodedImage decoded, decode_image(std::as_bytes(std::span(bytes[i])), decode_));
      images[i] = std::move(decoded.image);
      return {};
    }));
    watch.end_stage(1);
    SACCADE_TRY(each([&](size_t i) -> Status {
      return preprocess(images[i], preprocessing_, pixels.row(static_cast<int64_t>(i)));
    }));
    watch.end_stage(2);
    SACCADE_ASSIGN(EmbeddedRows rows, encode_pixels(pixels.view()));
    watch.end_stage(3);
    if (hashes != nullptr) {
      for (const std::string& one : bytes) hashes->push_back(sha256_hex(one));
    }
    return rows;
  }

  Result<EmbeddedRows> encode_pixels(MatrixView<const float> pixels) {
    SACCADE_ASSIGN(RowSets sets, result_.late ? encoder_.late_interaction()->encode_image_rows(pixels)
                                              : one_each(encoder_.encode_images(pixels)));
    return EmbeddedRows{std::move(sets), result_.late, {}};
  }
  Result<EmbeddedRows> encode_texts(std::span<const TokenizedText> texts) {
    SACCADE_ASSIGN(RowSets sets, result_.late ? encoder_.late_interaction()->encode_text_rows(texts)
                                              : one_each(encoder_.encode_texts(texts)));
    return EmbeddedRows{std::move(sets), result_.late, {}};
  }
  std::vector<TokenizedText> tokenize(size_t first, size_t count) const {
    std::vector<TokenizedText> texts;
    for (size_t i = first; i < first + count; ++i) {
      texts.push_back(encoder_.tokenizer()->encode(inputs_.texts[i], encoder_.info().context));
    }
    return texts;
  }

  // The embeddings of the first pass are used for the gallery.
  Status images() {
    const std::span<const ImageRef> all = inputs_.images;
    const auto step = static_cast<size_t>(options_.batch);
    std::vector<std::string> hashes;
    std::vector<float> values;
    int64_t done = 0;
    const auto pass = [&](StageWatch& watch) -> Status {
      const bool first = done == 0;
      for (size_t i = 0; i < all.size(); i += step) {
        const size_t count = std::min(step, all.size() - i);
        SACCADE_TRY(tell("timing images", done, passes() * static_cast<int64_t>(all.size())));
        SACCADE_ASSIGN(const EmbeddedRows rows,
                       embed(all.subspan(i, count), watch, first ? &hashes : nullptr));
        if (first && gallery_rows_.size() < options_.gallery) append(rows, values, gallery_rows_);
        done += static_cast<int64_t>(count);
      }
      return {};
    };
    SACCADE_ASSIGN(result_.images, measure_throughput(kImageStages, static_cast<int64_t>(all.size()),
                                                      options_, clock_, pass));
    result_.images_sha256 = hash_of_hashes(hashes);
    finish_rows(values, gallery_rows_);
    return {};
  }

  Status texts() {
    const auto all = static_cast<int64_t>(inputs_.texts.size());
    int64_t ids = 0;
    for (const TokenizedText& text : tokenize(0, inputs_.texts.size())) {
      ids += static_cast<int64_t>(text.ids.size());
      result_.texts_cut += text.dropped > 0 ? 1 : 0;
    }
    result_.mean_tokens = static_cast<double>(ids) / static_cast<double>(all);
    SACCADE_ASSIGN(result_.texts, text_throughput(kTextStages, nullptr));
    return {};
  }

  Status queries(const Gallery& gallery) {
    SACCADE_ASSIGN(result_.queries, text_throughput(kQueryStages, &gallery));
    const int64_t count = std::min<int64_t>(options_.queries, static_cast<int64_t>(inputs_.texts.size()));
    int64_t done = 0;
    const auto one = [&](int64_t i, StageWatch& watch) -> Status {
      SACCADE_TRY(tell("timing text queries", done++, passes() * count));
      watch.begin();
      const std::vector<TokenizedText> text = tokenize(static_cast<size_t>(i), 1);
      watch.end_stage(0);
      SACCADE_ASSIGN(const EmbeddedRows rows, encode_texts(text));
      watch.end_stage(1);
      SACCADE_TRY(gallery.answer(rows, pool_));
      watch.end_stage(2);
      return {};
    };
    SACCADE_ASSIGN(result_.text_latency, measure_latency(kQueryStages, count, options_, clock_, one));
    return {};
  }

  // Measures batches of texts, up to embeddings or, with a gallery, to answers.
  Result<Throughput> text_throughput(std::span<const std::string_view> stages, const Gallery* gallery) {
    const size_t all = inputs_.texts.size();
    const auto step = static_cast<size_t>(options_.batch);
    int64_t done = 0;
    const auto pass = [&](StageWatch& watch) -> Status {
      for (size_t i = 0; i < all; i += step) {
        const size_t count = std::min(step, all - i);
        SACCADE_TRY(tell(gallery == nullptr ? "timing texts" : "timing queries", done,
                         passes() * static_cast<int64_t>(all)));
        watch.begin();
        const std::vector<TokenizedText> texts = tokenize(i, count);
        watch.end_stage(0);
        SACCADE_ASSIGN(const EmbeddedRows rows, encode_texts(texts));
        watch.end_stage(1);
        if (gallery != nullptr) {
          SACCADE_TRY(gallery->answer(rows, pool_));
          watch.end_stage(2);
        }
        done += static_cast<int64_t>(count);
      }
      return {};
    };
    return measure_throughput(stages, static_cast<int64_t>(all), options_, clock_, pass);
  }

  Status image_queries(const Gallery& gallery) {
    const std::span<const ImageRef> all = inputs_.images;
    const int64_t count = std::min<int64_t>(options_.queries, static_cast<int64_t>(all.size()));
    int64_t done = 0;
    const auto one = [&](int64_t i, StageWatch& watch) -> Status {
      SACCADE_TRY(tell("timing image queries", done++, passes() * count));
      SACCADE_ASSIGN(const EmbeddedRows rows, embed(all.subspan(static_cast<size_t>(i), 1), watch, nullptr));
      SACCADE_TRY(gallery.answer(rows, pool_));
      watch.end_stage(4);
      return {};
    };
    SACCADE_ASSIGN(result_.image_latency, measure_latency(kImageQueryStages, count, options_, clock_, one));
    return {};
  }

  // Encodes texts in batches, and adds their rows to `all`.
  Status encode_all(std::span<const std::string> texts, EmbeddedRows& all) {
    std::vector<float> values;
    for (size_t i = 0; i < texts.size(); i += static_cast<size_t>(options_.batch)) {
      SACCADE_TRY(tell("timing a benchmark pass", static_cast<int64_t>(i), std::ssize(texts)));
      const size_t end = std::min(texts.size(), i + static_cast<size_t>(options_.batch));
      std::vector<TokenizedText> tokenized;
      for (size_t t = i; t < end; ++t) {
        tokenized.push_back(encoder_.tokenizer()->encode(texts[t], encoder_.info().context));
      }
      SACCADE_ASSIGN(const EmbeddedRows rows, encode_texts(tokenized));
      append(rows, values, all);
    }
    finish_rows(values, all);
    return {};
  }
  static void append(const EmbeddedRows& rows, std::vector<float>& values, EmbeddedRows& all) {
    values.insert(values.end(), rows.sets.rows.values().begin(), rows.sets.rows.values().end());
    for (size_t i = 1; i < rows.sets.begin.size(); ++i) {
      all.sets.begin.push_back(all.sets.begin.back() + rows.sets.begin[i] - rows.sets.begin[i - 1]);
    }
  }
  void finish_rows(const std::vector<float>& values, EmbeddedRows& all) const {
    all.late = result_.late;
    all.sets.rows = Matrix<float>(all.sets.begin.back(), encoder_.info().dim);
    std::ranges::copy(values, all.sets.rows.data());
  }
  // Computes every score of these texts with these images. Nothing is kept.
  Status score_all(const EmbeddedRows& texts, const EmbeddedRows& images) {
    SACCADE_ASSIGN(const auto scores, scores_of(texts, images));
    pool_.parallel_for(scores->texts(), 16, [&](int64_t begin, int64_t end) {
      Matrix<float> block(end - begin, scores->images());
      scores->score(begin, end - begin, 0, scores->images(), block.data(), scores->images(), 1);
    });
    return {};
  }

  Status benchmark_pass() {
    BenchmarkPass& pass = result_.benchmark.emplace();
    pass.images = std::ssize(inputs_.images);
    pass.queries = std::ssize(inputs_.texts);
    pass.texts = std::ssize(inputs_.captions);
    EmbeddedRows images;
    std::vector<float> values;
    StageWatch image_watch(clock_, kImageStages.size());
    const auto step = static_cast<size_t>(options_.batch);
    for (size_t i = 0; i < inputs_.images.size(); i += step) {
      SACCADE_TRY(tell("timing a benchmark pass", static_cast<int64_t>(i), pass.images));
      const auto some = std::span(inputs_.images).subspan(i, std::min(step, inputs_.images.size() - i));
      SACCADE_ASSIGN(const EmbeddedRows rows, embed(some, image_watch, nullptr));
      append(rows, values, images);
    }
    finish_rows(values, images);
    StageWatch watch(clock_, 3);
    EmbeddedRows queries;
    EmbeddedRows texts;
    watch.begin();
    SACCADE_TRY(encode_all(inputs_.texts, queries));
    watch.end_stage(0);
    SACCADE_TRY(encode_all(inputs_.captions, texts));
    watch.end_stage(1);
    SACCADE_TRY(score_all(queries, images));
    SACCADE_TRY(score_all(texts, images));
    watch.end_stage(2);
    for (size_t s = 0; s < kImageStages.size(); ++s) {
      pass.seconds.emplace_back(fmt::format("{} images", kImageStages[s]), image_watch.seconds()[s]);
    }
    pass.seconds.emplace_back("encode queries", watch.seconds()[0]);
    pass.seconds.emplace_back("encode texts", watch.seconds()[1]);
    pass.seconds.emplace_back("score", watch.seconds()[2]);
    const double seconds = image_watch.seconds()[2] + image_watch.seconds()[3] + watch.total();
    pass.queries_per_s = static_cast<double>(pass.queries) / std::max(seconds, 1e-9);
    return {};
  }

  EncoderBackend& encoder_;
  const SpeedInputs& inputs_;
  const SpeedOptions& options_;
  ThreadPool& pool_;
  const SpeedClock& clock_;
  Preprocessing preprocessing_;
  DecodeOptions decode_;
  EmbeddedRows gallery_rows_;  // embeddings of the images, while the gallery needs them
  SpeedResult result_;
};

double percentile(std::span<const double> sorted, double share) {
  // Fewer than one sample is expected beyond the percentile, so it would only be the maximum.
  if (static_cast<double>(sorted.size()) * (1 - share) < 1 - 1e-9) return kNone;
  return quantile(sorted, share);
}

std::optional<Spread> per_second(const Throughput& throughput) {
  return throughput.items == 0 ? std::nullopt : std::optional(throughput.per_second);
}
// Returns seconds per item.
std::optional<StageTimes> stage_times(const Throughput& throughput) {
  if (throughput.items == 0) return std::nullopt;
  StageTimes times;
  for (const StageTime& stage : throughput.stages) times.emplace_back(stage.name, stage.seconds.value);
  return times;
}

}  // namespace

SpeedClock monotonic_clock() {
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
}

double StageWatch::total() const {
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {quantile(values, 0.5), values.front(), values.back()};
}

Result<Throughput> measure_throughput(std::span<const std::string_view> stages, int64_t items,
                                      const SpeedOptions& options, const SpeedClock& clock,
                                      const std::function<Status(StageWatch&)>& pass) {
  std::vector<double> rates;
  std::vector<std::vector<double>> seconds(stages.size());
  for (int64_t r = 0; r < options.warm_up + options.repeats; ++r) {
    StageWatch watch(clock, stages.size());
    SACCADE_TRY(pass(watch));
    if (r < options.warm_up) continue;
    // The clock may be too coarse for the measurement, so rates are limited to one item per nanosecond.
    rates.push_back(static_cast<double>(items) / std::max(watch.total(), 1e-9 * static_cast<double>(items)));
    for (size_t s = 0; s < stages.size(); ++s) {
      seconds[s].push_back(watch.seconds()[s] / static_cast<double>(items));
    }
  }
  Throughput result;
  result.items = items;
  result.per_second = spread_of(std::move(rates));
  for (size_t s = 0; s < stages.size(); ++s) {
    result.stages.push_back({std::string(stages[s]), spread_of(std::move(seconds[s]))});
  }
  return result;
}

Result<Latency> measure_latency(std::span<const std::string_view> stages, int64_t items,
                                const SpeedOptions& options, const SpeedClock& clock,
                                const std::function<Status(int64_t, StageWatch&)>& one) {
  std::vector<double> totals;
  std::vector<std::vector<double>> each(stages.size());
  for (int64_t r = 0; r < options.warm_up + options.repeats; ++r) {
    for (int64_t i = 0; i < items; ++i) {
      StageWatch watch(clock, stages.size());
      SACCADE_TRY(one(i, watch));
      if (r < options.warm_up) continue;
      totals.push_back(1000 * watch.total());
      for (size_t s = 0; s < stages.size(); ++s) each[s].push_back(1000 * watch.seconds()[s]);
    }
  }
  Latency result;
  result.samples = static_cast<int64_t>(totals.size());
  if (totals.empty()) return result;
  std::ranges::sort(totals);
  result.p50 = quantile(totals, 0.5);
  result.p95 = percentile(totals, 0.95);
  result.p99 = percentile(totals, 0.99);
  result.max = totals.back();
  for (size_t s = 0; s < stages.size(); ++s) {
    result.stages.emplace_back(std::string(stages[s]), spread_of(std::move(each[s])).value);
  }
  return result;
}

SpeedInputs speed_inputs(const Dataset& dataset, int64_t limit) {
  SpeedInputs inputs;
  const auto full = [&] { return limit > 0 && static_cast<int64_t>(inputs.images.size()) >= limit; };
  if (const auto* images = dataset.find<CaptionedImages>()) {
    for (const DatasetItem& item : images->items) {
      if (full()) break;
      inputs.images.push_back(item.image);
      if (!item.captions.empty()) inputs.texts.push_back(item.captions.front());
      const auto count = std::min<int64_t>(std::ssize(item.captions), kBenchmarkCaptions);
      inputs.captions.insert(inputs.captions.end(), item.captions.begin(), item.captions.begin() + count);
    }
  } else if (const auto* tests = dataset.find<CompositionTests>()) {
    for (const CompositionItem& item : tests->items) {
      for (size_t i = 0; i < item.images.size() && !full(); ++i) {
        inputs.images.push_back(item.images[i]);
        inputs.texts.push_back(item.captions[i]);
        inputs.captions.push_back(item.captions[i]);
      }
    }
  }
  return inputs;
}

Result<SpeedResult> measure_speed(EncoderBackend& encoder, const SpeedInputs& inputs,
                                  const SpeedOptions& options, ThreadPool& pool, const SpeedClock& clock) {
  const auto at_least = [](std::string_view name, int64_t value, int64_t lowest) -> Status {
    if (value >= lowest) return {};
    return fail(ErrorCode::kUsage, "{} is {}, expected at least {}", name, value, lowest);
  };
  SACCADE_TRY(at_least("batch", options.batch, 1));
  SACCADE_TRY(at_least("repeats", options.repeats, 1));
  SACCADE_TRY(at_least("warm-up", options.warm_up, 0));
  SACCADE_TRY(at_least("queries", options.queries, 1));
  SACCADE_TRY(at_least("gallery", options.gallery, 1));
  SACCADE_TRY(at_least("answers", options.answers, 1));
  return Measurement(encoder, inputs, options, pool, clock).run();
}

ProcessMemory process_memory() {
  ProcessMemory memory;
  const auto text = read_file("/proc/self/status", int64_t{1} << 20);
  if (!text) return memory;
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key;
    int64_t kibibytes = 0;
    if (!(words >> key >> kibibytes)) continue;
    if (key == "VmRSS:") memory.resident_bytes = kibibytes * 1024;
    if (key == "VmHWM:") memory.peak_bytes = kibibytes * 1024;
  }
  return memory;
}

SpeedRecord speed_record(const SpeedResult& result) {
  SpeedRecord record;
  record.batch = result.batch;
  record.images = result.images.items;
  record.texts = result.texts.items;
  record.images_per_s = per_second(result.images);
  record.texts_per_s = per_second(result.texts);
  record.queries_per_s = per_second(result.queries);
  record.stages = stage_times(result.images);
  record.text_stages = stage_times(result.texts);
  record.query_stages = stage_times(result.queries);
  if (result.text_latency.samples > 0) record.text_latency = result.text_latency;
  if (result.image_latency.samples > 0) record.image_latency = result.image_latency;
  record.benchmark = result.benchmark;
  record.mean_tokens = result.mean_tokens;
  record.texts_cut = result.texts_cut;
  record.scored_by = result.late ? "maxsim" : "cosine";
  record.rows_per_image = result.rows_per_image;
  record.gallery = result.gallery;
  record.random_rows = result.random_rows;
  return record;
}

std::string speed_words(const SpeedOptions& options, int64_t limit) {
  const auto passes = [](int64_t count) { return fmt::format("{} pass{}", count, count == 1 ? "" : "es"); };
  return fmt::format(
      "Medians over {}, with the slowest and the fastest as the interval; {} before them left out. Inputs: "
      "{} of the dataset and the first caption of each, as they are; captions of other lengths take other "
      "times. images_per_s: reading the files (from the system's cache after the first pass), decoding, "
      "preprocessing and encoding, {} at a time, each stage done before the next begins; not in it: writing "
      "rows, and the overlap of stages that `saccade index` has. texts_per_s: tokenizing and encoding, {} at "
      "a time. queries_per_s: the same and scoring against {} rows for the {} best, {} at a time; not in it: "
      "looking up images, folding near-duplicates. With late interaction the {} best by the cosine of "
      "means are scored by MaxSim over all their rows in fp16. Latency: single queries from the words or the "
      "file to the {} best, percentiles over {} a pass; a percentile is given where at least one sample is "
      "expected beyond it. Rows that the dataset's images do not fill are random. Loading: mapping "
      "and hashing the checkpoint's files, from the system's cache; layers are packed in the first pass. Memory: resident, mapped files "
      "included, of a process that does nothing else; at its peak with a batch of images and the gallery.",
      passes(options.repeats), passes(options.warm_up),
      limit > 0 ? fmt::format("the first {} images", limit) : std::string("all images"), options.batch,
      options.batch, options.gallery, options.answers, options.batch, options.candidates, options.answers,
      options.queries);
}

}  // namespace saccade::lab
