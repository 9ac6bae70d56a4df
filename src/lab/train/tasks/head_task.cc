#include "lab/train/tasks/head_task.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "lab/eval/head_figures.h"
#include "lab/eval/run/record_fields.h"
#include "lab/train/math/device.h"
#include "lab/train/math/initial_weights.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// Purposes of the keyed random numbers. The draws of one purpose never depend on another's.
enum Purpose : uint64_t { kShuffle = 12, kCandidates = 13 };

constexpr int64_t kCandidatesAtOnce = 1024;
constexpr int64_t kRowsAtOnce = 4096;
// Bytes of features to read before their pages are released: the kernel maps up to 64 KB around each row of a
// few.
constexpr int64_t kMappedBytes = int64_t{8} << 20;
constexpr int64_t kWitnesses = 8;  // rows that conformance is checked by

// Returns true for the parameter names of QFormerOf.
bool of_qformer(const std::string& parameter) {
  return parameter == "query_tokens" || parameter.starts_with("qformer.");
}

}  // namespace

Variable pool_states(const Variable& states, Pooling pooling) {
  const Tensor& rows = states.tensor();
  switch (pooling) {
    case Pooling::kMean:
      return Variable(rows.mean(1));
    case Pooling::kMax:
      return Variable(rows.amax(1));
    case Pooling::kFirst:
      return Variable(rows.select(1, 0));
    case Pooling::kLast:
      break;
  }
  return Variable(rows.select(1, rows.size(1) - 1));
}

int64_t head_training_steps(const HeadTrainingOptions& options, int64_t pairs) {
  const double epochs = options.epochs > 0 ? options.epochs : options.kind == HeadKind::kLinear ? 5 : 8;
  return static_cast<int64_t>(
      std::ceil(epochs * static_cast<double>(pairs) / static_cast<double>(options.batch)));
}

HeadTask::HeadTask(const HeadTrainingOptions& options, const HeadConfig& config, const FeatureFile& features,
                   const std::vector<int64_t>& pairs, std::span<const HeadSet> held_out, ThreadPool& pool,
                   HeadOf<Variable> head, TorchMap parameters)
    : options_(options),
      config_(config),
      features_(features),
      pairs_(pairs),
      held_out_(held_out),
      pool_(pool),
      device_(torch_device(options.device)),
      head_(std::move(head)),
      parameters_(std::move(parameters)),
      order_(pairs, options.seed, kShuffle) {}

Result<std::unique_ptr<HeadTask>> HeadTask::make(const HeadTrainingOptions& options, const HeadConfig& config,
                                                 const FeatureFile& features,
                                                 const std::vector<int64_t>& pairs,
                                                 std::span<const HeadSet> held_out, ThreadPool& pool,
                                                 const nn::TensorMap& frozen) {
  InitializedParameters source(options.seed, torch_device(options.device));
  SACCADE_ASSIGN(HeadOf<Variable> head, HeadOf<Variable>::make(config, source));
  if (config.qformer) {
    TorchMap own;
    TorchMap initial;
    for (const auto& [name, tensor] : source.parameters()) {
      if (of_qformer(name)) own.emplace(name, tensor);
    }
    for (const auto& [name, tensor] : frozen) {
      if (of_qformer(name)) initial.emplace(name, torch_over(tensor));
    }
    SACCADE_TRY(begin_with(initial, own, "the frozen encoder's Q-Former"));
  }
  return std::unique_ptr<HeadTask>(
      new HeadTask(options, config, features, pairs, held_out, pool, std::move(head), source.parameters()));
}

Result<StepLosses> HeadTask::prepare(int64_t step) {
  return StepLosses{[this, prepared = batch(step)] { return loss(prepared); }};
}

double HeadTask::rate_of(const std::string& parameter) const {
  return of_qformer(parameter) ? options_.qformer_rate / options_.learning_rate : 1;
}

void HeadTask::after_update() {
  head_.log_scale().tensor().clamp_(0, kMaxLogScale);
}

HeadBatch HeadTask::batch(int64_t step) {
  const auto hard =
      static_cast<int64_t>(std::llround(options_.hard_negatives * static_cast<double>(options_.batch)));
  const int64_t drawn = options_.batch - hard;
  HeadBatch batch;
  for (int64_t i = 0; i < drawn; ++i) batch.texts.push_back(order_.at(step * drawn + i));
  if (hard > 0) add_hard_negatives(step, batch.texts);
  fill(batch);
  unreleased_ += (batch.images.numel() + batch.text_rows.numel()) * 4;
  if (hard > 0) unreleased_ += kCandidatesAtOnce * (features_.image_width() + features_.text_width()) * 4;
  if (unreleased_ >= kMappedBytes) {
    features_.release();
    unreleased_ = 0;
  }
  return batch;
}

// Adds, for each of the first pairs in turn, the nearest candidate by images and texts together that is not a
// positive. Such hard negatives contribute what easy ones leave of the loss (the study's future work).
void HeadTask::add_hard_negatives(int64_t step, std::vector<int64_t>& texts) const {
  const auto anchors = std::ssize(texts);
  const int64_t wanted = options_.batch - anchors;
  KeyedRandom random(options_.seed, kCandidates, static_cast<uint64_t>(step));
  HeadBatch candidates;
  for (int64_t i = 0; i < kCandidatesAtOnce; ++i) {
    candidates.texts.push_back(pairs_[random.below(pairs_.size())]);
  }
  fill(candidates);
  HeadBatch own;
  own.texts = texts;
  fill(own);
  const auto cosines = [](const Tensor& a, const Tensor& b) {
    return at::matmul(normalize_rows(a), normalize_rows(b).t());
  };
  const Tensor near =
      (cosines(own.images, candidates.images) + cosines(own.text_rows, candidates.text_rows)).contiguous();
  std::unordered_set<int64_t> taken(texts.begin(), texts.end());
  for (int64_t k = 0; k < wanted; ++k) {
    const int64_t anchor = k % anchors;
    const auto* row = near.data_ptr<float>() + anchor * kCandidatesAtOnce;
    const int64_t image = features_.text_image()[static_cast<size_t>(texts[static_cast<size_t>(anchor)])];
    int64_t best = -1;
    for (int64_t c = 0; c < kCandidatesAtOnce; ++c) {
      const int64_t text = candidates.texts[static_cast<size_t>(c)];
      if (best >= 0 && !(row[c] > row[best])) continue;
      if (taken.contains(text) || features_.belong(image, text)) continue;
      best = c;
    }
    // If all candidates are positives, any pair will do.
    const int64_t text = best >= 0 ? candidates.texts[static_cast<size_t>(best)]
                                   : candidates.texts[static_cast<size_t>(k % kCandidatesAtOnce)];
    taken.insert(text);
    texts.push_back(text);
  }
}

void HeadTask::fill(HeadBatch& batch) const {
  const auto n = std::ssize(batch.texts);
  batch.images = torch::empty({n, features_.image_width()});
  batch.text_rows = torch::empty({n, features_.text_width()});
  batch.positives = torch::empty({n, n}, at::kBool);
  auto* positives = batch.positives.data_ptr<bool>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t text = batch.texts[static_cast<size_t>(i)];
    const int64_t image = features_.text_image()[static_cast<size_t>(text)];
    features_.image_row(image, {batch.images.data_ptr<float>() + i * features_.image_width(),
                                static_cast<size_t>(features_.image_width())});
    features_.text_row(text, {batch.text_rows.data_ptr<float>() + i * features_.text_width(),
                              static_cast<size_t>(features_.text_width())});
    for (int64_t j = 0; j < n; ++j) {
      positives[i * n + j] = features_.belong(image, batch.texts[static_cast<size_t>(j)]);
    }
  }
}

Tensor HeadTask::loss(const HeadBatch& batch) const {
  const int64_t n = batch.images.size(0);
  const auto own = [this](const Tensor& all, MicroBatch rows) {
    return Variable(all.slice(0, rows.first, rows.last).to(device_));
  };
  const Tensor images = encode_in_micro_batches(n, options_.accumulate, [this, own, &batch](MicroBatch rows) {
    return normalize_rows(head_.images(own(batch.images, rows)).tensor());
  });
  const Tensor texts = encode_in_micro_batches(n, options_.accumulate, [this, own, &batch](MicroBatch rows) {
    return normalize_rows(head_.texts(own(batch.text_rows, rows)).tensor());
  });
  return info_nce(images, texts, head_.log_scale().tensor(), batch.positives.to(device_));
}

Tensor HeadTask::rows_of(const Matrix<float>& features, bool images) const {
  const Variable input(torch_copy(features).to(device_));
  return normalize_rows((images ? head_.images(input) : head_.texts(input)).tensor());
}

Result<Json> HeadTask::evaluate() {
  Json sets = Json::array();
  for (const HeadSet& set : held_out_) {
    std::vector<Tensor> images;
    std::vector<Tensor> texts;
    const int64_t pictures = rows_at_once(set.features.image_width(), kRowsAtOnce);
    for (int64_t first = 0; first < set.features.images(); first += pictures) {
      const int64_t count = std::min(pictures, set.features.images() - first);
      images.push_back(rows_of(set.features.image_rows(first, count), true));
    }
    for (int64_t first = 0; first < set.features.texts(); first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, set.features.texts() - first);
      texts.push_back(rows_of(set.features.text_rows(first, count), false));
    }
    const Tensor image_rows = torch::cat(images).to(at::kCPU).contiguous();
    const Tensor text_rows = torch::cat(texts).to(at::kCPU).contiguous();
    SACCADE_ASSIGN(const RetrievalOutcome outcome,
                   measure_rows(set, view(image_rows), view(text_rows), options_.bootstrap, pool_));
    const Estimates estimates = recall_estimates(outcome);
    Json intervals = record_json(recall_figures(estimates, options_.bootstrap.confidence));
    Json line = {{"name", set.name},
                 {"protocol", enum_name(options_.captions)},
                 {"images", std::ssize(set.task.images)},
                 {"texts", std::ssize(set.task.texts)},
                 {"mean_recall", estimates.value.back()}};
    for (const char* direction : {"t2i", "i2t"}) {
      for (const char* name : {"r1", "r5", "r10"})
        line[direction][name] = intervals[direction][name]["value"];
    }
    line["intervals"] = std::move(intervals);
    sets.push_back(std::move(line));
  }
  return Json{{"logit_scale", std::exp(head_.log_scale().tensor().item<double>())},
              {"held_out", std::move(sets)}};
}

Result<std::optional<double>> HeadTask::headline(const Json& held_out) const {
  if (!held_out.is_array()) return fail(ErrorCode::kBadData, "not an array");
  double sum = 0;
  double weight = 0;
  for (const Json& set : held_out) {
    SACCADE_ASSIGN(const auto images, json_field<double>(set, "images"));
    SACCADE_ASSIGN(const auto recall, json_field<double>(set, "mean_recall"));
    sum += images * recall;
    weight += images;
  }
  if (weight == 0) return std::nullopt;
  return sum / weight;
}

Status HeadTask::write_model(const fs::path& folder) const {
  SACCADE_TRY(write_file_atomic(folder / "config.json", dump_json(head_config_json(config_), 2) + "\n"));
  if (config_.frozen) {
    SACCADE_TRY(
        write_file_atomic(folder / "frozen.json", dump_json({{"path", config_.frozen->path}}, 2) + "\n"));
  }
  SACCADE_TRY(write_torch_map(folder / "model.safetensors", parameters_));

  // Writes libtorch's outputs for a few features, for `model conform`.
  const Matrix<float> image_features = features_.image_rows(0, std::min(kWitnesses, features_.images()));
  const Matrix<float> text_features = features_.text_rows(0, std::min(kWitnesses, features_.texts()));
  const Tensor images = rows_of(image_features, true);
  const Tensor texts = rows_of(text_features, false);
  const Tensor logits = at::matmul(texts, images.t()) * head_.log_scale().tensor().exp();
  return write_torch_map(folder / "io.safetensors",
                         {{"image_features", torch_copy(image_features)},
                          {"text_features", torch_copy(text_features)},
                          {"image_embeds", images},
                          {"text_embeds", texts},
                          {"logits_per_text", logits},
                          {"logits_per_image", logits.t()}},
                         std::nullopt, {});
}

}  // namespace saccade::lab
