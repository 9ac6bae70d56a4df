// Scores of clients' texts and images against one of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "saccade/serve/inputs.h"

namespace saccade::serve {

struct InputScores {
  std::vector<float> scores;  // one an input, a higher one is better
  // Source of the scores: "pairs" (logits of the model's matching head), "late" (mean over the query's rows
  // of their largest cosine) or "rows" (the cosine).
  std::string_view by;
  int64_t tokens = 0;
  int64_t dropped_tokens = 0;
};

// By the best that the model has for all of `inputs`: its matching head where each pair is a picture and a
// text, its rows of late interaction where it gives such, else one row each. Errors as encode_inputs; input 0
// is the query. Cost: a pass a pair by the matching head, a pass an input else.
Result<InputScores> score_inputs(const Context& context, ServedModel& model, Input query,
                                 std::vector<Input> inputs);

}  // namespace saccade::serve
