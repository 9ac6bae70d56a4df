// Figures of a training of visualness, as its metrics.jsonl and run.json have them.
#pragma once

#include <cstdint>

#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Figures of a checkpoint on the validation texts.
struct VisualnessFigures {
  double f1 = 0;
  double precision = 0;
  double recall = 0;
  double accuracy = 0;
  double threshold = 0;  // chosen on these texts; a classifier's is 0.5
  int64_t texts = 0;
  double mrr = 0;  // MRR of each visual text's image among all; NaN without images
  int64_t pictures = 0;
};

Json visualness_figures_json(const VisualnessFigures& figures);
Result<VisualnessFigures> parse_visualness_figures(const Json& json);

}  // namespace saccade::lab
