#include "lab/train/tasks/sprc_training_task.h"

#include <algorithm>

#include "lab/train/composer_file.h"
#include "lab/train/tasks/visualness_task.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr size_t kAtOnce = 32;  // queries or images encoded at a time without gradients

}  // namespace

Result<std::unique_ptr<SprcTrainingTask>> SprcTrainingTask::make(const ComposedTrainingOptions& options,
                                                                 const ComposedStage& stage,
                                                                 ThreadPool& pool) {
  auto task = std::unique_ptr<SprcTrainingTask>(new SprcTrainingTask(options, stage, pool));
  SACCADE_TRY(task->begin());
  return task;
}

Status SprcTrainingTask::begin() {
  const fs::path folder = stage_.loaded->id.path;
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  if (checkpoint.layout != Layout::kHuggingFace) {
    return fail(ErrorCode::kUnsupported, "{}: layout {}; the Q-Former that is trained is of Hugging Face's",
                folder.string(), layout_name(checkpoint.layout));
  }
  SACCADE_ASSIGN(begin_, read_qformer(folder, QFormerPart::kWithText));
  // The auxiliary prompt takes positions of its own.
  for (const TokenizedText& text : stage_.texts) {
    const int64_t room = begin_.config.positions - begin_.queries;
    if (std::ssize(text.ids) <= room) continue;
    return fail(ErrorCode::kUsage,
                "a text of {} tokens, sprc trains on up to {}: {} positions less {} queries", text.ids.size(),
                room, begin_.config.positions, begin_.queries);
  }
  InitializedParameters encoder(options_.seed);
  InitializedParameters own(options_.seed);
  SACCADE_ASSIGN(model_, TrainedSprc::make(begin_, encoder, own));
  for (const auto& [name, parameter] : encoder.parameters()) {
    SACCADE_TRY(take_weight(folder, begin_.weights.tensors, name, parameter));
  }
  SACCADE_ASSIGN(log_scale_, add_log_scale(own));
  encoder_parameters_ = encoder.parameters();
  trained_ = encoder_parameters_;
  for (const auto& [name, tensor] : own.parameters()) trained_.emplace(kPrefix + name, tensor);
  SACCADE_ASSIGN(files_, read_files_beside_weights(checkpoint));
  return {};
}

Result<StepLosses> SprcTrainingTask::prepare(int64_t step) {
  return StepLosses{[this, prepared = batch(step)] { return loss(prepared); }};
}

Tensor SprcTrainingTask::memory_of(std::span<const int64_t> pictures) const {
  const StoredTokens& stored = *stage_.picture_tokens;
  Tensor halves = torch::empty({std::ssize(pictures), stored.tokens.front(), stored.dim}, at::kHalf);
  auto* out = static_cast<std::byte*>(halves.data_ptr());
  for (const int64_t picture : pictures) {
    const std::span<const std::byte> bytes = stored.file.bytes(picture);
    out = std::ranges::copy(bytes, out).out;
  }
  return halves.to(at::kFloat);
}

void SprcTrainingTask::fill(const DrawnTriplets& drawn, SprcBatch& batch) const {
  batch.memory = memory_of(drawn.pictures);
  batch.references = numbers_of(drawn.references);
  batch.targets = numbers_of(drawn.targets);
  batch.wordings = numbers_of(drawn.wordings);
  int64_t longest = 1;
  for (const int64_t text : drawn.texts) {
    longest = std::max(longest, std::ssize(stage_.texts[static_cast<size_t>(text)].ids));
  }
  batch.ids = torch::full({std::ssize(drawn.texts), longest}, begin_.config.pad_id, at::kLong);
  batch.mask = torch::zeros_like(batch.ids);
  for (size_t i = 0; i < drawn.texts.size(); ++i) {
    const auto& ids = stage_.texts[static_cast<size_t>(drawn.texts[i])].ids;
    const int64_t first = static_cast<int64_t>(i) * longest;
    std::ranges::copy(ids, batch.ids.data_ptr<int64_t>() + first);
    std::fill_n(batch.mask.data_ptr<int64_t>() + first, ids.size(), 1);
  }
}

SprcBatch SprcTrainingTask::batch(int64_t step) {
  const DrawnTriplets drawn = draw_triplets(options_, *stage_.data, order_, step, false);
  SprcBatch batch;
  fill(drawn, batch);
  batch.positives = right_candidates(options_, *stage_.data, class_of_, drawn);
  release_states(std::ssize(drawn.pictures));
  return batch;
}

Tensor SprcTrainingTask::loss(const SprcBatch& batch) const {
  const SprcTerms terms =
      model_->terms(batch.memory.index_select(0, batch.references), batch.ids.index_select(0, batch.wordings),
                    batch.mask.index_select(0, batch.wordings), dtype_);
  Tensor candidates = batch.targets;
  if (options_.wrong == WrongAnswers::kReferences) candidates = torch::cat({candidates, batch.references});
  // Each candidate image once.
  const auto [pictures, places] = at::_unique(candidates, true, true);
  const Tensor rows = model_->image_rows(batch.memory.index_select(0, pictures), dtype_);
  return sprc_loss(terms, options_.sprc, rows.index_select(0, places), log_scale_, batch.positives);
}

Result<Json> SprcTrainingTask::measure(const HeldOutQueries& set) const {
  const torch::NoGradGuard no_grad;
  EmbeddedRows gallery;
  gallery.late = true;
  std::vector<Tensor> rows;
  for (size_t first = 0; first < set.pictures.size(); first += kAtOnce) {
    const auto part = std::span(set.pictures).subspan(first, std::min(kAtOnce, set.pictures.size() - first));
    rows.push_back(model_->image_rows(memory_of(part), dtype_).flatten(0, 1));
    for (size_t i = 0; i < part.size(); ++i) {
      gallery.sets.begin.push_back(gallery.sets.begin.back() + begin_.queries);
    }
  }
  const Tensor pictures = torch::cat(rows).contiguous();
  gallery.sets.rows = Matrix<float>(pictures.size(0), pictures.size(1));
  std::copy_n(pictures.data_ptr<float>(), pictures.numel(), gallery.sets.rows.values().begin());
  std::vector<Tensor> queries;
  for (size_t first = 0; first < set.task.asked.size(); first += kAtOnce) {
    SprcBatch batch;
    fill(asked_queries(set, first, kAtOnce), batch);
    queries.push_back(model_->queries(batch.memory.index_select(0, batch.references),
                                      batch.ids.index_select(0, batch.wordings),
                                      batch.mask.index_select(0, batch.wordings), dtype_));
  }
  stage_.picture_tokens->file.release();
  const Tensor asked = torch::cat(queries).contiguous();
  return composed_held_out_json(set.name, set.task, {asked.data_ptr<float>(), asked.size(0), asked.size(1)},
                                gallery, options_.bootstrap, pool_);
}

Status SprcTrainingTask::write_encoder(const fs::path& folder) const {
  SACCADE_TRY(make_folders(folder));
  for (const auto& [name, content] : files_) SACCADE_TRY(write_file_atomic(folder / name, content));
  std::vector<nn::Tensor> kept;
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : begin_.weights.tensors) {
    if (const auto trained = encoder_parameters_.find(name); trained != encoder_parameters_.end()) {
      named.push_back({name, view_of(trained->second.detach())});
    } else {
      kept.push_back(tensor.contiguous());
      named.push_back({name, nn::view_of(kept.back())});
    }
  }
  return write_safetensors(folder / "model.safetensors", named, {{"format", "pt"}});
}

Status SprcTrainingTask::write_model(const fs::path& folder) const {
  SACCADE_TRY(write_encoder(folder / "encoder"));
  ComposerConfig config = stage_.composer;
  SACCADE_ASSIGN(config.encoder, own_encoder(folder));
  return write_composer(folder, config, {{"logit_scale", log_scale_}});
}

Status SprcTrainingTask::read_model(const fs::path& folder) {
  SACCADE_TRY(take_up_weights(folder, {{"logit_scale", log_scale_}}));
  return take_up_weights(folder / "encoder", encoder_parameters_);
}

}  // namespace saccade::lab
