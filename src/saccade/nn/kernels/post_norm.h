// The original transformer block with post-normalization (Vaswani et al. 2017, "Attention Is All You Need",
// section 3.1), also used by BERT and its successors. Each part's result is added to its input, and the sum
// is normalized. The two parts are also separate classes, for models that put something between them.
//
// Precision and packing are those of layers.h. As there, one definition serves inference and training: states
// between the parts are float32, products are in `dtype`.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

constexpr double kPostNormInitStd = 0.02;  // BERT's "initializer_range"

// Self-attention with post-normalization: norm1(x + output(attention(x))).
template <typename T>
class PostNormAttentionOf {
 public:
  // Reads these members of `names`: query, key, value, output, norm1.
  static Result<PostNormAttentionOf> make(ParameterSourceOf<T>& source, const std::string& prefix,
                                          const BlockNames& names, const TransformerShape& shape);
  // Applies the layer to x: [batch, tokens, width] float32 (consumed when packed). mask: undefined, or
  // float32 added to the attention scores, broadcast to [batch, heads, tokens, tokens]. If `weights` is not
  // null, it receives the attention weights, [batch, heads, tokens, tokens] float32. They are then computed
  // twice; inference only.
  [[nodiscard]] T forward(T x, const Tensor& mask, DType dtype, Tensor* weights = nullptr) const;
  // Returns the rows of forward(x) at one position per entry. positions: [batch] int64; result [batch, width]
  // float32.
  [[nodiscard]] T forward_at(const T& x, const Tensor& mask, DType dtype, const Tensor& positions) const;
  void pack(DType dtype);

  // Intermediate values of a forward pass. Inference only, without autograd and mask (backward.h). x is not
  // modified.
  struct Trace {
    Tensor qkv;  // [batch, tokens, 3 * width] float32
    Tensor sum;  // [batch, tokens, width]: before the norm
  };
  [[nodiscard]] T forward_traced(const T& x, DType dtype, Trace& trace) const;
  // Takes the gradient of a score with respect to the result, [batch, tokens, width].
  [[nodiscard]] BlockGradient backward_to_attention(const Trace& trace, const T& gradient) const;
  // Propagates the gradient from the attention output to x.
  [[nodiscard]] T backward_from_attention(const Trace& trace, const BlockGradient& gradient) const;
  [[nodiscard]] RelevanceInput relevance_input(const Trace& trace) const;

 private:
  int64_t heads_ = 0;
  LinearOf<T> query_key_value_, output_;
  LayerNormOf<T> norm_;
};

// Cross-attention with post-normalization: norm1(x + output(attention of x over a memory)). Queries come from
// x, keys and values from another tower's output.
template <typename T>
class PostNormCrossAttentionOf {
 public:
  // Reads these members of `names`: query, key, value, output, norm1. memory_width: width of a memory row.
  static Result<PostNormCrossAttentionOf> make(ParameterSourceOf<T>& source, const std::string& prefix,
                                               const BlockNames& names, const TransformerShape& shape,
                                               int64_t memory_width);
  // Applies the layer to x: [batch, tokens, width] float32 (consumed when packed). memory: [batch, rows,
  // memory_width] float32, or [1, rows, memory_width], shared by all entries and processed once.
  [[nodiscard]] T forward(T x, const T& memory, DType dtype) const;
  void pack(DType dtype);

  // Intermediate values of a forward pass. Inference only, without autograd (backward.h).
  struct Trace {
    Tensor query;      // [batch, tokens, heads, head_width] float32
    Tensor key_value;  // [batch, rows, 2, heads, head_width] float32
    Tensor sum;        // [batch, tokens, width]: before the norm
  };
  [[nodiscard]] T forward_traced(const T& x, const T& memory, DType dtype, Trace& trace) const;
  // Takes the gradient of a score with respect to the result, [batch, tokens, width].
  [[nodiscard]] BlockGradient backward_to_attention(const Trace& trace, const T& gradient) const;
  // Gradients with respect to x and the memory: [batch, tokens, width] and [batch, rows, memory_width].
  struct Gradient {
    Tensor x, memory;
  };
  [[nodiscard]] Gradient backward_from_attention(const Trace& trace, const BlockGradient& gradient) const;
  [[nodiscard]] static RelevanceInput relevance_input(const Trace& trace);

 private:
  int64_t heads_ = 0;
  LinearOf<T> query_, key_value_, output_;
  LayerNormOf<T> norm_;
};

// MLP with post-normalization: norm2(x + mlp_out(activation(mlp_in(x)))).
template <typename T>
class PostNormMlpOf {
 public:
  // Reads these members of `names`: mlp_in, mlp_out, norm2.
  static Result<PostNormMlpOf> make(ParameterSourceOf<T>& source, const std::string& prefix,
                                    const BlockNames& names, const TransformerShape& shape);
  // Applies the layer to x: [..., width] float32 (consumed when packed).
  [[nodiscard]] T forward(T x, DType dtype) const;
  // Computes the gradient of a score with respect to x from that with respect to forward(x). Inference only,
  // without autograd.
  [[nodiscard]] T backward(const T& x, const T& gradient) const;
  void pack(DType dtype);

 private:
  Activation activation_ = Activation::kGelu;
  LinearOf<T> in_, out_;
  LayerNormOf<T> norm_;
};

// Block of attention and MLP. Arguments and results are those of TransformerBlock.
template <typename T>
class PostNormBlockOf {
 public:
  static Result<PostNormBlockOf> make(ParameterSourceOf<T>& source, const std::string& prefix,
                                      const BlockNames& names, const TransformerShape& shape);
  [[nodiscard]] T forward(T x, const Tensor& mask, DType dtype, Tensor* weights = nullptr) const {
    return mlp_.forward(attention_.forward(std::move(x), mask, dtype, weights), dtype);
  }
  [[nodiscard]] T forward_at(const T& x, const Tensor& mask, DType dtype, const Tensor& positions) const {
    return mlp_.forward(attention_.forward_at(x, mask, dtype, positions), dtype);
  }
  void pack(DType dtype) {
    attention_.pack(dtype);
    mlp_.pack(dtype);
  }

 private:
  PostNormAttentionOf<T> attention_;
  PostNormMlpOf<T> mlp_;
};

using PostNormAttention = PostNormAttentionOf<Tensor>;
using PostNormCrossAttention = PostNormCrossAttentionOf<Tensor>;
using PostNormMlp = PostNormMlpOf<Tensor>;
using PostNormBlock = PostNormBlockOf<Tensor>;

template <>
Tensor PostNormAttentionOf<Tensor>::forward_traced(const Tensor& x, DType dtype, Trace& trace) const;
template <>
BlockGradient PostNormAttentionOf<Tensor>::backward_to_attention(const Trace& trace,
                                                                 const Tensor& gradient) const;
template <>
Tensor PostNormAttentionOf<Tensor>::backward_from_attention(const Trace& trace,
                                                            const BlockGradient& gradient) const;
template <>
RelevanceInput PostNormAttentionOf<Tensor>::relevance_input(const Trace& trace) const;
template <>
Tensor PostNormCrossAttentionOf<Tensor>::forward_traced(const Tensor& x, const Tensor& memory, DType dtype,
                                                        Trace& trace) const;
template <>
BlockGradient PostNormCrossAttentionOf<Tensor>::backward_to_attention(const Trace& trace,
                                                                      const Tensor& gradient) const;
template <>
PostNormCrossAttentionOf<Tensor>::Gradient PostNormCrossAttentionOf<Tensor>::backward_from_attention(
    const Trace& trace, const BlockGradient& gradient) const;
template <>
RelevanceInput PostNormCrossAttentionOf<Tensor>::relevance_input(const Trace& trace);
template <>
Tensor PostNormMlpOf<Tensor>::backward(const Tensor& x, const Tensor& gradient) const;

// --- definitions ----------------------------------------------------------------------------------------

template <typename T>
Result<PostNormAttentionOf<T>> PostNormAttentionOf<T>::make(ParameterSourceOf<T>& source,
                                                            const std::string& prefix,
                                                            const BlockNames& names,
                                                            const TransformerShape& shape) {
  PostNormAttentionOf part;
  part.heads_ = shape.heads;
  SACCADE_ASSIGN(
      part.query_key_value_,
      LinearOf<T>::make_joint(source, {prefix + names.query, prefix + names.key, prefix + names.value},
                              shape.width, shape.width, kPostNormInitStd));
  SACCADE_ASSIGN(part.output_, LinearOf<T>::make(source, prefix + names.output, shape.width, shape.width,
                                                 kPostNormInitStd));
  SACCADE_ASSIGN(part.norm_, LayerNormOf<T>::make(source, prefix + names.norm1, shape.width, shape.eps));
  return part;
}

template <typename T>
T PostNormAttentionOf<T>::forward(T x, const Tensor& mask, DType dtype, Tensor* weights) const {
  const T qkv = query_key_value_.forward(x.to(dtype));
  if constexpr (std::is_same_v<T, Tensor>) {
    if (weights != nullptr) *weights = attention_weights(qkv, heads_, mask);
  }
  const T mixed = attention(qkv, heads_, mask);
  return norm_.forward(output_.add_to(std::move(x), mixed), DType::kF32);
}

template <typename T>
T PostNormAttentionOf<T>::forward_at(const T& x, const Tensor& mask, DType dtype,
                                     const Tensor& positions) const {
  const T mixed = attention(query_key_value_.forward(x.to(dtype)), heads_, mask);
  return norm_.forward(output_.add_to(take_rows(x, positions), take_rows(mixed, positions)), DType::kF32);
}

template <typename T>
void PostNormAttentionOf<T>::pack(DType dtype) {
  query_key_value_.pack(dtype);
  output_.pack(dtype);
}

template <typename T>
Result<PostNormCrossAttentionOf<T>> PostNormCrossAttentionOf<T>::make(ParameterSourceOf<T>& source,
                                                                      const std::string& prefix,
                                                                      const BlockNames& names,
                                                                      const TransformerShape& shape,
                                                                      int64_t memory_width) {
  PostNormCrossAttentionOf part;
  part.heads_ = shape.heads;
  SACCADE_ASSIGN(part.query_,
                 LinearOf<T>::make(source, prefix + names.query, shape.width, shape.width, kPostNormInitStd));
  SACCADE_ASSIGN(part.key_value_, LinearOf<T>::make_joint(source, {prefix + names.key, prefix + names.value},
                                                          memory_width, shape.width, kPostNormInitStd));
  SACCADE_ASSIGN(part.output_, LinearOf<T>::make(source, prefix + names.output, shape.width, shape.width,
                                                 kPostNormInitStd));
  SACCADE_ASSIGN(part.norm_, LayerNormOf<T>::make(source, prefix + names.norm1, shape.width, shape.eps));
  return part;
}

template <typename T>
T PostNormCrossAttentionOf<T>::forward(T x, const T& memory, DType dtype) const {
  const int64_t head_width = x.size(2) / heads_;
  const T query = query_.forward(x.to(dtype)).view({x.size(0), x.size(1), heads_, head_width});
  const T both =
      key_value_.forward(memory.to(dtype)).view({memory.size(0), memory.size(1), 2, heads_, head_width});
  const T mixed = attention(query, both.select(2, 0), both.select(2, 1), {});
  return norm_.forward(output_.add_to(std::move(x), mixed), DType::kF32);
}

template <typename T>
void PostNormCrossAttentionOf<T>::pack(DType dtype) {
  for (LinearOf<T>* layer : {&query_, &key_value_, &output_}) layer->pack(dtype);
}

template <typename T>
Result<PostNormMlpOf<T>> PostNormMlpOf<T>::make(ParameterSourceOf<T>& source, const std::string& prefix,
                                                const BlockNames& names, const TransformerShape& shape) {
  PostNormMlpOf part;
  part.activation_ = shape.activation;
  SACCADE_ASSIGN(part.in_, LinearOf<T>::make(source, prefix + names.mlp_in, shape.width, shape.mlp_width,
                                             kPostNormInitStd));
  SACCADE_ASSIGN(part.out_, LinearOf<T>::make(source, prefix + names.mlp_out, shape.mlp_width, shape.width,
                                              kPostNormInitStd));
  SACCADE_ASSIGN(part.norm_, LayerNormOf<T>::make(source, prefix + names.norm2, shape.width, shape.eps));
  return part;
}

template <typename T>
T PostNormMlpOf<T>::forward(T x, DType dtype) const {
  const T hidden = in_.forward(x.to(dtype), activation_);
  return norm_.forward(out_.add_to(std::move(x), hidden), DType::kF32);
}

template <typename T>
void PostNormMlpOf<T>::pack(DType dtype) {
  in_.pack(dtype);
  out_.pack(dtype);
}

template <typename T>
Result<PostNormBlockOf<T>> PostNormBlockOf<T>::make(ParameterSourceOf<T>& source, const std::string& prefix,
                                                    const BlockNames& names, const TransformerShape& shape) {
  PostNormBlockOf block;
  SACCADE_ASSIGN(block.attention_, PostNormAttentionOf<T>::make(source, prefix, names, shape));
  SACCADE_ASSIGN(block.mlp_, PostNormMlpOf<T>::make(source, prefix, names, shape));
  return block;
}

extern template class PostNormAttentionOf<Tensor>;
extern template class PostNormCrossAttentionOf<Tensor>;
extern template class PostNormMlpOf<Tensor>;
extern template class PostNormBlockOf<Tensor>;

}  // namespace saccade::nn
