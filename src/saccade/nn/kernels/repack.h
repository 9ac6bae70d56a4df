// Repacking of weights into the layout of products, on a forward pass's own threads.
#pragma once

#include "saccade/nn/tensor.h"

#include <dnnl.hpp>

namespace saccade::nn {

// Repacks weight, [out, in] of any floating type, into packed, [in, out] in a layout chosen by a matmul.
// Distributes bands of outputs among the workspace's threads, or uses only the calling thread if `workspace`
// is nullptr. Throws dnnl::error.
void repack_weights(const Tensor& weight, dnnl::memory& packed, Workspace* workspace);

}  // namespace saccade::nn
