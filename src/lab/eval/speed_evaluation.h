// The evaluation of speed: each checkpoint in each precision, measured in a process that does nothing else.
//
// It is not a Study of evaluation.h. The framework there encodes a dataset's images through the cache, in
// the one process that measures all checkpoints. Here nothing may come from a cache, and a process's memory
// must be that of one checkpoint alone. A checkpoint's description comes back together with its figures. The
// two share the description and the writing of runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/speed.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

struct SpeedEvaluationOptions {
  EvaluationOptions evaluation;  // checkpoints, one dataset, image preprocessing, the run
  std::vector<Precision> precisions = {Precision::kFp32};
  BackendOptions encoder;  // its precision is each of these in turn
  SpeedOptions speed;
  int64_t limit = 128;  // images to measure with, the dataset's first; 0: all
};

// One checkpoint in one precision.
struct SpeedTask {
  std::string checkpoint;
  Precision precision = Precision::kFp32;
};

// Measures a task in a separate process, which calls evaluate_speed() for that task alone. Returns its
// speed_evaluation_json().
using MeasureElsewhere = std::function<Result<Json>(const SpeedTask& task)>;

// Evaluates speed. A single task is measured in this process, several by `elsewhere`. Errors: kUsage for more
// or fewer than one dataset; those of measure_speed and of loading; kMismatch if the dataset changes
// meanwhile, or as RunWriter; kCancelled when asked to stop between two tasks, and nothing is then kept.
Result<Evaluation> evaluate_speed(const SpeedEvaluationOptions& options, const MeasureElsewhere& elsewhere);

// Returns the run's description, machine included, and the figures.
Json speed_evaluation_json(const Evaluation& evaluation);

}  // namespace saccade::lab
