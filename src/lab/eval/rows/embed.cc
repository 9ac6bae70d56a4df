#include "lab/eval/rows/embed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "lab/data/read_dataset.h"
#include "saccade/core/hash.h"
#include "saccade/core/rows.h"
#include "saccade/image/decode/process/decoder_versions.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/build_versions.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

// Number of texts passed to the encoder at a time. It makes batches of similar lengths from them.
constexpr size_t kTextBatch = 256;
// Version of decoding and text encoding. Increase it when these change, so that old embeddings are not found.
constexpr int kSpaceVersion = 3;

// Returns a description of everything that affects an embedding apart from its input.
template <typename Input>
std::string space_of(const EncoderInfo& info, const EmbeddingFunction<Input>& function,
                     std::string_view what) {
  std::string space = fmt::format("{} of version {}\ncheckpoint {}{}\nprecision {}\n{}\n", what,
                                  kSpaceVersion, info.fingerprint, function.key, enum_name(info.precision),
                                  function.late ? "late interaction" : "one row");
  if (!is_processor(info.device)) space += fmt::format("device {}\n", info.device);
  for (const auto& [name, version] : library_versions()) space += fmt::format("{} {}\n", name, version);
  return space + fmt::format("computed with {}\n", instruction_set());
}

std::string space_of_pictures(const EncoderInfo& info, const ImageFunction& function,
                              const EmbedOptions& options, const Preprocessing& preprocessing) {
  std::string space = space_of(info, function, options.as_stored ? "pictures as stored" : "pictures");
  for (const auto& [name, version] : decoder_versions()) space += fmt::format("{} {}\n", name, version);
  return space + preprocessing.describe();
}

// Gathers items' embeddings in order: from the cache, from equal earlier items, or from the encoder.
class Gatherer {
 public:
  Gatherer(const EmbedOptions& options, const std::string& space, int64_t dim)
      : options_(options), dim_(dim) {
    if (options.cache.empty()) return;
    auto cache = EmbeddingCache::open(options.cache, space, dim, options.cache_bytes);
    if (cache) {
      cache_.emplace(*std::move(cache));
    } else {
      do_without(cache.error());
    }
  }

  [[nodiscard]] bool knows(const std::string& key) const {
    return first_.contains(key) || (cache_ && cache_->has(key));
  }
  // Takes known embeddings as the next item's. Returns false if the key is unknown.
  bool take_known(const std::string& key) {
    const auto before = first_.find(key);
    if (before != first_.end()) {
      const auto item = static_cast<size_t>(before->second);
      const auto begin = static_cast<size_t>(begin_[item] * dim_);
      const auto end = static_cast<size_t>(begin_[item + 1] * dim_);
      const size_t at = values_.size();
      values_.resize(at + (end - begin));
      std::copy_n(values_.data() + begin, end - begin, values_.data() + at);
      begin_.push_back(begin_.back() + before_rows(item));
      return true;
    }
    const int64_t rows = cache_ ? cache_->find(key, values_) : 0;
    if (rows == 0) return false;
    note(key, rows);
    return true;
  }

  // Takes new embeddings as the next item's. Returns kBadData for embeddings that cannot be compared.
  Status take_new(const std::string& key, MatrixView<const float> rows) {
    for (int64_t r = 0; r < rows.rows(); ++r) {
      const double length = row_length(rows.row(r));
      if (!std::isfinite(length)) return fail(ErrorCode::kBadData, "its row is not finite");
      if (length == 0) return fail(ErrorCode::kBadData, "its row is zero");
      values_.insert(values_.end(), rows.row(r).begin(), rows.row(r).end());
    }
    note(key, rows.rows());
    if (cache_) keep(cache_->add(key, rows));
    return {};
  }
  void take_nothing() { begin_.push_back(begin_.back()); }

  void flush() {
    if (cache_) keep(cache_->flush());
  }
  // Returns the hint on resuming for a cancelled command.
  [[nodiscard]] std::string_view going_on() const {
    return cache_ ? "; the same command goes on from there" : "";
  }

  EmbeddedRows finish(bool late) {
    EmbeddedRows result;
    result.late = late;
    result.sets.rows = Matrix<float>(begin_.back(), dim_);
    std::ranges::copy(values_, result.sets.rows.data());
    result.sets.begin = std::move(begin_);
    result.cache = cache_ ? cache_->counts() : counts_;
    return result;
  }

 private:
  // Continues without the cache. An unusable cache costs time but does not fail the evaluation.
  void do_without(const Error& error) {
    if (options_.warning) options_.warning("rows are not kept for the next time: " + error.message);
  }
  void keep(const Status& kept) {
    if (kept) return;
    do_without(kept.error());
    counts_ = cache_->counts();
    cache_.reset();
  }
  [[nodiscard]] int64_t before_rows(size_t item) const { return begin_[item + 1] - begin_[item]; }
  void note(const std::string& key, int64_t rows) {
    first_.emplace(key, static_cast<int64_t>(begin_.size()) - 1);
    begin_.push_back(begin_.back() + rows);
  }

  const EmbedOptions& options_;
  std::optional<EmbeddingCache> cache_;
  EmbeddingCache::Counts counts_;  // counts of a cache that was given up
  int64_t dim_;
  std::vector<float> values_;
  std::vector<int64_t> begin_ = {0};
  std::unordered_map<std::string, int64_t> first_;  // key -> the first item that has it
};

// A batch of images.
class PictureBatch {
 public:
  PictureBatch(const ImageFunction& function, const Preprocessing& preprocessing, const EmbedOptions& options,
               ThreadPool& pool)
      : function_(function),
        pixels_(pixel_options(preprocessing,
                              {.apply_orientation = !options.as_stored, .processes = options.processes})),
        pool_(pool) {}

  // Encodes the batch and appends everything to `result` and `gatherer`.
  Status run(std::span<const ImageRef> pictures, int64_t first, Gatherer& gatherer,
             EmbeddedPictures& result) {
    const auto count = static_cast<int64_t>(pictures.size());
    std::vector<std::string> bytes(pictures.size());
    std::vector<std::optional<Error>> errors(pictures.size());
    std::vector<std::string> keys(pictures.size());
    pool_.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        auto read = read_image_bytes(pictures[i], pixels_.decode.max_bytes);
        if (read) {
          keys[i] = sha256_hex(*read);
          bytes[i] = *std::move(read);
        } else {
          errors[i] = std::move(read).error();
        }
      }
    });
    // Embeddings are taken in order, so nothing behind the first unknown one may be taken before that is
    // encoded. A run of unknown items ends at the first known one.
    for (size_t i = 0; i < pictures.size();) {
      if (errors[i]) {
        gatherer.take_nothing();
        result.failed.emplace_back(first + static_cast<int64_t>(i), *errors[i]);
        ++i;
      } else if (gatherer.take_known(keys[i])) {
        ++i;
      } else {
        size_t end = i + 1;
        std::unordered_set<std::string_view> run = {keys[i]};
        while (end < pictures.size() && !errors[end] && !gatherer.knows(keys[end]) &&
               run.insert(keys[end]).second) {
          ++end;
        }
        SACCADE_TRY(encode(pictures.subspan(i, end - i), std::span(bytes).subspan(i, end - i),
                           std::span(keys).subspan(i, end - i), first + static_cast<int64_t>(i), gatherer,
                           result));
        i = end;
      }
    }
    std::ranges::move(keys, std::back_inserter(result.sha256));
    return {};
  }

 private:
  Status encode(std::span<const ImageRef> pictures, std::span<const std::string> bytes,
                std::span<const std::string> keys, int64_t first, Gatherer& gatherer,
                EmbeddedPictures& result) {
    PixelBatch batch = read_pixels(
        static_cast<int64_t>(pictures.size()),
        [&](int64_t i) -> Result<std::string> { return bytes[static_cast<size_t>(i)]; }, pixels_, pool_);
    RowSets sets;
    if (const MatrixView<const float> readable = batch.rows(); readable.rows() > 0) {
      SACCADE_ASSIGN(sets, function_.encode(readable));
    }
    size_t next = 0;
    auto failed = batch.failed.begin();
    for (size_t i = 0; i < pictures.size(); ++i) {
      if (failed != batch.failed.end() && failed->first == static_cast<int64_t>(i)) {
        gatherer.take_nothing();
        result.failed.emplace_back(first + static_cast<int64_t>(i), std::move(failed->second));
        ++failed;
        continue;
      }
      const int64_t begin = sets.begin[next];
      SACCADE_TRY(
          gatherer
              .take_new(keys[i], std::as_const(sets.rows).view().slice(begin, sets.begin[next + 1] - begin))
              .in(pictures[i].name()));
      ++next;
    }
    return {};
  }

  const ImageFunction& function_;
  const PixelOptions pixels_;
  ThreadPool& pool_;
};

void tell(const EmbedOptions& options, std::string_view what, size_t done, size_t total) {
  if (!options.progress) return;
  options.progress({.what = what,
                    .done = static_cast<int64_t>(done),
                    .total = static_cast<int64_t>(total),
                    .detail = options.progress_detail});
}

}  // namespace

std::span<const EnumName<Transparency>> enum_names(Transparency) {
  static constexpr std::array<EnumName<Transparency>, 2> kWords{
      {{Transparency::kWhite, "white", "lie on white"},
       {Transparency::kCheckpoint, "checkpoint", "are as the checkpoint has them"}}};
  return kWords;
}

Preprocessing with_transparency(const Preprocessing& preprocessing, Transparency transparency) {
  Preprocessing result = preprocessing;
  if (transparency == Transparency::kWhite) {
    result.alpha = AlphaPolicy::kComposite;
    result.background = {255, 255, 255};
  }
  return result;
}

ImageFunction own_images(EncoderBackend& encoder) {
  LateInteraction* late = encoder.late_interaction();
  return {.key = "",
          .dim = encoder.info().dim,
          .late = late != nullptr,
          .encode = [&encoder, late](MatrixView<const float> pixels) {
            return late != nullptr ? late->encode_image_rows(pixels)
                                   : one_each(encoder.encode_images(pixels));
          }};
}

TextFunction own_texts(EncoderBackend& encoder) {
  LateInteraction* late = encoder.late_interaction();
  return {.key = "",
          .dim = encoder.info().dim,
          .late = late != nullptr,
          .encode = [&encoder, late](std::span<const TokenizedText> texts) {
            return late != nullptr ? late->encode_text_rows(texts) : one_each(encoder.encode_texts(texts));
          }};
}

Result<EmbeddedPictures> embed_pictures(EncoderBackend& encoder, std::span<const ImageRef> pictures,
                                        const EmbedOptions& options, ThreadPool& pool) {
  return embed_pictures(encoder, own_images(encoder), pictures, options, pool);
}

Result<EmbeddedPictures> embed_pictures(EncoderBackend& encoder, const ImageFunction& function,
                                        std::span<const ImageRef> pictures, const EmbedOptions& options,
                                        ThreadPool& pool) {
  if (encoder.info().image_height == 0) {
    return fail(ErrorCode::kUnsupported, "the checkpoint's encoder ({}) reads texts only",
                encoder.info().family);
  }
  const Preprocessing preprocessing = with_transparency(encoder.preprocessing(), options.transparency);
  Gatherer gatherer(options, space_of_pictures(encoder.info(), function, options, preprocessing),
                    function.dim);
  EmbeddedPictures result;
  PictureBatch batch(function, preprocessing, options, pool);
  const auto step = static_cast<size_t>(std::max(1, options.batch));
  Status status;
  for (size_t first = 0; first < pictures.size() && status; first += step) {
    if (options.stop.stop_requested()) {
      status = fail(ErrorCode::kCancelled, "stopped after {} of {} images{}", first, pictures.size(),
                    gatherer.going_on());
      break;
    }
    const size_t count = std::min(step, pictures.size() - first);
    status = batch.run(pictures.subspan(first, count), static_cast<int64_t>(first), gatherer, result);
    tell(options, "encoding images", first + count, pictures.size());
  }
  gatherer.flush();  // keeps the finished embeddings after an error
  SACCADE_TRY(std::move(status));
  result.rows = gatherer.finish(function.late);
  return result;
}

Result<EmbeddedRows> embed_texts(EncoderBackend& encoder, std::span<const TokenizedText> texts,
                                 const EmbedOptions& options) {
  return embed_texts(encoder, own_texts(encoder), texts, options);
}

Result<EmbeddedRows> embed_texts(EncoderBackend& encoder, const TextFunction& function,
                                 std::span<const TokenizedText> texts, const EmbedOptions& options) {
  Gatherer gatherer(options, space_of(encoder.info(), function, "texts"), function.dim);
  std::vector<std::string> keys(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) keys[i] = sha256_hex(std::as_bytes(std::span(texts[i].ids)));
  const auto all = [&]() -> Status {
    for (size_t i = 0; i < texts.size();) {
      if (options.stop.stop_requested()) {
        return fail(ErrorCode::kCancelled, "stopped after {} of {} texts{}", i, texts.size(),
                    gatherer.going_on());
      }
      if (gatherer.take_known(keys[i])) {
        ++i;
      } else {
        std::unordered_set<std::string_view> run = {keys[i]};
        size_t end = i + 1;
        while (end < texts.size() && end - i < kTextBatch && !gatherer.knows(keys[end]) &&
               run.insert(keys[end]).second) {
          ++end;
        }
        SACCADE_ASSIGN(const RowSets sets, function.encode(texts.subspan(i, end - i)));
        for (size_t t = i; t < end; ++t) {
          const int64_t begin = sets.begin[t - i];
          const auto rows = sets.rows.view().slice(begin, sets.begin[t - i + 1] - begin);
          SACCADE_TRY(gatherer.take_new(keys[t], rows).in(fmt::format("text {}", t)));
        }
        i = end;
      }
      tell(options, "encoding texts", i, texts.size());
    }
    return {};
  };
  Status status = all();
  gatherer.flush();
  SACCADE_TRY(std::move(status));
  return gatherer.finish(function.late);
}

EmbeddedRows select_rows(const EmbeddedRows& rows, std::span<const int64_t> which) {
  EmbeddedRows result;
  result.late = rows.late;
  const auto range = [&](int64_t item) {
    const auto i = static_cast<size_t>(item);
    return std::pair(rows.sets.begin[i], rows.sets.begin[i + 1]);
  };
  for (const int64_t item : which) {
    const auto [begin, end] = range(item);
    result.sets.begin.push_back(result.sets.begin.back() + end - begin);
  }
  result.sets.rows = Matrix<float>(result.sets.begin.back(), rows.sets.rows.columns());
  int64_t next = 0;
  for (const int64_t item : which) {
    const auto [begin, end] = range(item);
    for (int64_t r = begin; r < end; ++r) {
      std::ranges::copy(rows.sets.rows.row(r), result.sets.rows.row(next++).begin());
    }
  }
  return result;
}

Matrix<float> mean_rows(const EmbeddedRows& rows) {
  const int64_t dim = rows.sets.rows.columns();
  Matrix<float> result(rows.size(), dim);
  for (int64_t i = 0; i < rows.size(); ++i) {
    const int64_t begin = rows.sets.begin[static_cast<size_t>(i)];
    const int64_t count = rows.sets.begin[static_cast<size_t>(i) + 1] - begin;
    const auto mean = unit_row(sum_rows(rows.sets.rows.view().slice(begin, count)));
    if (mean) std::ranges::copy(*mean, result.row(i).begin());
  }
  return result;
}

EmbeddedRows pooled_items(const EmbeddedRows& rows) {
  EmbeddedRows result;
  result.cache = rows.cache;
  result.sets.rows = mean_rows(rows);
  for (int64_t i = 0; i < rows.size(); ++i) result.sets.begin.push_back(i + 1);
  return result;
}

Result<std::unique_ptr<PairScores>> scores_of(const EmbeddedRows& texts, const EmbeddedRows& pictures,
                                              LateScoring scoring) {
  if (texts.late || pictures.late) return max_sim_scores(texts.sets, pictures.sets, scoring);
  return dot_scores(texts.sets.rows.view(), pictures.sets.rows.view());
}

std::string hash_of_hashes(std::span<const std::string> hashes) {
  Sha256 all;
  for (const std::string& hash : hashes) all.update(hash + "\n");
  return all.hex();
}

}  // namespace saccade::lab
