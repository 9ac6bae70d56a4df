// Many heads on one frozen encoder, and the study's tables of them: kinds,
// sizes of the subset, widths, seeds.
//
// A folder holds
//   run.json     what is swept over, and hashes of all that is trained on
//   features/    the features, computed once for all
//   heads/NAME/  each training's own folder (head.h): "mlp-5000-768-1" is an MLP on 5,000
//                pairs, 768 wide, of seed 1
//   run/         the evaluation's run of kind "heads" (docs/runs.md), which a report is made of
// The same command on the same folder goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "lab/train/recipes/train_head.h"

namespace saccade::lab {

struct HeadSweepOptions : HeadTrainingOptions {
  // Each with each. `kind`, `pairs`, `width` and `seed` of the training are not looked at.
  std::vector<HeadKind> kinds = {HeadKind::kLinear, HeadKind::kMlp};
  std::vector<int64_t> sizes = {500, 1000, 2000, 5000};  // pairs
  std::vector<int64_t> widths = {768};                   // of the shared space, and of an MLP's hidden layer
  std::vector<uint64_t> seeds = {1, 2, 3};
};

struct HeadSweepReport {
  int64_t heads = 0;  // in all
  int64_t trained = 0;
  bool finished = false;
  std::vector<std::string> left_out;
  Json metrics = Json::object();  // of the run
  std::filesystem::path run;
};
Json head_sweep_json(const HeadSweepReport& report);

// Errors as train_head's; kUsage where there is nothing to sweep over or nothing is held out to measure on.
Result<HeadSweepReport> sweep_heads(const HeadSweepOptions& options, const ProgressCallback& progress,
                                    std::stop_token stop);

}  // namespace saccade::lab
