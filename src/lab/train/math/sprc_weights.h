// Weights of SPRC's objective (objective.h).
#pragma once

namespace saccade::lab {

// The defaults are those of the published program.
struct SprcWeights {
  double prompt = 0.4;     // of the auxiliary prompt's own retrieval loss
  double alignment = 0.4;  // of the prompts' distance from the auxiliary prompt
};

}  // namespace saccade::lab
