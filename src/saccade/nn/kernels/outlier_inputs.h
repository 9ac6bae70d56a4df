// Detection of outlier channels in the input of layers, from their weights.
#pragma once

#include <vector>

#include "saccade/nn/tensor.h"

namespace saccade::nn {

// Returns the number of outlier inputs of layers that read the same input. An input is an outlier if the norm
// of its weights is between 1/24 and 1/1,000 of the median. In trained models, inputs with large values have
// small weights as a rule (int8_linear.h); an input with almost no weight is dead. weights: each [outputs,
// in], of any floating type. Reads 64 outputs of each.
int64_t outlier_inputs(const std::vector<Tensor>& weights);

// Returns the dtype for the first layers of a tower whose other layers use `dtype`. If these layers read
// outliers, kI8 becomes bfloat16, or float32 on processors without fast bfloat16 products. Releases the pages
// of a mapped checkpoint that were read.
DType packing_of_first(const std::vector<Tensor>& weights, DType dtype);

}  // namespace saccade::nn
