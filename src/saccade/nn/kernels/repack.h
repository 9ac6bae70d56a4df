// Weights into the layout that products want, on a forward pass's own threads.
#pragma once

#include "saccade/nn/tensor.h"

#include <dnnl.hpp>

namespace saccade::nn {

// weight: [out, in] of any floating type; packed: [in, out] in a layout that a matmul chose. Bands of outputs
// are shared out among the workspace's threads (nullptr: the calling one alone does it). Throws dnnl::error.
void repack_weights(const Tensor& weight, dnnl::memory& packed, Workspace* workspace);

}  // namespace saccade::nn
