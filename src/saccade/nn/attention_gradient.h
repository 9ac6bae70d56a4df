// Gradients without autograd of attention that is made of queries, keys and values of their own, and its
// relevance written out: for a few queries, or a few hundred tokens. Terms and types are those of backward.h.
#pragma once

#include "saccade/nn/backward.h"

namespace saccade::nn {

struct AttentionGradient {
  Tensor query;      // [batch, queries, heads, head_width]
  Tensor key_value;  // [batch, keys, 2, heads, head_width]
};
// What a score changes with query, key and value, from what it changes with attention's result. query:
// [batch, queries, heads, head_width]; key, value: [batch, keys, heads, head_width], each head's numbers in
// a row; gradient: [batch, queries, heads * head_width]. In plain loops.
AttentionGradient attention_gradient(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& gradient);

// attention_relevance of each query by itself: [batch, queries, keys]. `input.weights` is not looked at.
Tensor relevance_matrix(const RelevanceInput& input);

}  // namespace saccade::nn
