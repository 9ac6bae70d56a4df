#include "lab/train/recipes/train_visualness.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "lab/data/dataset_json.h"
#include "lab/train/data/visualness_data.h"
#include "lab/train/loop.h"
#include "lab/train/math/device.h"
#include "lab/train/tasks/visualness_task.h"
#include "saccade/core/files/files.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVisualnessGridKind = "train visualness grid";

Status check_options(const VisualnessTrainingOptions& options) {
  if (options.automatic.datasets.empty() && options.human.datasets.empty()) {
    return fail(ErrorCode::kUsage,
                "no texts to train on: name datasets with automatic labels, people's, or both");
  }
  if (options.validation.empty())
    return fail(ErrorCode::kUsage, "no validation texts: the threshold is chosen on them");
  if (options.batch != 0 && options.batch < 2)
    return fail(ErrorCode::kUsage, "batch is {}, expected 2 or more", options.batch);
  for (const VisualnessStage* stage : {&options.automatic, &options.human}) {
    if (!(stage->epochs >= 0 && stage->epochs <= 1e6)) {
      return fail(ErrorCode::kUsage, "{} epochs, expected above 0", stage->epochs);
    }
  }
  if (!options.checkpoint.empty() && !options.config.empty()) {
    return fail(ErrorCode::kUsage,
                "a checkpoint to begin with, and a config to begin from random weights: one of them");
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return fail(ErrorCode::kUsage, "dropout is {}, expected 0 to below 1", options.dropout);
  }
  SACCADE_TRY(check_optimizer_options(options));
  if (options.precision == Precision::kInt8) {
    return fail(ErrorCode::kUsage, "precision int8 is for encoding: training is in fp32 or bf16");
  }
  return check_device(options.device);
}

TrainingLoopOptions loop_options(const VisualnessTrainingOptions& options, const VisualnessData& data,
                                 const VisualnessExamples& stage) {
  TrainingLoopOptions loop;
  static_cast<OptimizerOptions&>(loop) = options;
  const double an_epoch = static_cast<double>(stage.items.size()) / static_cast<double>(data.batch);
  loop.run = options.run / stage.name;
  loop.steps = std::max<int64_t>(1, std::llround(std::ceil(stage.epochs * an_epoch)));
  loop.evaluate_every = std::max<int64_t>(1, std::llround(std::ceil(an_epoch)));
  loop.checkpoint_every = loop.evaluate_every;
  loop.seed = options.seed;
  loop.dry_run = options.dry_run;
  return loop;
}

// Copies the last stage's best checkpoint as the run's result.
Status copy_model(const fs::path& from, const fs::path& to) {
  SACCADE_TRY(make_folders(to));
  std::error_code error;
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
    description["stages"][stage.name] =
        describe_training(description["stages"][stage.name], loop_options(options, data, stage));
  }
  SACCADE_TRY(folder.check_whole(description));
  VisualnessTrainingReport report;
  report.model = options.run / "model";
  fs::path weights = data.checkpoint;
  for (const VisualnessExamples& stage : data.stages) {
    const TrainingLoopOptions loop_with = loop_options(options, data, stage);
    SACCADE_ASSIGN(const std::unique_ptr<VisualnessTask> task,
                   data.classifier ? make_classifier_task(options, data, stage, weights)
                                   : make_null_picture_task(options, data, stage, weights, pool));
    if (&stage == data.stages.data()) {
      SACCADE_ASSIGN(report.before, task->measure());
      if (!options.dry_run) SACCADE_TRY(folder.claim(description));  // invalid input writes nothing
    }
    VisualnessStageReport& of_stage = report.stages.emplace_back();
    of_stage.name = stage.name;
    of_stage.visual = stage.count(true);
    of_stage.non_visual = stage.count(false);
    of_stage.excluded = stage.excluded;
    if (options.dry_run) continue;
    Json own = data.description["stages"][stage.name];
    own["kind"] = kVisualnessStageKind;
    own["training"] = folder.description_hash();
    own["initial_weights"] = "random";
    if (!weights.empty()) {
      SACCADE_ASSIGN(own["initial_weights"], checkpoint_fingerprint(weights));
    }
    SACCADE_ASSIGN(TrainingFolder stage_folder,
                   TrainingFolder::open(loop_with.run, kVisualnessStageKind, loop_with.run / "cache", false));
    TrainingLoop loop(*task, loop_with, stage_folder, own);
    SACCADE_TRY(loop.begin().in(stage.name));
    SACCADE_ASSIGN(const TrainingOutcome outcome, loop.run(progress, stop).in(stage.name));
    of_stage.steps = outcome.steps;
    of_stage.best_step = outcome.best_step;
    of_stage.last_loss = outcome.last_loss;
    if (outcome.best_step > 0) {
      SACCADE_ASSIGN(of_stage.best, parse_visualness_figures(outcome.best));
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

Json visualness_training_json(const VisualnessTrainingReport& report) {
  Json stages = Json::array();
  for (const VisualnessStageReport& stage : report.stages) {
    stages.push_back({{"name", stage.name},
                      {"visual", stage.visual},
                      {"non_visual", stage.non_visual},
                      {"excluded", exclusions_json(stage.excluded)},
                      {"steps", stage.steps},
                      {"best_step", stage.best_step},
                      {"last_loss", stage.last_loss},
                      {"validation", stage.best_step > 0 ? visualness_figures_json(stage.best) : Json()}});
  }
  return {{"model", report.model.string()},
          {"finished", report.finished},
          {"before", visualness_figures_json(report.before)},
          {"stages", std::move(stages)}};
}

Result<VisualnessTrainingReport> train_visualness(const VisualnessTrainingOptions& options,
                                                  const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_options(options));
  return nn::without_exceptions(kVisualnessKind, [&] {
    return train(options, options.threads > 0 ? options.threads : available_processors(), progress, stop);
  });
}

Json visualness_grid_json(const VisualnessGridReport& report) {
  Json grid = Json::array();
  for (const VisualnessGridPoint& point : report.points) {
    Json training = visualness_training_json(point.report);
    training["learning_rate"] = point.learning_rate;
    grid.push_back(std::move(training));
  }
  return {{"model", report.model.string()},
          {"finished", report.finished},
          {"learning_rate", report.finished ? Json(report.points[report.best].learning_rate) : Json()},
          {"grid", std::move(grid)}};
}

Result<VisualnessGridReport> search_learning_rates(const VisualnessTrainingOptions& options,
                                                   std::span<const double> learning_rates,
                                                   const ProgressCallback& progress, std::stop_token stop) {
  if (learning_rates.empty()) return fail(ErrorCode::kUsage, "no learning rates to try");
  std::vector<VisualnessTrainingOptions> trainings;
  for (const double rate : learning_rates) {
    VisualnessTrainingOptions& training = trainings.emplace_back(options);
    training.learning_rate = rate;
    training.run = options.run / fmt::format("rate-{}", rate);
    if (std::ranges::count(learning_rates, rate) > 1) {
      return fail(ErrorCode::kUsage, "learning rate {} is given twice", rate);
    }
  }
  VisualnessGridReport report;
  report.model = options.run / "model";
  SACCADE_ASSIGN(TrainingFolder folder,
                 TrainingFolder::open(options.run, kVisualnessGridKind, {}, options.dry_run));
  const Json description = {
      {"kind", kVisualnessGridKind},
      {"learning_rates", std::vector<double>(learning_rates.begin(), learning_rates.end())}};
  SACCADE_TRY(folder.check_whole(description));
  std::error_code ignored;
  if (options.dry_run || !fs::exists(options.run / "run.json", ignored)) {
    // Invalid input writes nothing, so the first training is checked before the folder is claimed.
    VisualnessTrainingOptions first = trainings.front();
    first.dry_run = true;
    SACCADE_ASSIGN(VisualnessTrainingReport checked, train_visualness(first, progress, stop));
    if (options.dry_run) {
      report.points.push_back({first.learning_rate, std::move(checked)});
      return report;
    }
  }
  SACCADE_TRY(folder.claim(description));
  for (const VisualnessTrainingOptions& training : trainings) {
    SACCADE_ASSIGN(VisualnessTrainingReport trained,
                   train_visualness(training, progress, stop)
                       .in(fmt::format("learning rate {}", training.learning_rate)));
    report.points.push_back({training.learning_rate, std::move(trained)});
    if (!report.points.back().report.finished) return report;
  }
  const auto f1_of = [](const VisualnessGridPoint& point) { return point.report.stages.back().best.f1; };
  report.best =
      static_cast<size_t>(std::ranges::max_element(report.points, {}, f1_of) - report.points.begin());
  SACCADE_TRY(copy_model(report.points[report.best].report.model, report.model));
  SACCADE_TRY(folder.conclude({{"learning_rate", report.points[report.best].learning_rate},
                               {"f1", f1_of(report.points[report.best])}}));
  report.finished = true;
  return report;
}

}  // namespace saccade::lab
