// Gradients of an image's score without autograd. They explain a score; nothing is trained. libtorch is not
// needed, and a caller keeps only the parts of a forward pass listed here.
//
// In all functions, `gradient` is the gradient of the score with respect to the function's result. They
// return the gradient with respect to x. All values are float32; results lie in the workspace of the first
// argument that has one.
#pragma once

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

// Computes the gradient of layer_norm (operations.h). x, gradient: [..., width]; gain: [width].
Tensor layer_norm_backward(const Tensor& x, const Tensor& gain, double eps, const Tensor& gradient);
// Compute activation(x) elementwise, and its gradient, gradient * activation'(x). x and gradient have the
// same shape.
Tensor activate(const Tensor& x, Activation activation);
Tensor activation_backward(const Tensor& x, Activation activation, const Tensor& gradient);
// Computes the gradient of attention without a mask. qkv: [batch, tokens, 3 * width]; gradient: [batch,
// tokens, width]; the result has qkv's shape. Memory: several [tokens, tokens] matrices per thread.
Tensor attention_backward(const Tensor& qkv, int64_t heads, const Tensor& gradient);

// Computes the gradient of attention with separate keys and values. Shapes: query [batch, queries, heads,
// head_width]; key and value [batch, keys, heads, head_width], with each head's values contiguous; gradient
// [batch, queries, heads * head_width]. Returns the gradient with respect to key and value: [batch, keys, 2,
// heads, head_width]. Implemented as plain loops, for a few queries.
Tensor key_value_backward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& gradient);

// Inputs of attention relevance: the gradient of a score with respect to the attention weights A =
// softmax(scale q k'), [batch, heads, queries, keys].
struct RelevanceInput {
  // Queries [batch, queries, heads, head_width]; keys and values [batch, keys, heads, head_width]. Each
  // head's values are contiguous. float32.
  Tensor query, key, value;
  Tensor gradient;  // [batch, queries, heads * head_width]: what the score changes with attention's result
  Tensor weights;   // [batch, queries]: how much each query counts
  // Flag for the factor A. false: dS/dA alone (Bousselham et al. 2024, "LeGrad", arXiv 2404.03214, equation
  // of the explainability map). true: dS/dA * A (Chefer et al. 2021, "Generic Attention-model
  // Explainability", arXiv 2103.15679, equation 5).
  bool times_attention = false;
};
// Computes for each key the sum over queries of weight * (mean over heads of the positive part): [batch,
// keys]. The gradient with respect to A is gradient v', so no [queries, keys] matrix is kept.
Tensor attention_relevance(const RelevanceInput& input);
// Returns query, key and value of qkv [batch, tokens, 3 * width] float32 as relevance input.
RelevanceInput relevance_input(const Tensor& qkv, int64_t heads);

// Intermediate values that a transformer block keeps from a forward pass for its backward pass. Float32;
// about five times the size of the block's input.
struct BlockTrace {
  Tensor input;  // [batch, tokens, width]
  Tensor qkv;    // [batch, tokens, 3 * width], as attention got it
  Tensor
      mixed;  // [batch, tokens, width]: attention's result; only where it is normalized before it is projected
  Tensor middle;  // [batch, tokens, width]: behind the attention, before the MLP
};
// Gradient of a score with respect to the attention output and to the residual path around it. A block's
// backward_to_attention computes it for the first tokens of each entry, as many as `gradient` has. After the
// attention, tokens do not interact. backward_from_attention needs the gradient for all tokens.
struct BlockGradient {
  Tensor mixed;   // [batch, tokens, width]
  Tensor middle;  // [batch, tokens, width]
};

}  // namespace saccade::nn
