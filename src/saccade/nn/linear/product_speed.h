// How fast this processor multiplies, in one number format or another: measured, as what it says it can do
// does not tell (many have instructions for bfloat16 that are slower than float32's).
#pragma once

#include "saccade/core/files/safetensors.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {

// Operations a second (two for each multiplication and sum) of a layer of 768 to 768 over 256 rows, in
// kF32, kBF16 or kI8: the best of a few, some five milliseconds altogether on two threads of 2020's
// servers. 0 where the processor cannot.
double product_speed(DType dtype, Workspace& workspace);

// Whether this processor has such products at all: those of bfloat16 are made for
// AVX-512 and what came after it.
bool multiplies(DType dtype);

}  // namespace saccade::nn
