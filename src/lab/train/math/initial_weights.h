// Weights that a training begins with in place of random ones.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "lab/train/math/variable.h"

namespace saccade::lab {

// Copies `tensors`, of any float type, into the parameters of the same names. kMismatch, with
// nothing copied, names the tensor that is missing, of another shape or not of floating point.
// `where`: what the tensors are from.
Status begin_with(const TorchMap& tensors, const TorchMap& parameters, const std::string& where);

}  // namespace saccade::lab
