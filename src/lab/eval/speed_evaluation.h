// The evaluation of speed: each checkpoint in each precision, measured in a process that does nothing else.
//
// It is not a Study of evaluation.h. That frame encodes a dataset's pictures through the cache, in the one
// process that measures all checkpoints. Here nothing may come from a cache, a process's memory must be that
// of one checkpoint alone, and what a checkpoint is comes back together with its figures. What the two share
// is how a run is described and written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "lab/eval/evaluation.h"
#include "lab/eval/speed.h"
#include "saccade/model/encoder.h"

namespace saccade::lab {

struct SpeedEvaluationOptions {
  EvaluationOptions evaluation;  // checkpoints, one dataset, how pictures are treated, the run
  std::vector<Precision> precisions = {Precision::kFp32};
  BackendOptions encoder;  // its precision is each of these in turn
  SpeedOptions speed;
  int64_t limit = 128;  // pictures to measure with, the dataset's first; 0: all
};

// One checkpoint in one precision.
struct SpeedTask {
  std::string checkpoint;
  Precision precision = Precision::kFp32;
};

// Measures a task in a process of its own, which calls evaluate_speed() for that task alone.
// The answer is its speed_evaluation_json().
using MeasureElsewhere = std::function<Result<Json>(const SpeedTask& task)>;

// One task is measured in this process, several by `elsewhere`. Errors: kUsage for more or fewer than one
// dataset; those of measure_speed and of loading; kMismatch where the dataset changes meanwhile, or as
// RunWriter; kCancelled when asked to stop between two tasks, and nothing is kept then.
Result<Evaluation> evaluate_speed(const SpeedEvaluationOptions& options, const MeasureElsewhere& elsewhere);

// The run's description, its machine included, and the figures.
Json speed_evaluation_json(const Evaluation& evaluation);

}  // namespace saccade::lab
