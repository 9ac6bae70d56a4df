#include "lab/train/recipes/composed_ablations.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/composed/composed_study.h"
#include "lab/train/training_folder.h"
#include "saccade/nn/exceptions.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAblationKind = "train composed ablations";
constexpr double kNothingMerges = 2;  // tau

// Each returns the options that it changed, or nothing if it does not change the training.
using AblationChange = std::string (*)(ComposedTrainingOptions& options);

// Fusions read tokens unless their pooling is none.
bool reads_tokens(const ComposedTrainingOptions& options) {
  return options.method == "atf" && options.atf.pooling != AtfPooling::kNone;
}

bool merges(const ComposedTrainingOptions& options) {
  return reads_tokens(options) && options.atf.merge.tau <= 1;
}

template <typename E>
std::string changed_to(const char* option, E& value, E to) {
  value = to;
  return fmt::format("{} {}", option, enum_name(to));
}

std::string no_merging(ComposedTrainingOptions& options) {
  if (!merges(options)) return {};
  options.atf.merge.tau = kNothingMerges;
  return fmt::format("--tau {:g}", kNothingMerges);
}

std::string no_places(ComposedTrainingOptions& options) {
  if (!reads_tokens(options) || options.atf.places == AtfPlaces::kNone) return {};
  return changed_to("--places", options.atf.places, AtfPlaces::kNone);
}

std::string no_fusion(ComposedTrainingOptions& options) {
  if (!reads_tokens(options)) return {};
  return changed_to("--pooling", options.atf.pooling, AtfPooling::kNone);
}

// Resets the options that are for trained towers if the ablation trains none.
void forget_towers_options(ComposedTrainingOptions& options) {
  if (options.align != AlignTargets::kNone || options.towers != TrainedTowers::kNone) return;
  options.accumulate = 1;
  options.checkpoint_activations = false;
}

std::string no_stage_one(ComposedTrainingOptions& options) {
  if (options.align == AlignTargets::kNone) return {};
  options.pseudo_targets.clear();
  options.min_cosine = std::nullopt;
  std::string changed = changed_to("--align", options.align, AlignTargets::kNone);
  forget_towers_options(options);
  return changed;
}

std::string real_targets(ComposedTrainingOptions& options) {
  if (options.align != AlignTargets::kPseudo) return {};
  options.pseudo_targets.clear();
  options.min_cosine = std::nullopt;
  return changed_to("--align", options.align, AlignTargets::kReal);
}

std::string frozen_towers(ComposedTrainingOptions& options) {
  // A sum of a frozen encoder's embeddings has nothing to be trained.
  if (options.towers == TrainedTowers::kNone || options.method == "sum") return {};
  std::string changed = changed_to("--towers", options.towers, TrainedTowers::kNone);
  forget_towers_options(options);
  return changed;
}

std::string other_matching(ComposedTrainingOptions& options) {
  if (!merges(options)) return {};
  MergeMatching& matching = options.atf.merge.matching;
  return changed_to("--matching", matching,
                    matching == MergeMatching::kAll ? MergeMatching::kMutual : MergeMatching::kAll);
}

std::string other_weights(ComposedTrainingOptions& options) {
  if (!merges(options)) return {};
  MergeWeights& weights = options.atf.merge.weights;
  return changed_to("--merge-weights", weights,
                    weights == MergeWeights::kEqual ? MergeWeights::kSimilarity : MergeWeights::kEqual);
}

std::string other_pooling(ComposedTrainingOptions& options) {
  if (!reads_tokens(options)) return {};
  AtfPooling& pooling = options.atf.pooling;
  return changed_to("--pooling", pooling,
                    pooling == AtfPooling::kMean ? AtfPooling::kAsked : AtfPooling::kMean);
}

std::string other_projection(ComposedTrainingOptions& options) {
  if (options.method != "atf") return {};
  AtfProjection& projection = options.atf.projection;
  const bool linear = projection == AtfProjection::kLinear;
  if (!linear) {
    // Nothing would read them.
    options.atf.hidden_width = 0;
    options.dropout = std::nullopt;
  }
  return changed_to("--projection", projection, linear ? AtfProjection::kMlp : AtfProjection::kLinear);
}

std::string other_residual(ComposedTrainingOptions& options) {
  // The Combiner has but one.
  if (options.method != "atf" || options.atf.projection == AtfProjection::kCombiner) return {};
  AtfResidual& residual = options.atf.residual;
  return changed_to("--residual", residual,
                    residual == AtfResidual::kNone ? AtfResidual::kSum : AtfResidual::kNone);
}

constexpr std::array<std::pair<Ablation, AblationChange>, 11> kChanges = {
    {{Ablation::kNoMerging, no_merging},
     {Ablation::kNoPlaces, no_places},
     {Ablation::kNoFusion, no_fusion},
     {Ablation::kNoStageOne, no_stage_one},
     {Ablation::kRealTargets, real_targets},
     {Ablation::kFrozenTowers, frozen_towers},
     {Ablation::kOtherMatching, other_matching},
     {Ablation::kOtherWeights, other_weights},
     {Ablation::kOtherPooling, other_pooling},
     {Ablation::kOtherProjection, other_projection},
     {Ablation::kOtherResidual, other_residual}}};

// Returns `nullopt` if the ablation changes nothing.
std::optional<AblatedTraining> ablated(const ComposedTrainingOptions& options, Ablation ablation) {
  AblatedTraining one{.name = std::string(enum_name(ablation)), .changed = {}, .options = options};
  one.changed =
      std::ranges::find(kChanges, ablation, &std::pair<Ablation, AblationChange>::first)->second(one.options);
  if (one.changed.empty()) return std::nullopt;
  return one;
}

Status check_ablation_options(const ComposedAblationOptions& options) {
  if (options.held_out.empty() && options.test.empty()) {
    return fail(ErrorCode::kUsage, "nothing to measure ablations on: name --held-out, --test or both");
  }
  if (options.seeds.empty()) return fail(ErrorCode::kUsage, "no seed given");
  std::vector<uint64_t> seeds = options.seeds;
  std::ranges::sort(seeds);
  if (const auto twice = std::ranges::adjacent_find(seeds); twice != seeds.end()) {
    return fail(ErrorCode::kUsage, "seed {} is named twice", *twice);
  }
  return {};
}

fs::path folder_of(const ComposedAblationOptions& options, const AblatedTraining& training, uint64_t seed) {
  return options.run / "trainings" / fmt::format("{}-{}", training.name, seed);
}

ComposedTrainingOptions training_of(const ComposedAblationOptions& options, const AblatedTraining& training,
                                    uint64_t seed) {
  ComposedTrainingOptions one = training.options;
  one.seed = seed;
  one.run = folder_of(options, training, seed);
  if (one.cache.empty()) one.cache = options.run / "cache";
  one.stage_one = options.run / "stage-one" / fmt::format("{}-{}", enum_name(one.align), seed);
  return one;
}

Json describe(const ComposedAblationOptions& options, std::span<const AblatedTraining> trainings) {
  Json names = Json::array();
  for (const AblatedTraining& each : trainings) names.push_back(each.name);
  return {{"kind", kAblationKind},
          {"method", options.method},
          {"trainings", std::move(names)},
          {"seeds", options.seeds}};
}

Result<ComposedMetrics> measure_trainings(const ComposedAblationOptions& options,
                                          std::span<const AblatedTraining> trainings,
                                          const ProgressCallback& progress, std::stop_token stop) {
  ComposedOptions composed;
  composed.methods = {ComposeBy::kReference, ComposeBy::kText, ComposeBy::kSum};
  for (const AblatedTraining& each : trainings) {
    ComposedVariant& variant = composed.variants.emplace_back();
    variant.name = each.name;
    variant.changed = each.changed;
    variant.seeds = options.seeds;
    for (const uint64_t seed : options.seeds) {
      variant.composers.push_back(folder_of(options, each, seed) / "fuse" / "model");
    }
  }
  EvaluationOptions evaluation;
  evaluation.datasets = options.test.empty() ? options.held_out : options.test;
  evaluation.precisions = {options.encoder.precision};
  evaluation.leave_out = true;  // as the trainings do
  evaluation.embed = options.embed;
  evaluation.embed.progress = progress;
  evaluation.embed.stop = std::move(stop);
  evaluation.bootstrap = options.bootstrap;
  evaluation.run = options.run / "run";
  // The run lies below the folder, whose description identifies it, so it may be overwritten.
  evaluation.overwrite = true;
  evaluation.version = options.version;
  evaluation.command = options.command;
  ThreadPool pool(options.encoder.threads);
  SACCADE_ASSIGN(const Evaluation measured,
                 evaluate_composed(composed, std::move(evaluation), options.encoder, pool));
  return read_record<ComposedMetrics>(measured.metrics);
}

Result<ComposedAblationReport> ablate(const ComposedAblationOptions& options,
                                      const ProgressCallback& progress, std::stop_token stop) {
  SACCADE_TRY(check_ablation_options(options));
  SACCADE_ASSIGN(const std::vector<AblatedTraining> trainings, ablated_trainings(options));
  for (const AblatedTraining& each : trainings) {
    SACCADE_TRY(check_composed_options(each.options).in(each.name));
  }
  ComposedAblationReport report;
  report.trainings = std::ssize(trainings) * std::ssize(options.seeds);
  report.run = options.run / "run";
  const fs::path cache = options.cache.empty() ? options.run / "cache" : options.cache;
  SACCADE_ASSIGN(TrainingFolder folder,
                 TrainingFolder::open(options.run, kAblationKind, cache, options.dry_run));
  const Json description = describe(options, trainings);
  SACCADE_TRY(folder.check_whole(description));
  // Data and options are checked before anything is written.
  ComposedTrainingOptions dry = training_of(options, trainings.front(), options.seeds.front());
  dry.dry_run = true;
  SACCADE_TRY(train_composed(dry, {}, stop));
  if (options.dry_run) return report;
  SACCADE_TRY(folder.claim(description));
  for (const uint64_t seed : options.seeds) {
    for (const AblatedTraining& each : trainings) {
      if (stop.stop_requested()) return report;
      const std::string which = fmt::format("{}, seed {}", each.name, seed);
      const ProgressCallback told = [&](const ProgressUpdate& update) {
        if (!progress) return;
        const std::string detail = fmt::format("{} ({} of {})", which, report.trained + 1, report.trainings);
        progress({.what = update.what, .done = update.done, .total = update.total, .detail = detail});
      };
      SACCADE_ASSIGN(ComposedTrainingReport trained,
                     train_composed(training_of(options, each, seed), told, stop).in(which));
      report.left_out = std::move(trained.left_out);
      if (!trained.finished) return report;
      ++report.trained;
    }
  }
  SACCADE_ASSIGN(report.metrics, measure_trainings(options, trainings, progress, stop));
  SACCADE_TRY(folder.conclude(record_json(report.metrics.ablations)));
  report.finished = true;
  return report;
}

}  // namespace

std::span<const EnumName<Ablation>> enum_names(Ablation) {
  static constexpr std::array<EnumName<Ablation>, 11> kNames{
      {{Ablation::kNoMerging, "no-merging", "no pair of tokens is merged"},
       {Ablation::kNoPlaces, "no-places", "tokens have no position encoding"},
       {Ablation::kNoFusion, "no-fusion", "the sum of both embeddings in place of the tokens"},
       {Ablation::kNoStageOne, "no-stage-one", "stage one is left out"},
       {Ablation::kRealTargets, "real-targets", "stage one has the real targets in place of pseudo-targets"},
       {Ablation::kFrozenTowers, "frozen-towers", "stage two trains the composer alone"},
       {Ablation::kOtherMatching, "other-matching",
        "all pairs are merged, or mutually nearest tokens if all were"},
       {Ablation::kOtherWeights, "other-weights",
        "merged tokens have equal weights, or by similarity if they were equal"},
       {Ablation::kOtherPooling, "other-pooling", "the mean of the tokens, or attention if it was the mean"},
       {Ablation::kOtherProjection, "other-projection", "one layer, or an MLP if it was one layer"},
       {Ablation::kOtherResidual, "other-residual",
        "no sum of both embeddings is added, or it is if it was not"}}};
  return kNames;
}

Result<std::vector<AblatedTraining>> ablated_trainings(const ComposedAblationOptions& options) {
  if (options.method == "none") {
    return fail(ErrorCode::kUsage, "method none trains no composer, so that it has no ablations");
  }
  std::vector<AblatedTraining> trainings;
  trainings.push_back({.name = kFullTraining, .changed = {}, .options = options});
  for (const auto& [ablation, change] : kChanges) {
    const bool named = std::ranges::find(options.ablations, ablation) != options.ablations.end();
    if (!named && !options.ablations.empty()) continue;
    if (std::optional<AblatedTraining> one = ablated(options, ablation)) {
      trainings.push_back(*std::move(one));
    } else if (named) {
      return fail(ErrorCode::kUsage, "ablation {} ({}) changes nothing of this training", enum_name(ablation),
                  meaning_of(ablation));
    }
  }
  if (trainings.size() < 2) {
    return fail(ErrorCode::kUsage,
                "no ablation changes this training: method {} over a frozen encoder, without stage one",
                options.method);
  }
  return trainings;
}

Json composed_ablation_json(const ComposedAblationReport& report) {
  return {{"run", report.run.string()},
          {"trainings", report.trainings},
          {"trained", report.trained},
          {"finished", report.finished},
          {"ablations", record_json(report.metrics.ablations)},
          {"left_out", report.left_out}};
}

Result<ComposedAblationReport> ablate_composed(const ComposedAblationOptions& options,
                                               const ProgressCallback& progress, std::stop_token stop) {
  return nn::without_exceptions("train composed", [&] { return ablate(options, progress, stop); });
}

}  // namespace saccade::lab
