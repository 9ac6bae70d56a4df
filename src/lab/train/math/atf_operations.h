// Operations of adaptive token fusion (model/composers/atf.h) with gradients. Internal to the module.
#pragma once

#include "lab/train/math/composer_peers.h"  // projection by the Combiner
#include "lab/train/math/variable.h"
#include "saccade/model/composers/atf.h"

namespace saccade::lab {

nn::Tensor plain_values(const Variable& x);
Variable constant_beside(const Variable& x, const nn::Tensor& table);

// Returns the averages, and the tokens that are in none: [n, most, dim], padded with the image's first token.
// It uses torch's own operations, with any floating type, so that gradients can be checked in double.
torch::Tensor merged_tokens(const torch::Tensor& picture_tokens, const torch::Tensor& text_tokens,
                            const TokenMerge& merge, MergeWeights weights, const torch::Tensor& share);

// Pools operation by operation, on any device and with any floating type. It is the oracle, and used if
// towers are trained.
Variable pool_merged_plainly(const MergedPoolOf<Variable>& pool);
// Pools frozen float32 tokens on the CPU, which need no gradient, in one pass over memory forward and one
// backward (nn/token_pool.h). The bits are the same for any number of threads. Other inputs use the above.
Variable pool_merged(const MergedPoolOf<Variable>& pool);

}  // namespace saccade::lab
