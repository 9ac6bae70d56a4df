// Conversion of arrays between number types.
#pragma once

#include <cstdint>

#include "saccade/core/files/safetensors.h"

namespace saccade::nn {

// Converts `count` numbers, with strides in elements on both sides. Rounds to nearest even. Supports halves,
// bfloat16, float32 and float64 in all combinations; integers and bools to int64, float32 and float64; and
// any type to itself. Other combinations throw std::logic_error.
void convert(const void* from, DType from_type, int64_t from_stride, void* to, DType to_type,
             int64_t to_stride, int64_t count);

}  // namespace saccade::nn
