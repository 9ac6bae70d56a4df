// Initial weights of a training, in place of random ones.
#pragma once

#include <string>

#include "lab/train/math/variable.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Copies `tensors`, of any floating type, into the parameters of the same names. kMismatch, with nothing
// copied, names a tensor that is missing, of another shape or not of floating point. `where`: the tensors'
// source, for messages.
Status begin_with(const TorchMap& tensors, const TorchMap& parameters, const std::string& where);

}  // namespace saccade::lab
