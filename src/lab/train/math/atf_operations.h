// What adaptive token fusion is written over (model/composers/atf.h), with gradients. Internal to the module.
#pragma once

#include "saccade/model/composers/atf.h"
#include "lab/train/math/composer_peers.h"  // of projection by the Combiner
#include "lab/train/math/variable.h"

namespace saccade::lab {

nn::Tensor plain_values(const Variable& x);
Variable constant_beside(const Variable& x, const nn::Tensor& table);

// The averages, and the tokens that are in none: [n, most, dim]; behind an entry's own the picture's first
// token. In torch's own operations, of any floating type, so that gradients can be checked in double.
torch::Tensor merged_tokens(const torch::Tensor& picture_tokens, const torch::Tensor& text_tokens,
                            const TokenMerge& merge, MergeWeights weights, const torch::Tensor& share);

// Operation by operation, on any device and of any floating type: the oracle, and
// what towers are trained through.
Variable pool_merged_plainly(const MergedPoolOf<Variable>& pool);
// Frozen tokens of float32 on the CPU, of which no gradient is asked, take one pass over memory forwards and
// one back (nn/token_pool.h); the same bits whatever the number of threads. Others as above.
Variable pool_merged(const MergedPoolOf<Variable>& pool);

}  // namespace saccade::lab
