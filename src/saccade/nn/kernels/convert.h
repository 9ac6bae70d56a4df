// Numbers of one type into another, many at a time.
#pragma once

#include <cstdint>

#include "saccade/core/files/safetensors.h"

namespace saccade::nn {

// `count` numbers, `stride` elements apart on either side. Rounds to nearest even. Between halves, bfloat16,
// float32 and float64; from whole numbers and bools to int64, float32 and float64; and anything into its own
// type. Others throw std::logic_error.
void convert(const void* from, DType from_type, int64_t from_stride, void* to, DType to_type,
             int64_t to_stride, int64_t count);

}  // namespace saccade::nn
