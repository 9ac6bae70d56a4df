#include "lab/train/tasks/composed_training_task.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lab/train/composer_file.h"
#include "lab/train/math/device.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/objective.h"
#include "lab/train/tasks/triplet_draw.h"
#include "lab/train/tasks/visualness_task.h"
#include "saccade/core/files/files.h"
#include "saccade/model/composers/token_states.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr double kInitialComposerScale = 2.6592600369327780;  // log(1 / 0.07)
constexpr int64_t kAtOnce = 256;  // queries or images encoded at a time without gradients
// Bytes of states to read before their pages are released.
constexpr int64_t kMappedBytes = int64_t{256} << 20;

}  // namespace

ComposedStageTask::ComposedStageTask(const ComposedTrainingOptions& options, const ComposedStage& stage,
                                     ThreadPool& pool)
    : options_(options),
      stage_(stage),
      pool_(pool),
      dtype_(options.precision == Precision::kBf16 ? DType::kBF16 : DType::kF32),
      images_(stage.towers == TrainedTowers::kBoth ? stage.pixels->file : stage.picture_tokens->file),
      order_(*stage.data, options.together, options.seed),
      class_of_(content_classes(images_)) {}

Result<Tensor> ComposedStageTask::add_log_scale(InitializedParameters& source) {
  SACCADE_ASSIGN(const Variable scale, source.take("logit_scale", {}, {kInitialComposerScale, 0}));
  return scale.tensor();
}

void ComposedStageTask::release_states(int64_t images) {
  unreleased_ += images * std::ssize(images_.bytes(0));
  if (unreleased_ < kMappedBytes) return;
  images_.release();
  if (stage_.text_tokens != nullptr) stage_.text_tokens->file.release();
  unreleased_ = 0;
}

Result<EncoderId> ComposedStageTask::own_encoder(const fs::path& folder) const {
  EncoderId own{
      .name = "encoder", .family = stage_.composer.encoder.family, .fingerprint = {}, .path = "encoder"};
  SACCADE_ASSIGN(own.fingerprint, checkpoint_fingerprint(folder / "encoder"));
  return own;
}

double ComposedStageTask::rate_of(const std::string& parameter) const {
  return stage_.align || parameter.starts_with(kPrefix) ? 1 : options_.tower_rate / options_.learning_rate;
}

void ComposedStageTask::after_update() {
  log_scale_.clamp_(0, kMaxLogScale);
}

Result<Json> ComposedStageTask::evaluate() {
  Json sets = Json::array();
  for (const HeldOutQueries& set : stage_.data->held_out) {
    SACCADE_ASSIGN(sets.emplace_back(), measure(set));
  }
  return Json{{"logit_scale", std::exp(log_scale_.item<double>())}, {"held_out", std::move(sets)}};
}

ComposedTrainingTask::ComposedTrainingTask(const ComposedTrainingOptions& options, const ComposedStage& stage,
                                           ThreadPool& pool)
    : ComposedStageTask(options, stage, pool), device_(torch_device(options.device)) {}

Result<std::unique_ptr<ComposedTrainingTask>> ComposedTrainingTask::make(
    const ComposedTrainingOptions& options, const ComposedStage& stage, ThreadPool& pool) {
  auto task = std::unique_ptr<ComposedTrainingTask>(new ComposedTrainingTask(options, stage, pool));
  if (stage.towers != TrainedTowers::kNone) SACCADE_TRY(task->make_towers());
  SACCADE_TRY(task->make_composer());
  // Embeddings alone count as one token.
  const bool tokens = task->trains_texts() ||
                      (stage.text_tokens != nullptr &&
                       std::ranges::any_of(stage.text_tokens->tokens, [](int64_t n) { return n > 1; }));
  TokenStates* states = stage.loaded->encoder->token_states();
  for (const TokenizedText& text : stage.texts) task->ends_.push_back(tokens ? states->end_token(text) : 0);
  return task;
}

Status ComposedTrainingTask::make_towers() {
  const fs::path folder = stage_.loaded->id.path;
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  const EncoderInfo& info = stage_.loaded->encoder->info();
  if (info.family != "clip" || checkpoint.layout != Layout::kHuggingFace) {
    return fail(ErrorCode::kUnsupported,
                "{}: family {}, layout {}; the towers that are trained are CLIP's, Hugging Face's",
                folder.string(), info.family, layout_name(checkpoint.layout));
  }
  SACCADE_ASSIGN(const ClipConfig config,
                 clip_config_from_hugging_face(checkpoint.config).in(folder.string()));
  InitializedParameters source(options_.seed, device_);
  SACCADE_ASSIGN(model_, TrainedClip::make(config, source));
  if (options_.checkpoint_activations) model_->checkpoint_activations();
  SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
  for (const auto& [name, parameter] : source.parameters()) {
    SACCADE_TRY(take_weight(folder, weights.tensors, name, parameter));
  }
  SACCADE_ASSIGN(files_, read_files_beside_weights(checkpoint));
  tower_parameters_ = source.parameters();
  for (const auto& [name, tensor] : tower_parameters_) {
    if (trains_pictures() || is_of_text_tower(name)) {
      trained_.emplace(name, tensor);
    } else {
      Tensor(tensor).set_requires_grad(false);
    }
  }
  return {};
}

Status ComposedTrainingTask::make_composer() {
  InitializedParameters source(options_.seed, device_);
  ComposerConfig config = stage_.composer;
  if (stage_.align) config.kind = "sum";  // method that evaluates stage one
  SACCADE_ASSIGN(composer_, make_trained_composer(config, source));
  if (stage_.align) {
    log_scale_ = model_->logit_scale().tensor();
    return {};
  }
  SACCADE_ASSIGN(log_scale_, add_log_scale(source));
  composer_parameters_ = source.parameters();
  for (const auto& [name, tensor] : composer_parameters_) trained_.emplace(kPrefix + name, tensor);
  return {};
}

Result<StepLosses> ComposedTrainingTask::prepare(int64_t step) {
  return StepLosses{[this, prepared = batch(step)] { return loss(prepared); }};
}

ComposedBatch ComposedTrainingTask::batch(int64_t step) {
  const ComposedData& data = *stage_.data;
  const int64_t n = options_.batch;
  const DrawnTriplets drawn = draw_triplets(options_, data, order_, step, stage_.align);
  ComposedBatch batch;
  batch.step = step;
  batch.references = numbers_of(drawn.references);
  batch.targets = numbers_of(drawn.targets);
  batch.wordings = numbers_of(drawn.wordings);
  fill_pictures(drawn.pictures, drawn.reference_pictures, batch);
  fill_texts(drawn.texts, batch);
  if (stage_.align) {
    // Text j is a positive of image i if it is one of the triplet's wordings, or their targets are equal.
    batch.positives = torch::empty({n, n}, at::kBool);
    for (int64_t i = 0; i < n; ++i) {
      const auto own = data.wordings_of(drawn.triplets[static_cast<size_t>(i)]);
      const int64_t target = class_of_[static_cast<size_t>(
          drawn.pictures[static_cast<size_t>(drawn.targets[static_cast<size_t>(i)])])];
      for (int64_t j = 0; j < n; ++j) {
        const auto other = static_cast<size_t>(j);
        const auto text = static_cast<int32_t>(drawn.texts[static_cast<size_t>(drawn.wordings[other])]);
        const int64_t its =
            class_of_[static_cast<size_t>(drawn.pictures[static_cast<size_t>(drawn.targets[other])])];
        batch.positives.data_ptr<bool>()[i * n + j] =
            its == target || std::ranges::find(own, text) != own.end();
      }
    }
  } else {
    batch.positives = right_candidates(options_, data, class_of_, drawn);
  }
  release_states(std::ssize(drawn.pictures));
  return batch;
}

void ComposedTrainingTask::fill_pictures(std::span<const int64_t> pictures, int64_t references,
                                         ComposedBatch& batch) const {
  const auto count = std::ssize(pictures);
  if (trains_pictures()) {
    const EncoderInfo& info = stage_.loaded->encoder->info();
    batch.pixels = torch::empty({count, 3, info.image_height, info.image_width});
    const auto values = static_cast<size_t>(batch.pixels.numel() / std::max<int64_t>(1, count));
    pool_.parallel_for(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        stage_.pixels->read(pictures[static_cast<size_t>(i)],
                            {batch.pixels.data_ptr<float>() + static_cast<size_t>(i) * values, values});
      }
    });
    return;
  }
  const StoredTokens& stored = *stage_.picture_tokens;
  Tensor rows = torch::empty({count, stored.dim}, at::kHalf);
  Tensor tokens = torch::empty({references, stored.tokens.front(), stored.dim}, at::kHalf);
  auto* row = static_cast<std::byte*>(rows.data_ptr());
  auto* out = static_cast<std::byte*>(tokens.data_ptr());
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const std::byte> bytes = stored.file.bytes(pictures[static_cast<size_t>(i)]);
    row = std::copy_n(bytes.begin(), 2 * stored.dim, row);
    if (i < references) out = std::ranges::copy(bytes, out).out;
  }
  batch.picture_rows = rows.to(at::kFloat);
  batch.picture_tokens = tokens.to(at::kFloat);
}

void ComposedTrainingTask::fill_texts(std::span<const int64_t> texts, ComposedBatch& batch) const {
  const auto count = std::ssize(texts);
  std::vector<int64_t> ends;
  int64_t longest = 1;
  for (const int64_t text : texts) {
    const auto at = static_cast<size_t>(text);
    batch.lengths.push_back(trains_texts() ? std::ssize(stage_.texts[at].ids)
                                           : stage_.text_tokens->tokens[at]);
    longest = std::max(longest, batch.lengths.back());
    ends.push_back(ends_[at]);
  }
  batch.ends = numbers_of(ends);
  if (trains_texts()) {
    batch.ids = torch::zeros({count, longest}, at::kLong);
    for (int64_t i = 0; i < count; ++i) {
      std::ranges::copy(stage_.texts[static_cast<size_t>(texts[static_cast<size_t>(i)])].ids,
                        batch.ids.data_ptr<int64_t>() + i * longest);
    }
    return;
  }
  const StoredTokens& stored = *stage_.text_tokens;
  Tensor halves = torch::zeros({count, longest, stored.dim}, at::kHalf);
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const std::byte> bytes = stored.file.bytes(texts[static_cast<size_t>(i)]);
    std::memcpy(static_cast<std::byte*>(halves.data_ptr()) + i * longest * stored.dim * 2, bytes.data(),
                bytes.size());
  }
  batch.text_tokens = halves.to(at::kFloat);
}

Tensor ComposedTrainingTask::image_tokens(const Tensor& pixels) const {
  return encode_in_micro_batches(pixels.size(0), options_.accumulate, [this, pixels](MicroBatch rows) {
    const Variable own(pixels.slice(0, rows.first, rows.last).to(device_));
    return model_->image_tokens(own, dtype_).tensor();
  });
}

Tensor ComposedTrainingTask::text_tokens(const Tensor& ids) const {
  return encode_in_micro_batches(ids.size(0), options_.accumulate, [this, ids](MicroBatch rows) {
    return model_->text_tokens(borrow_torch(ids.slice(0, rows.first, rows.last)), dtype_).tensor();
  });
}

ComposedTrainingTask::Encoded ComposedTrainingTask::encode(const ComposedBatch& batch) const {
  Encoded encoded;
  const bool frozen = !batch.pixels.defined();
  encoded.picture_tokens = frozen ? batch.picture_tokens.to(device_) : image_tokens(batch.pixels);
  encoded.text_tokens = batch.ids.defined() ? text_tokens(batch.ids) : batch.text_tokens.to(device_);
  encoded.pictures =
      normalize_rows(frozen ? batch.picture_rows.to(device_) : encoded.picture_tokens.select(1, 0));
  encoded.texts = normalize_rows(take_rows(Variable(encoded.text_tokens), borrow_torch(batch.ends)).tensor());
  return encoded;
}

Tensor ComposedTrainingTask::compose(const ComposedBatch& batch, const Encoded& encoded,
                                     MatchedTokens* matched) const {
  const Tensor references = batch.references.to(device_);
  const Tensor wordings = batch.wordings.to(device_);
  ComposerPartsOf<Variable> parts;
  parts.pictures = Variable(encoded.pictures.index_select(0, references));
  parts.texts = Variable(encoded.texts.index_select(0, wordings));
  parts.picture_tokens = Variable(encoded.picture_tokens.index_select(0, references));
  parts.text_tokens = Variable(encoded.text_tokens.index_select(0, wordings));
  for (int64_t i = 0; i < batch.wordings.size(0); ++i) {
    parts.text_lengths.push_back(batch.lengths[static_cast<size_t>(batch.wordings.data_ptr<int64_t>()[i])]);
  }
  const StepDraw draw{.seed = options_.seed, .step = batch.step, .dropout = dropout_of(options_)};
  return normalize_rows(composer_->compose(parts, matched, batch.step < 0 ? nullptr : &draw));
}

Tensor ComposedTrainingTask::loss(const ComposedBatch& batch) const {
  const Encoded encoded = encode(batch);
  const Tensor positives = batch.positives.to(device_);
  const Tensor targets = encoded.pictures.index_select(0, batch.targets.to(device_));
  if (stage_.align) {
    return info_nce(targets, encoded.texts.index_select(0, batch.wordings.to(device_)), log_scale_,
                    positives);
  }
  Tensor candidates = targets;
  if (options_.wrong == WrongAnswers::kReferences) {
    candidates = torch::cat({targets, encoded.pictures.index_select(0, batch.references.to(device_))});
  }
  return retrieval_loss(compose(batch, encoded, nullptr), candidates, log_scale_, positives);
}

Status ComposedTrainingTask::read_model(const fs::path& folder) {
  if (!stage_.align) SACCADE_TRY(take_up_weights(folder, composer_parameters_));
  if (!model_) return {};
  return take_up_weights(stage_.align ? folder : folder / "encoder", tower_parameters_);
}

Result<Json> ComposedTrainingTask::measure(const HeldOutQueries& set) const {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> gallery;
  for (size_t first = 0; first < set.pictures.size(); first += kAtOnce) {
    const auto part =
        std::span(set.pictures).subspan(first, std::min<size_t>(kAtOnce, set.pictures.size() - first));
    ComposedBatch batch;
    fill_pictures(part, 0, batch);
    gallery.push_back(
        normalize_rows(batch.pixels.defined() ? image_tokens(batch.pixels).select(1, 0) : batch.picture_rows)
            .to(at::kCPU));
  }
  std::vector<Tensor> queries;
  MatchedTokens matched;
  for (size_t first = 0; first < set.task.asked.size(); first += kAtOnce) {
    const DrawnTriplets asked = asked_queries(set, first, kAtOnce);
    ComposedBatch batch;
    batch.references = numbers_of(asked.references);
    batch.wordings = numbers_of(asked.wordings);
    fill_pictures(asked.pictures, asked.reference_pictures, batch);
    fill_texts(asked.texts, batch);
    queries.push_back(compose(batch, encode(batch), &matched).to(at::kCPU));
  }
  const Tensor pictures = torch::cat(gallery).contiguous();
  const Tensor asked = torch::cat(queries).contiguous();
  SACCADE_ASSIGN(Json line, composed_held_out_json(set.name, set.task, view(asked), view(pictures),
                                                   options_.bootstrap, pool_));
  if (matched.tokens > 0) {
    line["matched_tokens"] = static_cast<double>(matched.matched) / static_cast<double>(matched.tokens);
  }
  return line;
}

Status ComposedTrainingTask::write_encoder(const fs::path& folder) const {
  std::error_code error;
  SACCADE_TRY(make_folders(folder));
  if (!model_) {
    // The stage before trained the encoder, so its weights are kept as it left them.
    SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(stage_.loaded->id.path));
    for (const fs::path& file : checkpoint.files) {
      fs::copy_file(file, folder / file.filename(), fs::copy_options::overwrite_existing, error);
      if (error) return fail(ErrorCode::kIo, "{}: {}", (folder / file.filename()).string(), error.message());
    }
    return {};
  }
  for (const auto& [name, content] : files_) SACCADE_TRY(write_file_atomic(folder / name, content));
  return write_torch_map(folder / "model.safetensors", tower_parameters_);
}

Status ComposedTrainingTask::write_model(const fs::path& folder) const {
  if (stage_.align) return write_encoder(folder);
  ComposerConfig config = stage_.composer;
  if (stage_.own != OwnEncoder::kNone) {
    SACCADE_TRY(write_encoder(folder / "encoder"));
    SACCADE_ASSIGN(const EncoderId own, own_encoder(folder));
    if (stage_.own == OwnEncoder::kWhole)
      config.encoder = own;
    else
      config.texts = own;
  }
  return write_composer(folder, config, composer_parameters_);
}

}  // namespace saccade::lab
