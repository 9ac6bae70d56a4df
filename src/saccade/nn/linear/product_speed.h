// Number formats of this processor's matrix products.
#pragma once

#include "saccade/core/files/safetensors.h"

namespace saccade::nn {

// Returns true if this processor supports products in `dtype`. bfloat16 requires AVX-512 or a later
// instruction set.
bool multiplies(DType dtype);

}  // namespace saccade::nn
