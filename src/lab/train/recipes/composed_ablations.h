// Ablations of a composer's training (the study TMCIR, arXiv 2504.10995): the training as it was asked for, and
// the same without one of its parts, or with another in its place. All have the same data, seeds and steps, and
// are compared on the same held-out queries.
//
// A folder holds
//   run.json               the method, the ablations and the seeds; "outcome": the ablations of the run's metrics.json
//   cache/                 the encoder's states, computed once for all
//   stage-one/TARGETS-SEED/  the runs of stage one, each shared by all trainings that begin with it
//   trainings/NAME-SEED/   each training's own folder (train_composed.h): "no-places-1"
//   run/                   the evaluation's run of kind "composed" (docs/runs.md), from which a report is made
// The same command on the same folder resumes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/composed/composed_metrics.h"
#include "lab/train/recipes/train_composed.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

enum class Ablation {
  kNoMerging,
  kNoPlaces,
  kNoFusion,
  kNoStageOne,
  kRealTargets,
  kFrozenTowers,
  kOtherMatching,
  kOtherWeights,
  kOtherPooling,
  kOtherProjection,
  kOtherResidual,
};
std::span<const EnumName<Ablation>> enum_names(Ablation);

// Name of the training without an ablation.
inline constexpr const char* kFullTraining = "full";

struct ComposedAblationOptions : ComposedTrainingOptions {
  std::vector<Ablation> ablations;    // empty: all that change the training
  std::vector<uint64_t> seeds = {1};  // the training's `seed` is ignored
  std::string version;                // version of the program, for the run
  std::vector<std::string> command;   // the same
};

// A training to compare. Its run and seed are not set.
struct AblatedTraining {
  std::string name;
  std::string changed;  // the options that differ, as the command line has them: "--tau 2"
  ComposedTrainingOptions options;
};
// Returns the full training, then its ablations. Returns kUsage for an ablation that changes nothing of this
// training, and if there is none that does.
Result<std::vector<AblatedTraining>> ablated_trainings(const ComposedAblationOptions& options);

struct ComposedAblationReport {
  int64_t trainings = 0;  // in all
  int64_t trained = 0;
  bool finished = false;
  std::vector<std::string> left_out;
  ComposedMetrics metrics;  // of the run
  std::filesystem::path run;
};
// Returns the output of `train composed --ablations --json`.
Json composed_ablation_json(const ComposedAblationReport& report);

// Trains and compares. Measures on `test`, or on `held_out` if that is empty. Errors: those of train_composed
// and of ablated_trainings; kUsage without held-out data or with a seed named twice; kCancelled if `stop` is
// requested while measuring.
Result<ComposedAblationReport> ablate_composed(const ComposedAblationOptions& options,
                                               const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
