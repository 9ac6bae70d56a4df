// Gradients without autograd, of what a picture's score is made of: for explaining a score, where nothing is
// trained. libtorch is not needed, and a caller keeps no more of a forward pass than it says.
//
// In all of these, `gradient` is what a score changes with a function's result, and what is returned is what
// it changes with x. float32 throughout; results lie in the workspace of the first argument that has one.
#pragma once

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

// Of layer_norm (operations.h). x, gradient: [..., width]; gain: [width].
Tensor layer_norm_backward(const Tensor& x, const Tensor& gain, double eps, const Tensor& gradient);
// activation(x) value by value, and its gradient: gradient * activation'(x). x, gradient: of one shape.
Tensor activate(const Tensor& x, Activation activation);
Tensor activation_backward(const Tensor& x, Activation activation, const Tensor& gradient);
// Of attention without a mask. qkv: [batch, tokens, 3 * width]; gradient: [batch, tokens, width]; result of
// qkv's shape. Memory: some [tokens, tokens] a thread.
Tensor attention_backward(const Tensor& qkv, int64_t heads, const Tensor& gradient);

// Of attention with keys and values of their own: query [batch, queries, heads, head_width], key and value
// [batch, keys, heads, head_width], each head's numbers in a row; gradient [batch, queries, heads *
// head_width]. The result is what changes with key and value: [batch, keys, 2, heads, head_width]. In
// plain loops: for a few queries.
Tensor key_value_backward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& gradient);

// How attention's weights A = softmax(scale q k'), [batch, heads, queries, keys], stand to a score.
struct RelevanceInput {
  // [batch, queries, heads, head_width], and of keys and values [batch, keys, heads, head_width], each
  // head's numbers in a row. float32.
  Tensor query, key, value;
  Tensor gradient;  // [batch, queries, heads * head_width]: what the score changes with attention's result
  Tensor weights;   // [batch, queries]: how much each query counts
  // false: dS/dA alone (Bousselham et al. 2024, "LeGrad", arXiv 2404.03214, equation of the
  // explainability map). true: dS/dA * A (Chefer et al. 2021, "Generic Attention-model Explainability",
  // arXiv 2103.15679, equation 5).
  bool times_attention = false;
};
// For each key the sum over queries of weight * (mean over heads of the positive part): [batch, keys]. The
// gradient of A is gradient v', so that nothing of [queries, keys] is kept.
Tensor attention_relevance(const RelevanceInput& input);
// The parts of qkv [batch, tokens, 3 * width] float32 as its input: query, key and value.
RelevanceInput relevance_input(const Tensor& qkv, int64_t heads);

// What a block of a transformer keeps of a forward pass, to be crossed backwards: about
// five times its input. Float32.
struct BlockTrace {
  Tensor input;  // [batch, tokens, width]
  Tensor qkv;    // [batch, tokens, 3 * width], as attention got it
  Tensor
      mixed;  // [batch, tokens, width]: attention's result; only where it is normalized before it is projected
  Tensor middle;  // [batch, tokens, width]: behind the attention, before the MLP
};
// What a score changes with attention's result, and with the way around it. A block's backward_to_attention
// gives it for the first tokens of each entry, as many as the gradient has: behind the attention, tokens do
// not see each other. backward_from_attention needs it of all.
struct BlockGradient {
  Tensor mixed;   // [batch, tokens, width]
  Tensor middle;  // [batch, tokens, width]
};

}  // namespace saccade::nn
