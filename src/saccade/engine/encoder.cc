#include "saccade/encoder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/threads.h"
#include "saccade/engine/encoder_state.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/explain/relevance_map.h"
#include "saccade/model/options/effective_length.h"
#include "saccade/model/options/precision_choice.h"
#include "saccade/nn/workers.h"

namespace saccade {
namespace {

// Inputs whose pixels are ready for one pass of the model.
struct PixelRows {
  Matrix<float> pixels;  // its first `count` rows
  int64_t count = 0;
  std::vector<SkippedInput> skipped = {};  // indices within the batch

  [[nodiscard]] MatrixView<const float> rows() const { return pixels.view().slice(0, count); }
};

Result<std::string> bytes_of(const ImageInput& input, int64_t max_bytes) {
  if (const auto* file = std::get_if<std::filesystem::path>(&input.content()))
    return read_file(*file, max_bytes);
  return std::get<ImageInput::Bytes>(input.content()).bytes;
}

// Reads and preprocesses a batch. Inputs that cannot be read are listed. Incomplete if decode.stop requests a stop.
PixelRows read_batch(std::span<const ImageInput> inputs, const Preprocessing& preprocessing,
                     DecodeOptions decode, ThreadPool& pool) {
  const PixelOptions options = pixel_options(preprocessing, decode);
  const auto count = std::ssize(inputs);
  const int64_t width = int64_t{3} * preprocessing.output_height() * preprocessing.output_width();
  // Decoded inputs are preprocessed here, encoded ones by read_pixels; each row then goes to its place.
  std::vector<int64_t> encoded;
  std::vector<std::optional<Error>> errors(inputs.size());
  PixelRows batch{.pixels = Matrix<float>(count, width)};
  for (int64_t i = 0; i < count; ++i) {
    const auto* image = std::get_if<Image>(&inputs[static_cast<size_t>(i)].content());
    if (image == nullptr) {
      encoded.push_back(i);
      continue;
    }
    if (decode.stop.stop_requested()) return batch;
    const Status done = preprocess(*image, preprocessing, batch.pixels.row(i));
    if (!done) errors[static_cast<size_t>(i)] = done.error();
  }
  const PixelBatch read = read_pixels(
      std::ssize(encoded),
      [&](int64_t number) {
        return bytes_of(inputs[static_cast<size_t>(encoded[static_cast<size_t>(number)])], decode.max_bytes);
      },
      options, pool);
  for (const auto& [number, error] : read.failed) {
    errors[static_cast<size_t>(encoded[static_cast<size_t>(number)])] = error;
  }
  for (size_t i = 0; i < read.which.size(); ++i) {
    const auto from = read.rows().row(static_cast<int64_t>(i));
    std::ranges::copy(from, batch.pixels.row(encoded[static_cast<size_t>(read.which[i])]).begin());
  }
  for (int64_t i = 0; i < count; ++i) {
    if (auto& error = errors[static_cast<size_t>(i)]) {
      batch.skipped.push_back({i, *std::move(error)});
      continue;
    }
    if (batch.count < i) std::ranges::copy(batch.pixels.row(i), batch.pixels.row(batch.count).begin());
    ++batch.count;
  }
  return batch;
}

std::string describe(const ImageInput& input) {
  if (const auto* file = std::get_if<std::filesystem::path>(&input.content())) return file->string();
  return std::holds_alternative<Image>(input.content()) ? "pixels" : "bytes";
}

// Rows that arrive batch by batch, [rows so far, dim].
class GrowingRows {
 public:
  void append(const Matrix<float>& rows) {
    dim_ = rows.columns();
    values_.insert(values_.end(), rows.values().begin(), rows.values().end());
  }
  [[nodiscard]] Matrix<float> take(int64_t dim) {
    if (dim_ == 0) dim_ = dim;
    Matrix<float> rows(std::ssize(values_) / std::max<int64_t>(dim_, 1), dim_);
    std::ranges::copy(values_, rows.values().begin());
    return rows;
  }

 private:
  int64_t dim_ = 0;
  std::vector<float> values_;
};

Status check_stop(const EncodeOptions& options, int64_t done) {
  if (!options.stop.stop_requested()) return {};
  return fail(ErrorCode::kCancelled, "asked to stop after {} inputs", done);
}

void report(const EncodeOptions& options, std::string_view what, int64_t done, int64_t total) {
  if (options.on_progress) options.on_progress({.what = what, .done = done, .total = total, .detail = {}});
}

// Calls `encode` with the preprocessed batches of all inputs.
Status for_each_batch(const Encoder::ImageSource& next, int64_t total, const EncoderBackend& backend,
                      ThreadPool& pool, DecoderPool* decoders, const EncodeOptions& options,
                      std::vector<SkippedInput>& skipped,
                      const std::function<Status(MatrixView<const float> pixels)>& encode) {
  SACCADE_TRY(check_batch_size(options.batch_size));
  if (backend.info().image_height == 0) {
    return fail(ErrorCode::kUnsupported, "the model reads texts alone (family {})", backend.info().family);
  }
  const nn::StopScope scope(options.stop);
  DecodeOptions decode;
  decode.processes = decoders;
  decode.stop = options.stop;
  int64_t done = 0;
  for (bool ended = false; !ended;) {
    SACCADE_TRY(check_stop(options, done));
    std::vector<ImageInput> inputs;
    while (std::ssize(inputs) < options.batch_size) {
      SACCADE_ASSIGN(std::optional<ImageInput> input, next());
      if (!input) {
        ended = true;
        break;
      }
      inputs.push_back(*std::move(input));
    }
    if (inputs.empty()) break;
    PixelRows batch = read_batch(inputs, backend.preprocessing(), decode, pool);
    SACCADE_TRY(check_stop(options, done));
    for (SkippedInput& one : batch.skipped) {
      Error error = one.error.in(
          fmt::format("image {} ({})", done + one.index, describe(inputs[static_cast<size_t>(one.index)])));
      if (options.errors == OnError::kFail) return fail(std::move(error));
      skipped.push_back({done + one.index, std::move(error)});
    }
    if (batch.count > 0) SACCADE_TRY(encode(batch.rows()));
    done += std::ssize(inputs);
    report(options, "encoding images", done, total);
  }
  return {};
}

Encoder::ImageSource source_of(std::span<const ImageInput> images) {
  return [images, at = size_t{0}]() mutable -> Result<std::optional<ImageInput>> {
    if (at == images.size()) return std::optional<ImageInput>();
    return std::optional<ImageInput>(images[at++]);
  };
}

Result<const Tokenizer*> tokenizer_of(const EncoderBackend& backend, std::string_view name) {
  if (const Tokenizer* tokenizer = backend.tokenizer()) return tokenizer;
  return fail(ErrorCode::kUnsupported, "{}: the checkpoint has no tokenizer, so that it reads no texts",
              name);
}

// Calls `encode` with the tokenized batches of all texts.
Status for_each_text_batch(std::span<const std::string> texts, const EncoderBackend& backend,
                           std::string_view name, const EncodeOptions& options,
                           const std::function<Status(std::span<const TokenizedText>)>& encode) {
  SACCADE_TRY(check_batch_size(options.batch_size));
  SACCADE_ASSIGN(const Tokenizer* tokenizer, tokenizer_of(backend, name));
  const nn::StopScope scope(options.stop);
  const auto batch_size = static_cast<size_t>(options.batch_size);
  for (size_t begin = 0; begin < texts.size(); begin += batch_size) {
    SACCADE_TRY(check_stop(options, static_cast<int64_t>(begin)));
    const size_t end = std::min(begin + batch_size, texts.size());
    std::vector<TokenizedText> tokenized;
    for (size_t i = begin; i < end; ++i)
      tokenized.push_back(tokenizer->encode(texts[i], backend.info().context));
    SACCADE_TRY(encode(tokenized));
    report(options, "encoding texts", static_cast<int64_t>(end), std::ssize(texts));
  }
  return {};
}

void append(MultiEmbeddings& all, GrowingRows& rows, const RowSets& sets) {
  const int64_t before = all.begin.back();
  for (size_t i = 1; i < sets.begin.size(); ++i) all.begin.push_back(before + sets.begin[i]);
  rows.append(sets.rows);
}

Result<LateInteraction*> late_of(EncoderBackend& backend, std::string_view name) {
  if (LateInteraction* late = backend.late_interaction()) return late;
  return fail(ErrorCode::kUnsupported, "{} gives one embedding an item: it has no late interaction", name);
}

}  // namespace

Result<Encoder> Encoder::load(std::string_view checkpoint, const EncoderOptions& options) {
  SACCADE_TRY(check_threads(options.threads));
  BackendOptions backend;
  backend.precision = options.precision;
  backend.threads = options.threads;
  backend.device = options.device;
  backend.fingerprints = user_fingerprint_memory();
  auto state = std::make_shared<State>(options.threads);
  SACCADE_ASSIGN(const std::filesystem::path folder,
                 checkpoint == "starter" ? starter_checkpoint() : find_checkpoint(std::string(checkpoint)));
  if (options.precision == Precision::kAuto) {
    SACCADE_ASSIGN(const PrecisionChoice chosen, choose_precision(folder, backend, user_precision_memory()));
    backend.precision = chosen.taken;
    state->notes.push_back(precision_choice_text(chosen));
  }
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(folder.string(), backend));
  if (auto note = separate_spaces_warning(loaded)) state->notes.push_back(*std::move(note));
  if (auto note = guessed_preprocessing_warning(loaded)) state->notes.push_back(*std::move(note));
  SACCADE_ASSIGN(state->visualness, read_kept_visualness(loaded.id.path, loaded.id.fingerprint));
  state->name = loaded.id.name;
  state->folder = loaded.id.path;
  state->backend = std::move(loaded.encoder);
  return Encoder(std::move(state));
}

const EncoderInfo& Encoder::info() const {
  return state_->backend->info();
}

const std::string& Encoder::name() const {
  return state_->name;
}

const std::filesystem::path& Encoder::folder() const {
  return state_->folder;
}

const Preprocessing& Encoder::preprocessing() const {
  return state_->backend->preprocessing();
}

const Tokenizer* Encoder::tokenizer() const {
  return state_->backend->tokenizer();
}

const std::vector<std::string>& Encoder::notes() const {
  return state_->notes;
}

Result<Embeddings> Encoder::encode_images(const ImageSource& next, const EncodeOptions& options) const {
  GrowingRows rows;
  std::vector<SkippedInput> skipped;
  SACCADE_TRY(for_each_batch(next, 0, *state_->backend, state_->pool, state_->decoders.get(), options,
                             skipped, [&](MatrixView<const float> pixels) -> Status {
                               SACCADE_ASSIGN(const Matrix<float> encoded,
                                              state_->backend->encode_images(pixels));
                               rows.append(encoded);
                               return {};
                             }));
  return Embeddings(rows.take(info().dim), std::move(skipped));
}

Result<Embeddings> Encoder::encode_images(std::span<const ImageInput> images,
                                          const EncodeOptions& options) const {
  EncodeOptions counted = options;
  if (options.on_progress) {
    counted.on_progress = [&](const ProgressUpdate& update) {
      ProgressUpdate whole = update;
      whole.total = std::ssize(images);
      options.on_progress(whole);
    };
  }
  return encode_images(source_of(images), counted);
}

Result<Embeddings> Encoder::encode_images(std::initializer_list<ImageInput> images,
                                          const EncodeOptions& options) const {
  return encode_images(std::span<const ImageInput>(images.begin(), images.size()), options);
}

Result<Embeddings> Encoder::encode_texts(std::span<const std::string> texts,
                                         const EncodeOptions& options) const {
  GrowingRows rows;
  SACCADE_TRY(for_each_text_batch(
      texts, *state_->backend, name(), options, [&](std::span<const TokenizedText> tokenized) -> Status {
        SACCADE_ASSIGN(const Matrix<float> encoded, state_->backend->encode_texts(tokenized));
        rows.append(encoded);
        return {};
      }));
  return Embeddings(rows.take(info().dim));
}

Result<Embeddings> Encoder::encode_texts(std::initializer_list<std::string> texts,
                                         const EncodeOptions& options) const {
  return encode_texts(std::span<const std::string>(texts.begin(), texts.size()), options);
}

Result<Embeddings> Encoder::encode_pixels(MatrixView<const float> pixels,
                                          const EncodeOptions& options) const {
  SACCADE_TRY(check_batch_size(options.batch_size));
  const int64_t width = int64_t{3} * info().image_height * info().image_width;
  if (pixels.columns() != width) {
    return fail(ErrorCode::kUsage, "pixels of {} columns, the model reads 3 x {} x {} = {}", pixels.columns(),
                info().image_height, info().image_width, width);
  }
  const nn::StopScope scope(options.stop);
  GrowingRows rows;
  for (int64_t begin = 0; begin < pixels.rows(); begin += options.batch_size) {
    SACCADE_TRY(check_stop(options, begin));
    const int64_t count = std::min<int64_t>(options.batch_size, pixels.rows() - begin);
    SACCADE_ASSIGN(const Matrix<float> encoded, state_->backend->encode_images(pixels.slice(begin, count)));
    rows.append(encoded);
    report(options, "encoding images", begin + count, pixels.rows());
  }
  return Embeddings(rows.take(info().dim));
}

Result<Embeddings> Encoder::encode_tokens(std::span<const TokenizedText> texts,
                                          const EncodeOptions& options) const {
  SACCADE_TRY(check_batch_size(options.batch_size));
  const nn::StopScope scope(options.stop);
  GrowingRows rows;
  const auto batch_size = static_cast<size_t>(options.batch_size);
  for (size_t begin = 0; begin < texts.size(); begin += batch_size) {
    SACCADE_TRY(check_stop(options, static_cast<int64_t>(begin)));
    const auto batch = texts.subspan(begin, std::min(batch_size, texts.size() - begin));
    SACCADE_ASSIGN(const Matrix<float> encoded, state_->backend->encode_texts(batch));
    rows.append(encoded);
    report(options, "encoding texts", static_cast<int64_t>(begin + batch.size()), std::ssize(texts));
  }
  return Embeddings(rows.take(info().dim));
}

Result<std::vector<TokenUse>> Encoder::tokens(std::span<const std::string> texts) const {
  SACCADE_ASSIGN(const Tokenizer* tokenizer, tokenizer_of(*state_->backend, name()));
  std::vector<TokenUse> uses;
  for (const std::string& text : texts) {
    const TokenizedText tokenized = tokenizer->encode(text, info().context);
    uses.push_back({tokenized.used, tokenized.dropped});
  }
  return uses;
}

Result<std::vector<EffectiveLength>> Encoder::effective_lengths() const {
  SACCADE_ASSIGN(const auto measured, read_measured_lengths(folder(), info().fingerprint));
  std::vector<EffectiveLength> lengths;
  for (const MeasuredLength& one : measured) {
    lengths.push_back({.dataset = one.dataset,
                       .domain = one.domain,
                       .precision = one.precision,
                       .tokens = one.tokens,
                       .low = one.low,
                       .high = one.high,
                       .confidence = one.confidence,
                       .share = one.share,
                       .r1 = one.r1,
                       .longest = one.longest,
                       .longer_texts = one.longer_texts,
                       .at_end = one.at_end,
                       .images = one.images,
                       .texts = one.texts});
  }
  return lengths;
}

bool Encoder::has_late_interaction() const {
  return state_->backend->late_interaction() != nullptr;
}

Result<MultiEmbeddings> Encoder::encode_images_multi(std::span<const ImageInput> images,
                                                     const EncodeOptions& options) const {
  SACCADE_ASSIGN(LateInteraction * late, late_of(*state_->backend, name()));
  if (options.errors == OnError::kSkip) {
    return fail(ErrorCode::kUsage, "inputs of late interaction cannot be skipped: use OnError::kFail");
  }
  MultiEmbeddings all;
  GrowingRows rows;
  std::vector<SkippedInput> none;
  SACCADE_TRY(for_each_batch(source_of(images), std::ssize(images), *state_->backend, state_->pool,
                             state_->decoders.get(), options, none,
                             [&](MatrixView<const float> pixels) -> Status {
                               SACCADE_ASSIGN(const RowSets sets, late->encode_image_rows(pixels));
                               append(all, rows, sets);
                               return {};
                             }));
  all.rows = rows.take(info().dim);
  return all;
}

Result<MultiEmbeddings> Encoder::encode_texts_multi(std::span<const std::string> texts,
                                                    const EncodeOptions& options) const {
  SACCADE_ASSIGN(LateInteraction * late, late_of(*state_->backend, name()));
  MultiEmbeddings all;
  GrowingRows rows;
  SACCADE_TRY(for_each_text_batch(texts, *state_->backend, name(), options,
                                  [&](std::span<const TokenizedText> tokenized) -> Status {
                                    SACCADE_ASSIGN(const RowSets sets, late->encode_text_rows(tokenized));
                                    append(all, rows, sets);
                                    return {};
                                  }));
  all.rows = rows.take(info().dim);
  return all;
}

bool Encoder::has_pair_scorer() const {
  return state_->backend->pair_scorer() != nullptr;
}

Result<std::vector<float>> Encoder::score_pairs(std::span<const ImageInput> images,
                                                std::span<const std::string> texts,
                                                const EncodeOptions& options) const {
  PairScorer* scorer = state_->backend->pair_scorer();
  if (scorer == nullptr) {
    return fail(ErrorCode::kUnsupported, "{} has no matching head: it scores no pairs", name());
  }
  if (images.size() != texts.size()) {
    return fail(ErrorCode::kUsage, "{} images and {} texts, expected pairs", images.size(), texts.size());
  }
  if (options.errors == OnError::kSkip) {
    return fail(ErrorCode::kUsage, "inputs of pairs cannot be skipped: use OnError::kFail");
  }
  SACCADE_ASSIGN(const Tokenizer* tokenizer, tokenizer_of(*state_->backend, name()));
  std::vector<float> scores;
  std::vector<SkippedInput> none;
  SACCADE_TRY(for_each_batch(
      source_of(images), std::ssize(images), *state_->backend, state_->pool, state_->decoders.get(), options,
      none, [&](MatrixView<const float> pixels) -> Status {
        std::vector<TokenizedText> tokenized;
        for (const std::string& text : texts.subspan(scores.size(), static_cast<size_t>(pixels.rows()))) {
          tokenized.push_back(tokenizer->encode(text, info().context));
        }
        SACCADE_ASSIGN(const std::vector<float> scored, scorer->score_pairs(pixels, tokenized));
        scores.insert(scores.end(), scored.begin(), scored.end());
        return {};
      }));
  return scores;
}

bool Encoder::has_relevance_maps() const {
  return state_->backend->picture_mapper() != nullptr;
}

Result<RelevanceMap> Encoder::relevance_map(const ImageInput& image, const std::string& text) const {
  PictureMapper* mapper = state_->backend->picture_mapper();
  if (mapper == nullptr) {
    return fail(ErrorCode::kUnsupported, "{}: the family {} gives no relevance maps", name(), info().family);
  }
  SACCADE_ASSIGN(const Embeddings target, encode_texts({text}));
  RelevanceMap map;
  std::vector<SkippedInput> none;
  SACCADE_TRY(
      for_each_batch(source_of({&image, 1}), 1, *state_->backend, state_->pool, state_->decoders.get(), {},
                     none, [&](MatrixView<const float> pixels) -> Status {
                       SACCADE_ASSIGN(const PictureMaps maps,
                                      mapper->map_pictures(pixels, target.row(0), MapMethod::kLegrad));
                       const auto values = maps.relevance.row(0);
                       map = {maps.rows, maps.columns, std::vector<float>(values.begin(), values.end())};
                       return {};
                     }));
  return map;
}

bool Encoder::has_visualness() const {
  return state_->visualness.has_value();
}

Result<std::vector<double>> Encoder::visualness(std::span<const std::string> texts) const {
  return visualness(texts, EncodeOptions());
}

Result<std::vector<double>> Encoder::visualness(std::span<const std::string> texts,
                                                const EncodeOptions& options) const {
  if (!state_->visualness) {
    return fail(
        ErrorCode::kUnsupported,
        "{} was not trained to tell visual texts from others (saccade-lab train visualness does that)",
        name());
  }
  SACCADE_ASSIGN(const Embeddings rows, encode_texts(texts, options));
  return visualness_scores(state_->visualness->null_row, rows.view());
}

}  // namespace saccade
