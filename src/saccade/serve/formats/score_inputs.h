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

// Scores `inputs` against input 0, the query, by the best method that the model has for all of them: its
// matching head if each pair is an image and a text, else its late interaction rows if it has them, else one
// row each. Errors as encode_inputs. Cost: a pass a pair with the matching head, otherwise a pass an input.
Result<InputScores> score_inputs(const Context& context, ServedModel& model, Input query,
                                 std::vector<Input> inputs);

}  // namespace saccade::serve
