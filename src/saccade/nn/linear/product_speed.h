// Measured speed of this processor's matrix products per number format. CPU feature flags are not enough: on
// many processors bfloat16 instructions are slower than float32.
#pragma once

#include "saccade/core/files/safetensors.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {

// Measures the operations per second (two per multiply-add) of a 768 to 768 layer over 256 rows, in kF32,
// kBF16 or kI8. Takes the best of a few runs, about five milliseconds in total on two threads of a 2020
// server. Returns 0 if the processor does not support the format.
double product_speed(DType dtype, Workspace& workspace);

// Returns true if this processor supports products in `dtype`. bfloat16 requires AVX-512 or a later
// instruction set.
bool multiplies(DType dtype);

}  // namespace saccade::nn
