// Sweep of many heads on one frozen encoder, and the study's tables of them: kinds, sizes of the subset,
// widths, seeds.
//
// A folder holds
//   run.json     the swept options, and hashes of all training data
//   features/    the features, computed once for all
//   heads/NAME/  each training's own folder (head.h): "mlp-5000-768-1" is an MLP on 5,000
//                pairs, 768 wide, of seed 1
//   run/         the evaluation's run of kind "heads" (docs/runs.md), from which a report is made
// The same command on the same folder resumes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "lab/eval/head_metrics.h"
#include "lab/train/recipes/train_head.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct HeadSweepOptions : HeadTrainingOptions {
  // Values to combine, each with each. The training's `kind`, `pairs`, `width` and `seed` are ignored.
  std::vector<HeadKind> kinds = {HeadKind::kLinear, HeadKind::kMlp};
  std::vector<int64_t> sizes = {500, 1000, 2000, 5000};  // pairs
  std::vector<int64_t> widths = {768};                   // shared space, and an MLP's hidden layer
  std::vector<uint64_t> seeds = {1, 2, 3};
};

struct HeadSweepReport {
  int64_t heads = 0;  // in all
  int64_t trained = 0;
  bool finished = false;
  std::vector<std::string> left_out;
  HeadsMetrics metrics;  // of the run
  std::filesystem::path run;
};
Json head_sweep_json(const HeadSweepReport& report);

// Runs the sweep. Errors: those of train_head; kUsage if there is nothing to sweep over or no held-out data.
Result<HeadSweepReport> sweep_heads(const HeadSweepOptions& options, const ProgressCallback& progress,
                                    std::stop_token stop);

}  // namespace saccade::lab
