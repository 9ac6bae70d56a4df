// Gradients without autograd of attention with separate queries, keys and values, and its full relevance
// matrix. Meant for a few queries, or a few hundred tokens. Terms and types are those of backward.h.
#pragma once

#include "saccade/nn/backward.h"

namespace saccade::nn {

struct AttentionGradient {
  Tensor query;      // [batch, queries, heads, head_width]
  Tensor key_value;  // [batch, keys, 2, heads, head_width]
};
// Computes the gradient of a score with respect to query, key and value, given its gradient with respect to
// the attention output. Shapes: query [batch, queries, heads, head_width]; key, value [batch, keys, heads,
// head_width], with each head's values contiguous; gradient [batch, queries, heads * head_width]. Implemented
// as plain loops.
AttentionGradient attention_gradient(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& gradient);

// Computes attention_relevance for each query separately: [batch, queries, keys]. Ignores `input.weights`.
Tensor relevance_matrix(const RelevanceInput& input);

}  // namespace saccade::nn
