#include "lab/train/recipes/head_sweep.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/rows/given.h"
#include "lab/train/recipes/head_training.h"
#include "saccade/core/counts.h"
#include "saccade/core/rows.h"
#include "saccade/model/checkpoints/build_versions.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeadSweepKind = "train head sweep";
constexpr const char* kPretrained = "pretrained";

struct Cell {
  HeadKind kind = HeadKind::kLinear;
  int64_t pairs = 0;
  int64_t width = 0;

  friend auto operator<=>(const Cell&, const Cell&) = default;
};

std::string words_of(const Cell& cell) {
  return fmt::format("{} on {}, {} wide", enum_name(cell.kind),
                     cell.pairs == 0 ? "all pairs" : counted(cell.pairs, "pair"), cell.width);
}

std::vector<Cell> cells_of(const HeadSweepOptions& options) {
  std::vector<Cell> cells;
  for (const int64_t width : options.widths) {
    for (const int64_t pairs : options.sizes) {
      for (const HeadKind kind : options.kinds) cells.push_back({kind, pairs, width});
    }
  }
  return cells;
}

fs::path folder_of(const HeadSweepOptions& options, const Cell& cell, uint64_t seed) {
  return options.run / "heads" /
         fmt::format("{}-{}-{}-{}", enum_name(cell.kind), cell.pairs, cell.width, seed);
}

HeadTrainingOptions training_of(const HeadSweepOptions& options, const Cell& cell, uint64_t seed) {
  HeadTrainingOptions training = options;
  training.kind = cell.kind;
  training.pairs = cell.pairs;
  training.width = cell.width;
  training.hidden_width = cell.width;
  training.seed = seed;
  training.run = folder_of(options, cell, seed);
  return training;
}

Json describe(const HeadSweepOptions& options, const HeadData& data) {
  Json kinds = Json::array();
  for (const HeadKind kind : options.kinds) kinds.push_back(enum_name(kind));
  Json description = data.description;
  description["kinds"] = std::move(kinds);
  description["sizes"] = options.sizes;
  description["widths"] = options.widths;
  description["seeds"] = options.seeds;
  description["epochs"] = options.epochs;
  description["batch"] = options.batch;
  description["hard_negatives"] = options.hard_negatives;
  describe_optimizer(options, description);
  description["patience"] = options.patience;
  if (options.device != TrainingDevice::kCpu) description["device"] = enum_name(options.device);
  return description;
}

Json protocol(const HeadSweepOptions& options, const HeadData& data) {
  const HeadInput& input = data.config.input;
  std::string words = fmt::format(
      "Projection heads on frozen features ({}): {} trained for every kind, size, width and seed, by symmetric "
      "contrastive loss over batches of {}; the epoch that is kept is the one with the best mean recall on what "
      "is held out. Text to image: {}. Image to text: every image is a query over all texts, and all of its own "
      "are right answers. Equal scores count against the model. Mean recall: the mean of R@1, R@5 and R@10 of both "
      "directions. Intervals: {} resamples of the images with their queries, and of the seeds. ",
      describe(input), counted(std::ssize(options.seeds), "head"), options.batch,
      meaning_of(options.captions), options.bootstrap.resamples);
  words += data.test.empty() ? "Measured on what chose the epoch, which flatters the heads."
                             : "Measured on a set that chose nothing.";
  return {{"description", std::move(words)},
          {"captions", enum_name(options.captions)},
          {"ties", "pessimistic"},
          {"image_states", enum_name(input.images)},
          {"text_states", enum_name(input.texts)},
          {"pooling", enum_name(input.pooling)},
          {"batch", options.batch},
          {"test", !data.test.empty()},
          {"training", describe(options, data)["features_sha256"]}};
}

// Measures all heads on one set.
class SetStudy {
 public:
  // Adds the figures to `metrics`.
  SetStudy(const HeadSweepOptions& options, const HeadData& data, const HeadSet& set, HeadsMetrics& metrics,
           ThreadPool& pool)
      : options_(options), data_(data), set_(set), metrics_(metrics), pool_(pool) {}

  // Measures the models of the study's tables: no head, and a head of each kind on the most pairs, of the
  // first width and seed. Their ranks and embeddings go into the run.
  Status measure(std::vector<RunCheckpoint>& checkpoints, RunWriter& run) {
    SACCADE_TRY(run.add_items(set_.name, set_.task.items));
    metrics_.results.push_back(chance_result(set_.name, set_.task));
    SACCADE_ASSIGN(std::optional<RetrievalOutcome> own, measure_own(set_, options_.bootstrap, pool_));
    if (own) {
      pretrained_ = recall_estimates(*own);
      const auto scores = selected_scores(*set_.own->scores, set_.task.texts, set_.task.images);
      SACCADE_TRY(
          keep(kPretrained, *scores, *own, mean_rows(set_.own->images), mean_rows(set_.own->texts), run));
    }
    for (const Cell& cell : cells_of(options_)) {
      for (const uint64_t seed : options_.seeds) SACCADE_TRY(measure_head(cell, seed, checkpoints, run));
    }
    return {};
  }

  // Compares what was measured.
  Status compare() {
    const double confidence = options_.bootstrap.confidence;
    std::map<Cell, Estimates> means;
    for (const Cell& cell : cells_of(options_)) {
      const std::vector<Estimates>& trainings = estimates_.at(cell);
      SACCADE_ASSIGN(Estimates mean, mean_over_trainings(trainings, options_.bootstrap.seed));
      HeadCell& one = metrics_.cells.emplace_back();
      one.dataset = set_.name;
      one.kind = enum_name(cell.kind);
      one.pairs = pairs_.at(cell);
      one.width = cell.width;
      one.seeds = options_.seeds;
      one.recall = recall_figures(mean, confidence);
      for (const Estimates& training : trainings) one.by_seed.push_back(training.value.back());
      means.emplace(cell, std::move(mean));
    }
    const auto add = [&](const std::string& a_name, const Cell& a, const std::string& b_name,
                         const Estimates& b) -> Status {
      SACCADE_ASSIGN(Verdict verdict, compare_recall(a_name, means.at(a), b_name, b, confidence));
      metrics_.verdicts.push_back({std::move(verdict), set_.name, pairs_.at(a), a.width});
      return {};
    };
    for (const auto& [cell, mean] : means) {
      if (pretrained_) SACCADE_TRY(add(words_of(cell), cell, "no head", *pretrained_));
    }
    for (const auto& [cell, mean] : means) {
      const Cell other{HeadKind::kLinear, cell.pairs, cell.width};
      if (cell.kind == HeadKind::kLinear || !means.contains(other)) continue;
      SACCADE_TRY(add(words_of(cell), cell, words_of(other), means.at(other)));
    }
    if (pretrained_) metrics_.pretrained.push_back({set_.name, recall_figures(*pretrained_, confidence)});
    return {};
  }

 private:
  [[nodiscard]] bool is_shown(const Cell& cell, uint64_t seed) const {
    const int64_t most = std::ranges::count(options_.sizes, 0) > 0 ? 0 : std::ranges::max(options_.sizes);
    return cell.pairs == most && cell.width == options_.widths.front() && seed == options_.seeds.front();
  }

  Status measure_head(const Cell& cell, uint64_t seed, std::vector<RunCheckpoint>& checkpoints,
                      RunWriter& run) {
    if (options_.embed.stop.stop_requested())
      return fail(ErrorCode::kCancelled, "stopped while measuring heads");
    const fs::path folder = folder_of(options_, cell, seed) / "model";
    SACCADE_ASSIGN(const std::unique_ptr<FeatureHead> head,
                   FeatureHead::open(folder, {.threads = pool_.size()}));
    SACCADE_ASSIGN(const HeadRows rows, head_rows(*head, set_));
    SACCADE_ASSIGN(const auto all, dot_scores(rows.texts.view(), rows.images.view()));
    const auto scores = selected_scores(*all, set_.task.texts, set_.task.images);
    SACCADE_ASSIGN(const RetrievalOutcome outcome,
                   evaluate_retrieval(*scores, set_.task, set_.ties, options_.bootstrap, pool_));
    estimates_[cell].push_back(recall_estimates(outcome));
    SACCADE_ASSIGN(const auto pairs, data_.pairs({cell.pairs, seed}, options_.batch));
    pairs_[cell] = std::ssize(pairs);
    if (!is_shown(cell, seed)) return {};
    const std::string name(enum_name(cell.kind));
    if (std::ranges::find(checkpoints, name, &RunCheckpoint::name) == checkpoints.end()) {
      RunCheckpoint checkpoint = data_.frozen;
      checkpoint.name = name;
      checkpoint.path = folder.string();
      checkpoint.fingerprint = head->fingerprint();
      checkpoint.family = "head";
      checkpoint.precision = enum_name(options_.encoder.precision);
      checkpoint.parameters += head->parameters();
      checkpoint.dim = cell.width;
      checkpoints.push_back(std::move(checkpoint));
    }
    return keep(name, *scores, outcome, rows.images.copy(), rows.texts.copy(), run);
  }

  Status keep(const std::string& name, const PairScores& scores, const RetrievalOutcome& outcome,
              const Matrix<float>& images, const Matrix<float>& texts, RunWriter& run) {
    metrics_.results.push_back(retrieval_result(set_.name, name, set_.task, outcome));
    SACCADE_TRY(add_ranks(run, set_.name, name, scores, set_.task, outcome, pool_));
    return run.add_embeddings(
        set_.name, name, select_rows(images.view(), set_.task.images).view(),
        select_rows(texts.view(), set_.task.texts).view(), set_.task.image_of_text,
        {{"rows", name == kPretrained && set_.own->images.late ? "mean" : "single"}, {"checkpoint", name}});
  }

  const HeadSweepOptions& options_;
  const HeadData& data_;
  const HeadSet& set_;
  HeadsMetrics& metrics_;
  ThreadPool& pool_;
  std::optional<Estimates> pretrained_;
  std::map<Cell, std::vector<Estimates>> estimates_;  // by seed
  std::map<Cell, int64_t> pairs_;                     // number of training pairs of a cell's heads
};

Result<HeadsMetrics> write_run(const HeadSweepOptions& options, const HeadData& data, ThreadPool& pool) {
  RunInfo info;
  info.kind = HeadsMetrics::kKind;
  info.saccade = options.version;
  info.command = options.command;
  info.protocol = protocol(options, data);
  info.seed = options.bootstrap.seed;
  info.resamples = options.bootstrap.resamples;
  info.confidence = options.bootstrap.confidence;
  info.machine = this_machine(pool.size());
  for (const auto& [name, version] : library_versions()) info.libraries[std::string(name)] = version;
  for (const HeadSet& set : data.judges()) info.datasets.push_back(set.described);
  // The run lies below the sweep's folder, whose description identifies it, so it may be overwritten.
  SACCADE_ASSIGN(RunWriter run, RunWriter::open(options.run / "run", info, true));
  if (std::ranges::any_of(data.judges(), [](const HeadSet& set) { return set.own != nullptr; })) {
    info.checkpoints.push_back(data.frozen);
    info.checkpoints.back().name = kPretrained;
    if (data.encoder == nullptr) {
      info.checkpoints.back().path = options.features.string();
      info.checkpoints.back().fingerprint = data.features.sha256();
    }
  }
  HeadsMetrics metrics;
  for (const HeadSet& set : data.judges()) {
    SetStudy study(options, data, set, metrics, pool);
    SACCADE_TRY(study.measure(info.checkpoints, run).in(set.name));
    SACCADE_TRY(study.compare());
  }
  SACCADE_TRY(run.finish(info, record_json(metrics)));
  return metrics;
}

Status check_sweep(const HeadSweepOptions& options) {
  SACCADE_TRY(check_head_options(options));
  if (options.kinds.empty() || options.sizes.empty() || options.widths.empty() || options.seeds.empty()) {
    return fail(ErrorCode::kUsage, "a sweep needs a kind, a size, a width and a seed, or more of each");
  }
  if (options.held_out.empty() && options.test.empty()) {
    return fail(ErrorCode::kUsage, "nothing to measure heads on: name --held-out, --test or both");
  }
  return {};
}

Result<HeadSweepReport> sweep(const HeadSweepOptions& options, const ProgressCallback& progress,
                              std::stop_token stop) {
  SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options.run, kHeadSweepKind,
                                                             options.run / "features", options.dry_run));
  ThreadPool pool(options.encoder.threads);
  at::set_num_threads(pool.size());
  std::vector<PairSubset> subsets;
  for (const int64_t size : options.sizes) {
    for (const uint64_t seed : options.seeds) subsets.push_back({size, seed});
  }
  SACCADE_ASSIGN(HeadData data, load_head_data(options, subsets, folder, pool, progress, stop));
  HeadSweepReport report;
  report.left_out = data.left_out;
  report.run = options.run / "run";
  const std::vector<Cell> cells = cells_of(options);
  report.heads = std::ssize(cells) * std::ssize(options.seeds);
  for (const PairSubset& subset : subsets) SACCADE_TRY(data.pairs(subset, options.batch));
  if (options.dry_run) return report;
  SACCADE_TRY(folder.claim(describe(options, data)));
  SACCADE_TRY(data.keep());
  for (const Cell& cell : cells) {
    for (const uint64_t seed : options.seeds) {
      if (stop.stop_requested()) return report;
      const HeadTrainingOptions training = training_of(options, cell, seed);
      const std::string which = fmt::format("{}, seed {}", words_of(cell), seed);
      SACCADE_ASSIGN(TrainingFolder own, TrainingFolder::open(training.run, kHeadTrainingKind, {}, false));
      const ProgressCallback told = [&](const ProgressUpdate& update) {
        if (!progress) return;
        const std::string detail = fmt::format("{} ({} of {})", which, report.trained + 1, report.heads);
        progress({.what = update.what, .done = update.done, .total = update.total, .detail = detail});
      };
      SACCADE_ASSIGN(const TrainedHead trained,
                     train_one_head(training, data, own, pool, told, stop).in(which));
      if (!trained.training.finished) return report;
      ++report.trained;
    }
  }
  SACCADE_ASSIGN(report.metrics, write_run(options, data, pool));
  report.finished = true;
  return report;
}

}  // namespace

Json head_sweep_json(const HeadSweepReport& report) {
  return {{"run", report.run.string()},
          {"heads", report.heads},
          {"trained", report.trained},
          {"finished", report.finished},
          {"cells", record_json(report.metrics.cells)},
          {"pretrained", record_json(report.metrics.pretrained)},
          {"verdicts", record_json(report.metrics.verdicts)},
          {"left_out", report.left_out}};
}

Result<HeadSweepReport> sweep_heads(const HeadSweepOptions& options, const ProgressCallback& progress,
                                    std::stop_token stop) {
  SACCADE_TRY(check_sweep(options));
  return nn::without_exceptions("train head", [&] { return sweep(options, progress, stop); });
}

}  // namespace saccade::lab
