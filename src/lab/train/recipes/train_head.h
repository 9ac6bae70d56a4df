// Training projection heads on a frozen encoder (the study of BLIP-2's heads). Features are computed once;
// then a linear layer or an MLP per side is trained with a symmetric contrastive loss.
//
// A run folder holds
//   run.json           options, and hashes of all training data; "outcome": comparisons of the head
//   features/          the features, one file per set (feature_file.h), if they were computed here
//   metrics.jsonl      a line per evaluation: step, loss, held-out recall with intervals
//   state.safetensors  state from which a stopped training resumes exactly
//   model/             the best head so far: a checkpoint (model/families/head.h)
// The same command on the same folder resumes; other data or options are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/train/options/head_options.h"
#include "lab/train/training_summary.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct HeadTrainingReport : TrainingSummary {
  int64_t pairs = 0;   // trained on
  double seconds = 0;  // time of this call's training, without features
  std::vector<std::string> left_out;
  // Outcome by set: {"set", "results": [{"model", figures as RecallOf}], "verdicts": [...]}. Empty while
  // unfinished and without held-out data.
  Json outcome = Json::array();
  std::filesystem::path model;
};
// Returns the output of `train head --json`.
Json head_training_json(const HeadTrainingReport& report);

// Trains a head. When `stop` is requested, it saves its state and returns with `finished` false. Errors,
// before anything is trained: kUsage for fewer pairs than a batch; kBadData for features that are not finite
// or do not fit together; kMismatch for another training's folder or a head of `against` on another encoder.
// A refusal leaves everything unchanged. Cost, once features exist: linear in pairs and epochs.
Result<HeadTrainingReport> train_head(const HeadTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop);

}  // namespace saccade::lab
