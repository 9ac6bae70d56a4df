// Training an editor (lab/editor/editor.h) on edit queries: reference, text and the true target, by flow
// matching.
//
// A run folder holds
//   run.json           options, and hashes of all training data
//   metrics.jsonl      a line per evaluation: step, loss, held-out loss beside that of
//                      returning the reference unchanged
//   state.safetensors  state from which a stopped training resumes exactly
//   model/             the best editor so far: a checkpoint
//   cache/             decoded images, if no other folder is given for them
// The same command on the same folder resumes; other data or options are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/train/options/editor_options.h"
#include "lab/train/training_summary.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct EditorTrainingReport : TrainingSummary {
  Json best = Json::array();  // "held_out" of the editor in model/
  int64_t queries = 0;        // trained on
  int64_t texts = 0;          // different ones, trained on or scored
  int64_t cut = 0;            // number longer than the editor's maximum
  int64_t parameters = 0;
  double examples_per_second = 0;     // rate of this call
  std::vector<std::string> left_out;  // images that could not be decoded
  std::filesystem::path model;
};
// Returns the output of `train editor --json`.
Json editor_training_json(const EditorTrainingReport& report);

// Trains an editor. When `stop` is requested, it saves its state and returns with `finished` false. Errors:
// kUsage for datasets of another kind and for fewer queries than a batch; kMismatch for another training's
// folder. An error of these leaves everything unchanged. Memory: 4 side^2 bytes per image, mapped, and the
// states of all distinct texts.
Result<EditorTrainingReport> train_editor(const EditorTrainingOptions& options,
                                          const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
