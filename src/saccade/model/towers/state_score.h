// Differentiable score of an image's states, for relevance maps. Internal to the module.
#pragma once

#include <functional>

#include "saccade/nn/tensor.h"

namespace saccade {

struct StateGradient {
  nn::Tensor change;   // [n, rows, width]: what the score changes with the states
  nn::Tensor weights;  // [n, rows]: share of each row in the score; sums to 1 per image
};
// Score function of states [n, rows, width] float32.
using StateScore = std::function<StateGradient(const nn::Tensor& states)>;

}  // namespace saccade
