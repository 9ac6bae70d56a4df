#include "lab/train/recipes/train_dual.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <sys/resource.h>

#include "lab/train/data/held_out.h"
#include "lab/train/data/training_data.h"
#include "lab/train/loop.h"
#include "lab/train/math/device.h"
#include "lab/train/math/initial_weights.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/variable.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

at::ScalarType torch_type(WeightsFormat format) {
  if (format == WeightsFormat::kFp16) return at::kHalf;
  return format == WeightsFormat::kBf16 ? at::kBFloat16 : at::kFloat;
}

// Trains with CLIP's symmetric loss over batches of images and captions; evaluates retrieval on the held-out
// sets.
class DualTask : public TrainingTask {
 public:
  static Result<std::unique_ptr<DualTask>> make(const DualTrainingOptions& options,
                                                const TrainingSetup& setup, ThreadPool& pool) {
    InitializedParameters source(options.seed, torch_device(options.device));
    SACCADE_ASSIGN(TrainedClip model, TrainedClip::make(setup.config, source));
    if (!options.initial.empty()) {
      const fs::path path = options.initial / "model.safetensors";
      SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
      SACCADE_ASSIGN(const TorchMap tensors, torch_tensors(file).in(path.string()));
      SACCADE_TRY(begin_with(tensors, source.parameters(), path.string()));
    }
    if (options.checkpoint_activations) model.checkpoint_activations();
    return std::unique_ptr<DualTask>(
        new DualTask(options, setup, pool, std::move(model), source.parameters()));
  }

  [[nodiscard]] const TorchMap& parameters() const override { return parameters_; }

  Result<StepLosses> prepare(int64_t step) override {
    return StepLosses{[this, batch = make_batch(setup_, options_, step, pool_)] { return loss(batch); }};
  }

  void after_update() override { model_.logit_scale().tensor().clamp_(0, kMaxLogScale); }

  Result<Json> evaluate() override {
    SACCADE_ASSIGN(const std::vector<OneCaptionRecall> recalls, held_out_recalls());
    return Json{{"logit_scale", std::exp(model_.logit_scale().tensor().item<double>())},
                {"held_out", held_out_json(recalls)}};
  }

  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const override {
    SACCADE_ASSIGN(const std::vector<OneCaptionRecall> recalls, parse_held_out(held_out));
    if (recalls.empty()) return std::nullopt;
    return held_out_headline(recalls);
  }

  [[nodiscard]] Status write_model(const fs::path& folder) const override {
    SACCADE_TRY(write_file_atomic(folder / "config.json", dump_json(setup_.config_json, 2) + "\n"));
    for (const auto& [name, content] : setup_.auxiliary_files) {
      SACCADE_TRY(write_file_atomic(folder / name, content));
    }
    return write_torch_map(folder / "model.safetensors", parameters_, torch_type(options_.weights));
  }

 private:
  DualTask(const DualTrainingOptions& options, const TrainingSetup& setup, ThreadPool& pool,
           TrainedClip model, TorchMap parameters)
      : options_(options),
        setup_(setup),
        pool_(pool),
        dtype_(options.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat),
        device_(torch_device(options.device)),
        model_(std::move(model)),
        parameters_(std::move(parameters)) {}

  // The batch must live until the backward pass has run.
  [[nodiscard]] Tensor loss(const TrainingBatch& batch) const {
    const int64_t n = batch.pixels.size(0);
    const Tensor images = encode_in_micro_batches(n, options_.accumulate, [this, &batch](MicroBatch rows) {
      const auto own = [&](const Tensor& all) {
        return all.defined() ? all.slice(0, rows.first, rows.last).to(device_) : all;
      };
      return normalize_rows(clip_images(model_, own(batch.pixels), dtype_, own(batch.keep)));
    });
    const Tensor texts = encode_in_micro_batches(n, options_.accumulate, [this, &batch](MicroBatch rows) {
      const std::vector<int64_t> lengths(batch.lengths.begin() + rows.first,
                                         batch.lengths.begin() + rows.last);
      const Tensor ids = batch.ids.slice(0, rows.first, rows.last).to(device_);
      return normalize_rows(clip_texts_by_length(model_, ids, lengths, dtype_));
    });
    return info_nce(images, texts, model_.logit_scale().tensor(), batch.positives.to(device_));
  }

  Result<std::vector<OneCaptionRecall>> held_out_recalls() {
    const auto side = setup_.config.image_size;
    std::vector<OneCaptionRecall> recalls;
    for (const OneCaptionSet& set : setup_.held_out) {
      std::vector<Tensor> images;
      std::vector<Tensor> texts;
      constexpr int64_t kAtOnce = 256;
      const auto count = static_cast<int64_t>(set.texts.size());
      for (int64_t first = 0; first < count; first += kAtOnce) {
        const int64_t n = std::min(kAtOnce, count - first);
        auto* data = const_cast<float*>(set.pixels.row(first).data());
        const Tensor pixels = torch::from_blob(data, {n, 3, side, side}).to(device_);
        images.push_back(normalize_rows(clip_images(model_, pixels, dtype_)).to(at::kCPU));
        size_t longest = 1;
        for (int64_t i = first; i < first + n; ++i) {
          longest = std::max(longest, set.texts[static_cast<size_t>(i)].ids.size());
        }
        Tensor ids = torch::zeros({n, static_cast<int64_t>(longest)}, at::kLong);
        for (int64_t i = 0; i < n; ++i) {
          const auto& text = set.texts[static_cast<size_t>(first + i)].ids;
          std::copy(text.begin(), text.end(), ids.data_ptr<int64_t>() + i * static_cast<int64_t>(longest));
        }
        texts.push_back(normalize_rows(clip_texts(model_, ids.to(device_), dtype_)).to(at::kCPU));
      }
      const Tensor image_rows = torch::cat(images).contiguous();
      const Tensor text_rows = torch::cat(texts).contiguous();
      SACCADE_ASSIGN(recalls.emplace_back(),
                     score_one_caption(set, view(image_rows), view(text_rows), pool_));
    }
    return recalls;
  }

  const DualTrainingOptions& options_;
  const TrainingSetup& setup_;
  ThreadPool& pool_;
  at::ScalarType dtype_;
  torch::Device device_;
  TrainedClip model_;
  TorchMap parameters_;
};

Status check_options(const DualTrainingOptions& options) {
  if (options.datasets.empty()) return fail(ErrorCode::kUsage, "no dataset given");
  SACCADE_TRY(check_loop_options(options));
  if (options.batch < 2) return fail(ErrorCode::kUsage, "batch is {}, expected 2 or more", options.batch);
  SACCADE_TRY(check_accumulation(options.accumulate, options.batch));
  const std::pair<const char*, double> shares[] = {{"patch dropout", options.patch_dropout},
                                                   {"share of unmasked steps", options.unmasked},
                                                   {"share of first captions", options.first_caption}};
  for (const auto& [name, value] : shares) {
    if (!(value >= 0 && value <= 1)) return fail(ErrorCode::kUsage, "{} is {}, expected 0 to 1", name, value);
  }
  return {};
}

// Runs two steps without updates; the first also allocates memory.
Result<DualTrainingPlan> try_steps(const DualTrainingOptions& options, const TrainingSetup& setup,
                                   DualTask& task) {
  DualTrainingPlan plan;
  for (const int64_t item : setup.usable) {
    ++plan.pictures;
    plan.captions += std::ssize(setup.captions[static_cast<size_t>(item)]);
  }
  for (const OneCaptionSet& set : setup.held_out) plan.held_out += std::ssize(set.texts);
  for (const auto& [name, tensor] : task.parameters()) plan.parameters += tensor.numel();
  plan.steps = options.steps;
  for (int64_t step = 0; step < std::min<int64_t>(2, options.steps); ++step) {
    const auto start = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(const StepLosses losses, task.prepare(step));
    for (const StepLoss& loss : losses) {
      const Tensor value = loss();
      value.backward();
      (void)value.item<double>();  // a GPU has done it then
    }
    plan.seconds_a_step = seconds_since(start);
  }
  plan.seconds = plan.seconds_a_step * static_cast<double>(options.steps);
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  constexpr int64_t kMoments = 2;  // AdamW's, a float each
  plan.memory_bytes = (int64_t{used.ru_maxrss} << 10) + kMoments * 4 * plan.parameters;
  return plan;
}

Result<DualTrainingReport> train(const DualTrainingOptions& options, int threads,
                                 const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options.run, kDualTrainingKind,
                                                             picture_cache(options), options.dry_run));
  ThreadPool pool(threads);
  at::set_num_threads(threads);
  SACCADE_ASSIGN(TrainingSetup setup, load_training_setup(options));
  // Differences that show without the images are reported before these are loaded.
  SACCADE_TRY(folder.check(describe_training(setup.description, options)));
  SACCADE_TRY(load_pictures(options, setup, pool, progress, stop));
  SACCADE_ASSIGN(const std::unique_ptr<DualTask> task, DualTask::make(options, setup, pool));
  TrainingLoop loop(*task, options, folder, setup.description);
  SACCADE_TRY(loop.begin());
  if (options.dry_run) {
    DualTrainingReport report;
    SACCADE_ASSIGN(report.plan, try_steps(options, setup, *task));
    report.left_out = setup.pictures.failures();
    report.also_trained = setup.also_trained;
    return report;
  }
  SACCADE_TRY(setup.pictures.keep());
  SACCADE_ASSIGN(const TrainingOutcome outcome, loop.run(progress, stop));

  DualTrainingReport report;
  static_cast<TrainingSummary&>(report) = outcome;
  SACCADE_ASSIGN(report.best, parse_held_out(outcome.best));
  report.images_per_second = outcome.steps_per_second * static_cast<double>(options.batch);
  report.left_out = setup.pictures.failures();
  report.also_trained = setup.also_trained;
  report.model = options.run / "model";
  return report;
}

}  // namespace

Json dual_training_json(const DualTrainingReport& report) {
  Json best = Json::array();
  for (const OneCaptionRecall& set : report.best) {
    best.push_back({{"name", set.name},
                    {"protocol", kHeldOutProtocol},
                    {"images", set.images},
                    {"text_to_image", recall_json(set.text_to_image)},
                    {"image_to_text", recall_json(set.image_to_text)}});
  }
  if (report.plan) {
    const DualTrainingPlan& plan = *report.plan;
    return {{"dry_run", true},
            {"images", plan.pictures},
            {"captions", plan.captions},
            {"held_out", plan.held_out},
            {"parameters", plan.parameters},
            {"steps", plan.steps},
            {"memory_bytes", plan.memory_bytes},
            {"seconds_a_step", plan.seconds_a_step},
            {"seconds", plan.seconds},
            {"left_out", report.left_out},
            {"also_trained", report.also_trained}};
  }
  return {{"model", report.model.string()},
          {"steps", report.steps},
          {"resumed_from", report.resumed_from},
          {"finished", report.finished},
          {"last_loss", report.last_loss},
          {"best_step", report.best_step},
          {"best", std::move(best)},
          {"images_per_second", report.images_per_second},
          {"left_out", report.left_out},
          {"also_trained", report.also_trained}};
}

Result<DualTrainingReport> train_dual(const DualTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop) {
  SACCADE_TRY(check_options(options));
  return nn::without_exceptions("train dual", [&] {
    return train(options, options.threads > 0 ? options.threads : available_processors(), progress, stop);
  });
}

}  // namespace saccade::lab
