// Whether layers read channels that are many times as large as the others, as their weights tell.
#pragma once

#include <vector>

#include "saccade/nn/tensor.h"

namespace saccade::nn {

// Of layers that read the same input, for how many of its values their weights are between 1/24 and 1/1,000
// of the length that is usual (the median's). An input that is large as a rule has small weights in trained
// models (int8_linear.h); one that has next to none is dead. weights: each [outputs, in], of any floating
// type. Reads 64 outputs of each.
int64_t outlier_inputs(const std::vector<Tensor>& weights);

// What the first layers of a tower are packed in where the others are in `dtype`: 8-bit integers give way to
// bfloat16, or to float32 where products in it are not fast, if these layers read outliers. Memory of a
// mapped checkpoint that was read on the way is given back.
DType packing_of_first(const std::vector<Tensor>& weights, DType dtype);

}  // namespace saccade::nn
