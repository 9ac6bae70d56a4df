#include "saccade/train/visualness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "saccade/core/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/safetensors.h"
#include "saccade/core/threads.h"
#include "saccade/data/dataset.h"
#include "saccade/eval/visualness/binary.h"
#include "saccade/eval/visualness/picture_rank.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoint.h"
#include "saccade/nn/exceptions.h"
#include "saccade/train/epoch_order.h"
#include "saccade/train/loop.h"
#include "saccade/train/objective.h"
#include "saccade/train/variable.h"
#include "saccade/train/visualness_data.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

// CLIP's bound on exp(logit_scale) (Radford et al. 2021, section 2.5).
constexpr double kMaxLogitScale = 4.605170185988092;  // log(100)
constexpr uint64_t kShuffle = 11;                     // purpose of keyed random numbers (random.h)
constexpr int64_t kAtOnce = 256;                      // texts or pictures encoded at a time without gradients

constexpr std::array kObjectives = {
    EnumWord<VisualnessObjective>{VisualnessObjective::kOwnPictures, "own-pictures"},
    EnumWord<VisualnessObjective>{VisualnessObjective::kOnePicture, "one-picture"}};
constexpr std::array kLosses = {EnumWord<VisualnessLoss>{VisualnessLoss::kMultiPositive, "multi-positive"},
                                EnumWord<VisualnessLoss>{VisualnessLoss::kLiteral, "literal"}};
constexpr std::array kParts = {EnumWord<TrainedPart>{TrainedPart::kBoth, "both"},
                               EnumWord<TrainedPart>{TrainedPart::kText, "text"}};

bool is_of_text_tower(const std::string& name) {
  return name.starts_with("text_model.") || name.starts_with("text_projection.") || name == "logit_scale";
}

// The checkpoint's weights, or those a stage has left, in place of the random ones.
Status take_weights(const fs::path& folder, const TorchMap& parameters) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters) {
    const auto found = weights.tensors.find(name);
    if (found == weights.tensors.end()) {
      return fail(ErrorCode::kMismatch, "checkpoint {}: no tensor {}, which its config's architecture has",
                  folder.string(), name);
    }
    const Tensor stored = torch_over(found->second);
    if (stored.numel() != parameter.numel()) {
      return fail(ErrorCode::kMismatch,
                  "checkpoint {}: tensor {} has {} values, its config's architecture {}", folder.string(),
                  name, stored.numel(), parameter.numel());
    }
    Tensor(parameter).copy_(stored.view(parameter.sizes()));
  }
  return {};
}

struct Batch {
  Tensor ids;  // [n, longest], sorted by length
  std::vector<int64_t> lengths;
  Tensor visual;    // [n] bool
  Tensor pictures;  // [n] int64: numbers of pictures, 0 for the NULL picture's texts
  Tensor places;    // [n] int64: rows of `pixels`
  Tensor
      pixels;  // [pictures of the batch, then the NULL picture, 3, side, side]; undefined where rows are given
};

Tensor tensor_of(std::span<const float> values, const std::vector<int64_t>& shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape).clone();
}

Json figures_json(const VisualnessFigures& figures) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"f1", figures.f1},
          {"precision", figures.precision},
          {"recall", figures.recall},
          {"accuracy", figures.accuracy},
          {"threshold", figures.threshold},
          {"texts", figures.texts},
          {"mrr", number(figures.mrr)},
          {"pictures", figures.pictures}};
}

Result<VisualnessFigures> parse_figures(const Json& json) {
  VisualnessFigures figures;
  SACCADE_ASSIGN(figures.f1, json_field<double>(json, "f1"));
  SACCADE_ASSIGN(figures.precision, json_field<double>(json, "precision"));
  SACCADE_ASSIGN(figures.recall, json_field<double>(json, "recall"));
  SACCADE_ASSIGN(figures.accuracy, json_field<double>(json, "accuracy"));
  SACCADE_ASSIGN(figures.threshold, json_field<double>(json, "threshold"));
  SACCADE_ASSIGN(figures.texts, json_field<int64_t>(json, "texts"));
  SACCADE_ASSIGN(figures.mrr, json_field_or<double>(json, "mrr", std::nan("")));
  SACCADE_ASSIGN(figures.pictures, json_field<int64_t>(json, "pictures"));
  return figures;
}

// One stage: a text towards its picture or the NULL picture; judged by macro F1 on the validation texts.
class VisualnessTask : public TrainingTask {
 public:
  static Result<std::unique_ptr<VisualnessTask>> make(const VisualnessTrainingOptions& options,
                                                      const VisualnessData& data,
                                                      const VisualnessExamples& stage,
                                                      const fs::path& weights, ThreadPool& pool) {
    InitializedParameters source(options.seed, torch::Device(options.device));
    SACCADE_ASSIGN(TrainedClip model, TrainedClip::make(data.config, source));
    SACCADE_TRY(take_weights(weights, source.parameters()));
    return std::unique_ptr<VisualnessTask>(
        new VisualnessTask(options, data, stage, pool, std::move(model), source.parameters()));
  }

  [[nodiscard]] const TorchMap& parameters() const override { return trained_; }

  Result<StepLoss> prepare(int64_t step) override {
    SACCADE_ASSIGN(Batch batch, make_batch(step));
    return StepLoss([this, batch = std::move(batch)] { return loss(batch); });
  }

  void after_update() override { model_.logit_scale().tensor().clamp_(0, kMaxLogitScale); }

  Result<Json> evaluate() override {
    SACCADE_ASSIGN(const VisualnessFigures figures, measure());
    return Json{{"logit_scale", std::exp(model_.logit_scale().tensor().item<double>())},
                {"held_out", figures_json(figures)}};
  }

  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const override {
    SACCADE_ASSIGN(const VisualnessFigures figures, parse_figures(held_out));
    return std::optional(figures.f1);
  }

  [[nodiscard]] Status write_model(const fs::path& folder) const override {
    for (const auto& [name, content] : data_.files) SACCADE_TRY(write_file_atomic(folder / name, content));
    std::vector<Tensor> kept;
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : all_) {
      kept.push_back(tensor.detach().to(at::kCPU, at::kFloat).contiguous());
      named.push_back({name, view_of(kept.back())});
    }
    SACCADE_TRY(write_safetensors(folder / "model.safetensors", named, {{"format", "pt"}}));
    SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(folder));
    KeptVisualness visualness;
    visualness.null_picture = data_.description["null_picture"];
    visualness.null_row = null_row_;
    visualness.threshold = measured_.threshold;
    visualness.measured = figures_json(measured_);
    visualness.measured["validation"] = data_.validation.described;
    return write_kept_visualness(folder, fingerprint, visualness);
  }

  // The validation texts' figures of the weights as they are.
  Result<VisualnessFigures> measure() {
    const torch::NoGradGuard no_grad;
    SACCADE_TRY(update_picture_rows());
    std::vector<double> scores;
    std::vector<uint8_t> truth;
    const auto& items = data_.validation.items;
    const Matrix<float> texts = encode(items);
    measured_ = {};
    measured_.texts = std::ssize(items);
    scores = visualness_scores(null_row_, texts.view());
    for (const VisualnessExample& item : items) truth.push_back(item.visual ? 1 : 0);
    SACCADE_ASSIGN(const Threshold threshold, choose_threshold(scores, truth));
    Confusion confusion{};
    for (size_t i = 0; i < scores.size(); ++i) ++confusion[truth[i]][scores[i] > threshold.value ? 1 : 0];
    const BinaryFigures figures = binary_figures(confusion);
    measured_.f1 = figures.f1;
    measured_.precision = figures.precision;
    measured_.recall = figures.recall;
    measured_.accuracy = figures.accuracy;
    measured_.threshold = threshold.value;
    std::vector<int64_t> own;
    for (const VisualnessExample& item : items) own.push_back(item.picture);
    const std::vector<double> ranks = picture_ranks(texts.view(), picture_rows_.view(), own);
    measured_.pictures =
        std::ssize(std::set<int64_t>(own.begin(), own.end())) - (std::ranges::count(own, -1) > 0 ? 1 : 0);
    double sum = 0;
    for (const double rank : ranks) sum += 1 / rank;
    measured_.mrr = ranks.empty() ? std::nan("") : sum / static_cast<double>(ranks.size());
    return measured_;
  }

 private:
  VisualnessTask(const VisualnessTrainingOptions& options, const VisualnessData& data,
                 const VisualnessExamples& stage, ThreadPool& pool, TrainedClip model, TorchMap parameters)
      : options_(options),
        data_(data),
        stage_(stage),
        pool_(pool),
        dtype_(options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat),
        device_(options.device),
        model_(std::move(model)),
        all_(std::move(parameters)),
        null_row_(data.null_row),
        picture_rows_(data.picture_rows.copy()) {
    for (const auto& [name, tensor] : all_) {
      if (options.part == TrainedPart::kBoth || is_of_text_tower(name)) {
        trained_.emplace(name, tensor);
      } else {
        Tensor(tensor).set_requires_grad(false);
      }
    }
    numbers_.resize(stage.items.size());
    std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
    given_rows_ =
        tensor_of(data.picture_rows.values(), {data.picture_rows.rows(), data.picture_rows.columns()})
            .to(device_);
    given_null_ = tensor_of(data.null_row, {std::ssize(data.null_row)}).to(device_);
  }

  [[nodiscard]] int64_t side() const { return data_.config.image_size; }

  Result<Batch> make_batch(int64_t step) {
    const int64_t n = options_.batch;
    EpochOrder order(numbers_, options_.seed, kShuffle);
    std::vector<const VisualnessExample*> examples;
    for (int64_t i = 0; i < n; ++i)
      examples.push_back(&stage_.items[static_cast<size_t>(order.at(step * n + i))]);
    // The loss does not look at the order, and texts of like length beside each other need little padding.
    std::ranges::stable_sort(examples, {},
                             [](const VisualnessExample* each) { return each->text.ids.size(); });
    Batch batch;
    batch.ids = torch::zeros({n, static_cast<int64_t>(examples.back()->text.ids.size())}, at::kLong);
    batch.visual = torch::zeros({n}, at::kBool);
    batch.pictures = torch::zeros({n}, at::kLong);
    batch.places = torch::zeros({n}, at::kLong);
    std::map<int64_t, int64_t> places;  // of the batch's pictures
    for (int64_t i = 0; i < n; ++i) {
      const VisualnessExample& example = *examples[static_cast<size_t>(i)];
      std::ranges::copy(example.text.ids, batch.ids.data_ptr<int64_t>() + i * batch.ids.size(1));
      batch.lengths.push_back(std::ssize(example.text.ids));
      if (!example.visual) continue;
      batch.visual.data_ptr<bool>()[i] = true;
      batch.pictures.data_ptr<int64_t>()[i] = example.picture;
      batch.places.data_ptr<int64_t>()[i] = places.emplace(example.picture, std::ssize(places)).first->second;
    }
    if (options_.part == TrainedPart::kBoth) {
      std::vector<int64_t> pictures(places.size());
      for (const auto& [picture, place] : places) pictures[static_cast<size_t>(place)] = picture;
      SACCADE_ASSIGN(batch.pixels, pixels_of(pictures, true));
    }
    return batch;
  }

  // [pictures (and the NULL picture behind them), 3, side, side].
  Result<Tensor> pixels_of(std::span<const int64_t> pictures, bool with_null) {
    const Preprocessing preprocessing =
        with_transparency(data_.loaded.encoder->preprocessing(), options_.embed.transparency);
    const PixelOptions reading = pixel_options(preprocessing, {.apply_orientation = !options_.embed.as_stored,
                                                               .processes = options_.embed.processes});
    const auto ref = [&](int64_t i) -> const ImageRef& {
      return data_.pictures[static_cast<size_t>(pictures[static_cast<size_t>(i)])];
    };
    const PixelBatch batch = read_pixels(
        std::ssize(pictures), [&](int64_t i) { return read_image_bytes(ref(i), reading.decode.max_bytes); },
        reading, pool_);
    if (!batch.failed.empty()) {
      const auto& [i, error] = batch.failed.front();
      return fail(error.code, "{}: it could be read when the training began: {}", ref(i).name(),
                  error.message);
    }
    const int64_t count = std::ssize(pictures);
    Tensor pixels = torch::empty({count + (with_null ? 1 : 0), 3, side(), side()});
    const auto values = static_cast<size_t>(3 * side() * side());
    for (int64_t i = 0; i < count; ++i) {
      std::ranges::copy(batch.rows().row(i), pixels.data_ptr<float>() + static_cast<size_t>(i) * values);
    }
    if (with_null) {
      std::ranges::copy(data_.null_pixels, pixels.data_ptr<float>() + static_cast<size_t>(count) * values);
    }
    return pixels;
  }

  [[nodiscard]] Tensor loss(const Batch& batch) const {
    const Tensor visual = batch.visual.to(device_);
    const Tensor pictures = batch.pictures.to(device_);
    Tensor images;
    Tensor null_row = given_null_;
    if (batch.pixels.defined()) {
      const Tensor rows = normalize_rows(clip_images(model_, batch.pixels.to(device_), dtype_));
      null_row = rows[rows.size(0) - 1];
      images = rows.index_select(0, batch.places.to(device_));
    } else {
      images = given_rows_.size(0) == 0 ? null_row.unsqueeze(0).expand({visual.size(0), null_row.size(0)})
                                        : given_rows_.index_select(0, pictures);
    }
    const Tensor texts = normalize_rows(clip_texts_by_length(model_, batch.ids, batch.lengths, dtype_));
    const bool literal = options_.loss == VisualnessLoss::kLiteral;
    return null_picture_loss(images, texts, visual, null_row, model_.logit_scale().tensor(),
                             literal ? Tensor() : pictures);
  }

  // Rows of length 1, in fp32.
  [[nodiscard]] Matrix<float> encode(std::span<const VisualnessExample> items) const {
    Matrix<float> rows(std::ssize(items), data_.config.projection);
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return items[i].text.ids.size(); });
    for (size_t first = 0; first < order.size(); first += kAtOnce) {
      const size_t n = std::min<size_t>(kAtOnce, order.size() - first);
      const auto longest = static_cast<int64_t>(items[order[first + n - 1]].text.ids.size());
      Tensor ids = torch::zeros({static_cast<int64_t>(n), longest}, at::kLong);
      for (size_t i = 0; i < n; ++i) {
        std::ranges::copy(items[order[first + i]].text.ids,
                          ids.data_ptr<int64_t>() + static_cast<int64_t>(i) * longest);
      }
      const Tensor part = normalize_rows(clip_texts(model_, ids, at::kFloat)).to(at::kCPU).contiguous();
      for (size_t i = 0; i < n; ++i) {
        std::copy_n(part.data_ptr<float>() + static_cast<int64_t>(i) * rows.columns(), rows.columns(),
                    rows.row(static_cast<int64_t>(order[first + i])).begin());
      }
    }
    return rows;
  }

  // Rows of the pictures that are validated with, and of the NULL picture, where the picture tower is trained.
  Status update_picture_rows() {
    if (options_.part == TrainedPart::kText) return {};
    std::set<int64_t> wanted;
    for (const VisualnessExample& item : data_.validation.items) {
      if (item.picture >= 0) wanted.insert(item.picture);
    }
    const std::vector<int64_t> pictures(wanted.begin(), wanted.end());
    for (size_t first = 0; first <= pictures.size(); first += kAtOnce) {
      const auto part =
          std::span(pictures).subspan(first, std::min<size_t>(kAtOnce, pictures.size() - first));
      SACCADE_ASSIGN(const Tensor pixels, pixels_of(part, true));
      const Tensor rows =
          normalize_rows(clip_images(model_, pixels.to(device_), at::kFloat)).to(at::kCPU).contiguous();
      const auto dim = static_cast<size_t>(rows.size(1));
      for (size_t i = 0; i < part.size(); ++i) {
        std::copy_n(rows.data_ptr<float>() + i * dim, dim, picture_rows_.row(part[i]).begin());
      }
      null_row_.assign(rows.data_ptr<float>() + part.size() * dim,
                       rows.data_ptr<float>() + (part.size() + 1) * dim);
    }
    return {};
  }

  const VisualnessTrainingOptions& options_;
  const VisualnessData& data_;
  const VisualnessExamples& stage_;
  ThreadPool& pool_;
  at::ScalarType dtype_;
  torch::Device device_;
  TrainedClip model_;
  TorchMap all_;
  TorchMap trained_;
  std::vector<int64_t> numbers_;  // of the stage's texts
  Tensor given_rows_;             // [pictures, dim], by the checkpoint that training began with
  Tensor given_null_;             // [dim]
  // Of the last evaluation.
  std::vector<float> null_row_;
  Matrix<float> picture_rows_;
  VisualnessFigures measured_;
};

Status check_options(const VisualnessTrainingOptions& options) {
  if (options.automatic.datasets.empty() && options.human.datasets.empty()) {
    return fail(ErrorCode::kUsage,
                "no texts to train on: name datasets with automatic labels, people's, or both");
  }
  if (options.validation.empty())
    return fail(ErrorCode::kUsage, "no validation texts: the threshold is chosen on them");
  if (options.batch < 2) return fail(ErrorCode::kUsage, "batch is {}, expected 2 or more", options.batch);
  for (const VisualnessStage* stage : {&options.automatic, &options.human}) {
    if (!(stage->epochs > 0 && stage->epochs <= 1e6)) {
      return fail(ErrorCode::kUsage, "{} epochs, expected above 0", stage->epochs);
    }
  }
  if (options.precision == Precision::kInt8) {
    return fail(ErrorCode::kUsage, "precision int8 is for encoding: training is in fp32 or bf16");
  }
  if (options.device != "cpu" && options.device != "cuda") {
    return fail(ErrorCode::kUsage, "device \"{}\", expected cpu or cuda", options.device);
  }
  if (options.device == "cuda" && !torch::cuda::is_available()) {
    return fail(ErrorCode::kUnsupported, "device cuda: this libtorch or machine has none");
  }
  return {};
}

TrainingLoopOptions loop_options(const VisualnessTrainingOptions& options, const VisualnessExamples& stage,
                                 double epochs) {
  TrainingLoopOptions loop;
  const double an_epoch = static_cast<double>(stage.items.size()) / static_cast<double>(options.batch);
  loop.run = options.run / stage.name;
  loop.steps = std::max<int64_t>(1, std::llround(std::ceil(epochs * an_epoch)));
  loop.learning_rate = options.learning_rate;
  loop.warmup = options.warmup;
  loop.weight_decay = options.weight_decay;
  loop.max_gradient_norm = options.max_gradient_norm;
  loop.evaluate_every = std::max<int64_t>(1, std::llround(std::ceil(an_epoch)));
  loop.checkpoint_every = loop.evaluate_every;
  loop.seed = options.seed;
  loop.dry_run = options.dry_run;
  return loop;
}

// The last stage's best checkpoint as the run's.
Status copy_model(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  for (fs::directory_iterator entry(from, error), end; !error && entry != end; entry.increment(error)) {
    SACCADE_ASSIGN(const std::string content, read_file(entry->path(), int64_t{1} << 40));
    SACCADE_TRY(write_file_atomic(to / entry->path().filename(), content));
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", to.string(), error.message());
  return {};
}

Result<VisualnessTrainingReport> train(const VisualnessTrainingOptions& options, int threads,
                                       const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options.run, kVisualnessKind,
                                                             options.run / "automatic", options.dry_run));
  ThreadPool pool(threads);
  at::set_num_threads(threads);
  SACCADE_ASSIGN(VisualnessData data, load_visualness_data(options, pool, progress, stop));
  Json description = data.description;
  for (const VisualnessExamples& stage : data.stages) {
    const double epochs = stage.name == "automatic" ? options.automatic.epochs : options.human.epochs;
    description["stages"][stage.name] =
        describe_training(description["stages"][stage.name], loop_options(options, stage, epochs));
  }
  SACCADE_TRY(folder.check_whole(description));
  VisualnessTrainingReport report;
  report.model = options.run / "model";
  fs::path weights = data.checkpoint;
  if (!options.dry_run) SACCADE_TRY(folder.claim(description));
  for (const VisualnessExamples& stage : data.stages) {
    const double epochs = stage.name == "automatic" ? options.automatic.epochs : options.human.epochs;
    const TrainingLoopOptions loop_with = loop_options(options, stage, epochs);
    SACCADE_ASSIGN(const std::unique_ptr<VisualnessTask> task,
                   VisualnessTask::make(options, data, stage, weights, pool));
    if (&stage == data.stages.data()) {
      SACCADE_ASSIGN(report.before, task->measure());
    }
    VisualnessStageReport& of_stage = report.stages.emplace_back();
    of_stage.name = stage.name;
    of_stage.visual = stage.count(true);
    of_stage.non_visual = stage.count(false);
    of_stage.excluded = stage.excluded;
    if (options.dry_run) continue;
    Json own = data.description["stages"][stage.name];
    own["kind"] = kVisualnessStageKind;
    own["training"] = sha256_hex(dump_json(description));
    SACCADE_ASSIGN(own["initial_weights"], checkpoint_fingerprint(weights));
    SACCADE_ASSIGN(TrainingFolder stage_folder,
                   TrainingFolder::open(loop_with.run, kVisualnessStageKind, loop_with.run / "cache", false));
    TrainingLoop loop(*task, loop_with, stage_folder, own);
    SACCADE_TRY(loop.begin().in(stage.name));
    SACCADE_ASSIGN(const TrainingOutcome outcome, loop.run(progress, stop).in(stage.name));
    of_stage.steps = outcome.steps;
    of_stage.best_step = outcome.best_step;
    of_stage.last_loss = outcome.last_loss;
    if (outcome.best_step > 0) {
      SACCADE_ASSIGN(of_stage.best, parse_figures(outcome.best));
    }
    if (!outcome.finished) return report;
    weights = loop_with.run / "model";
  }
  if (options.dry_run) return report;
  SACCADE_TRY(copy_model(weights, report.model));
  report.finished = true;
  return report;
}

}  // namespace

std::span<const EnumWord<VisualnessObjective>> enum_words(VisualnessObjective) {
  return kObjectives;
}
std::span<const EnumWord<VisualnessLoss>> enum_words(VisualnessLoss) {
  return kLosses;
}
std::span<const EnumWord<TrainedPart>> enum_words(TrainedPart) {
  return kParts;
}

Json visualness_training_json(const VisualnessTrainingReport& report) {
  Json stages = Json::array();
  for (const VisualnessStageReport& stage : report.stages) {
    Json excluded = Json::array();
    for (const Exclusion& exclusion : stage.excluded) {
      excluded.push_back(
          {{"reason", exclusion.reason}, {"count", exclusion.count}, {"examples", exclusion.examples}});
    }
    stages.push_back({{"name", stage.name},
                      {"visual", stage.visual},
                      {"non_visual", stage.non_visual},
                      {"excluded", std::move(excluded)},
                      {"steps", stage.steps},
                      {"best_step", stage.best_step},
                      {"last_loss", stage.last_loss},
                      {"validation", stage.best_step > 0 ? figures_json(stage.best) : Json()}});
  }
  return {{"model", report.model.string()},
          {"finished", report.finished},
          {"before", figures_json(report.before)},
          {"stages", std::move(stages)}};
}

Result<VisualnessTrainingReport> train_visualness(const VisualnessTrainingOptions& options,
                                                  const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_options(options));
  return nn::without_exceptions(kVisualnessKind, [&] {
    return train(options, options.threads > 0 ? options.threads : available_processors(), progress, stop);
  });
}

}  // namespace saccade
