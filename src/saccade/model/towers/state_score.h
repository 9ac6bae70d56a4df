// A score made of a picture's states, as explaining follows it back. For the module's own files.
#pragma once

#include <functional>

#include "saccade/nn/tensor.h"

namespace saccade {

struct StateGradient {
  nn::Tensor change;   // [n, rows, width]: what the score changes with the states
  nn::Tensor weights;  // [n, rows]: what share each row has in the score; those of a picture add up to 1
};
// Of states [n, rows, width] float32.
using StateScore = std::function<StateGradient(const nn::Tensor& states)>;

}  // namespace saccade
