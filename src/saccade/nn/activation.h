// Activation functions that a layer can apply to its output.
#pragma once

#include <string_view>

#include "saccade/core/error.h"

namespace saccade::nn {

enum class Activation {
  kNone,
  kGelu,       // x * Phi(x), by erf
  kQuickGelu,  // x * sigmoid(1.702 x)
  kGeluTanh,   // x * Phi(x), by tanh
  kRelu,       // max(x, 0)
  kSilu,       // x * sigmoid(x)
};

// Returns the activation by its name in a checkpoint's config ("gelu", "gelu_new", ...); kUnsupported lists
// the known ones.
Result<Activation> activation_named(std::string_view name);

// Returns the first of an activation's names; "linear" for none.
std::string_view activation_name(Activation activation);

}  // namespace saccade::nn
