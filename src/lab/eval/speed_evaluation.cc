#include "lab/eval/speed_evaluation.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/threads.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

// Result of one process.
struct Measured {
  RunDataset dataset;
  RunCheckpoint checkpoint;
  SpeedRecord result;
};

Json protocol_of(const SpeedEvaluationOptions& options) {
  const SpeedOptions& speed = options.speed;
  const char* waiting = std::getenv("OMP_WAIT_POLICY");  // NOLINT(concurrency-mt-unsafe)
  Json json = {{"description", speed_words(speed, options.limit)},
               {"device", options.encoder.device},
               {"batch", speed.batch},
               {"repeats", speed.repeats},
               {"warm_up", speed.warm_up},
               {"limit", options.limit},
               {"queries", speed.queries},
               {"gallery", speed.gallery},
               {"answers", speed.answers},
               {"candidates", speed.candidates},
               {"transparent", enum_name(options.evaluation.embed.transparency)},
               {"wait_policy", waiting == nullptr ? Json() : Json(waiting)}};
  if (speed.benchmark) json["benchmark"] = true;
  return json;
}

Result<Measured> parse_measured(const Json& json) {
  SACCADE_ASSIGN(RunInfo info, parse_run_info(json));
  SACCADE_ASSIGN(SpeedMetrics metrics, read_record<SpeedMetrics>(json));
  if (info.datasets.size() != 1 || info.checkpoints.size() != 1 || metrics.results.size() != 1) {
    return fail(ErrorCode::kInternal, "its process answered with {} datasets and {} checkpoints",
                info.datasets.size(), info.checkpoints.size());
  }
  return Measured{std::move(info.datasets.front()), std::move(info.checkpoints.front()),
                  std::move(metrics.results.front())};
}

class SpeedEvaluation {
 public:
  explicit SpeedEvaluation(const SpeedEvaluationOptions& options) : options_(options) {}

  Result<Evaluation> run(const MeasureElsewhere& elsewhere) {
    SACCADE_TRY(prepare());
    std::optional<RunWriter> writer;
    if (!options_.evaluation.run.empty()) {
      SACCADE_ASSIGN(writer, RunWriter::open(options_.evaluation.run, info_, options_.evaluation.overwrite));
    }
    SACCADE_TRY(measure_all(elsewhere));
    SACCADE_TRY(gather());
    Evaluation evaluation;
    evaluation.metrics = record_json(metrics_);
    if (writer) SACCADE_TRY(writer->finish(info_, evaluation.metrics));
    evaluation.info = std::move(info_);
    return evaluation;
  }

 private:
  // Prepares everything that does not need a loaded checkpoint.
  Status prepare() {
    const std::vector<std::string>& given = options_.evaluation.datasets;
    if (given.size() != 1) {
      return fail(ErrorCode::kUsage, "one dataset is measured with, {} are given", given.size());
    }
    precisions_ = options_.precisions;
    std::ranges::sort(precisions_);  // fp32 first
    precisions_.erase(std::unique(precisions_.begin(), precisions_.end()), precisions_.end());
    SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(given));
    inputs_ = speed_inputs(datasets.front().dataset, options_.limit);
    EvaluationOptions described = options_.evaluation;
    described.bootstrap.seed = options_.speed.seed;
    described.bootstrap.resamples = 0;
    threads_ = options_.encoder.threads > 0 ? options_.encoder.threads : available_processors();
    info_ = describe_run(SpeedMetrics::kKind, described, protocol_of(options_), threads_);
    RunDataset& dataset = info_.datasets.emplace_back(describe_dataset(datasets.front()));
    dataset.images = std::ssize(inputs_.images);
    dataset.texts = std::ssize(inputs_.texts);
    // This also brings the weights into the system's page cache, so that loading from disk is never timed.
    SACCADE_ASSIGN(const std::vector<RunCheckpoint> asked,
                   asked_checkpoints(described, located_checkpoints(options_.encoder)));
    for (size_t i = 0; i < described.checkpoints.size(); ++i) {
      for (const Precision precision : precisions_) {
        tasks_.push_back({described.checkpoints[i], precision});
        info_.checkpoints.push_back(asked[i]);
        info_.checkpoints.back().precision = enum_name(precision);
      }
    }
    return {};
  }

  Status measure_all(const MeasureElsewhere& elsewhere) {
    if (tasks_.size() == 1) {
      SACCADE_ASSIGN(Measured measured, measure_here(tasks_.front()));
      measured_.push_back(std::move(measured));
      return {};
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const Result<Json> answer = elsewhere(tasks_[i]);
      if (options_.speed.stop.stop_requested()) {
        return fail(ErrorCode::kCancelled, "stopped after {} of {} measurements: nothing is kept", i,
                    tasks_.size());
      }
      if (!answer) return fail(answer.error());
      SACCADE_ASSIGN(Measured measured, parse_measured(*answer).in(tasks_[i].checkpoint));
      measured_.push_back(std::move(measured));
    }
    return {};
  }

  Result<Measured> measure_here(const SpeedTask& task) {
    const SpeedClock clock = monotonic_clock();
    ThreadPool pool(threads_);
    BackendOptions encoder = options_.encoder;
    encoder.precision = task.precision;
    const ProcessMemory before = process_memory();
    const double begin = clock();
    SACCADE_ASSIGN(const LoadedEncoder loaded, load_checkpoint(task.checkpoint, encoder));
    const double load_seconds = clock() - begin;
    const ProcessMemory after = process_memory();

    SpeedOptions speed = options_.speed;
    speed.transparency = options_.evaluation.embed.transparency;
    speed.processes = options_.evaluation.embed.processes;
    speed.progress_detail = fmt::format("{}, {}", loaded.id.name, enum_name(task.precision));
    SACCADE_ASSIGN(const SpeedResult result,
                   measure_speed(*loaded.encoder, inputs_, speed, pool, clock).in(loaded.id.name));
    Measured measured;
    measured.dataset = info_.datasets.front();
    measured.dataset.images_sha256 = result.images_sha256;
    measured.checkpoint = describe_checkpoint(loaded);
    measured.result = speed_record(result);
    measured.result.dataset = measured.dataset.name;
    measured.result.model = measured.checkpoint.name;
    measured.result.precision = enum_name(task.precision);
    measured.result.load_s = load_seconds;
    measured.result.before_load_bytes = before.resident_bytes;
    measured.result.after_load_bytes = after.resident_bytes;
    measured.result.peak_load_bytes = after.peak_bytes;
    measured.result.peak_bytes = process_memory().peak_bytes;
    return measured;
  }

  // Gathers all measurements, under unique names.
  Status gather() {
    std::vector<std::string> names;
    for (const Measured& one : measured_) {
      names.push_back(precisions_.size() > 1
                          ? fmt::format("{}-{}", one.checkpoint.name, one.checkpoint.precision)
                          : one.checkpoint.name);
    }
    make_unique(names);
    RunDataset& dataset = info_.datasets.front();
    info_.checkpoints.clear();
    for (size_t i = 0; i < measured_.size(); ++i) {
      Measured& one = measured_[i];
      const bool same = one.dataset.sha256 == dataset.sha256 &&
                        (dataset.images_sha256.empty() || one.dataset.images_sha256.empty() ||
                         one.dataset.images_sha256 == dataset.images_sha256);
      if (!same) {
        return fail(ErrorCode::kMismatch, "dataset {} has changed while it was measured with", dataset.name);
      }
      if (dataset.images_sha256.empty()) dataset.images_sha256 = one.dataset.images_sha256;
      one.checkpoint.name = names[i];
      one.result.model = names[i];
      info_.checkpoints.push_back(one.checkpoint);
      metrics_.results.push_back(one.result);
    }
    return {};
  }

  const SpeedEvaluationOptions& options_;
  std::vector<Precision> precisions_;
  int threads_ = 0;
  RunInfo info_;
  SpeedInputs inputs_;
  std::vector<SpeedTask> tasks_;
  std::vector<Measured> measured_;
  SpeedMetrics metrics_;
};

}  // namespace

Result<Evaluation> evaluate_speed(const SpeedEvaluationOptions& options, const MeasureElsewhere& elsewhere) {
  return SpeedEvaluation(options).run(elsewhere);
}

Json speed_evaluation_json(const Evaluation& evaluation) {
  Json json = run_json(evaluation.info);
  json.update(evaluation.metrics);
  return json;
}

}  // namespace saccade::lab
