// Layers shared by all architectures.
//
// One definition serves inference and training: layers are templates over the tensor type. Tensor (tensor.h)
// is for inference: after pack(), linear layers run on weights repacked for oneDNN, and norms and attention
// in the kernels of kernels.h. Variable (lab/train/math/variable.h) keeps gradients. The residual stream is
// float32. A product is computed in the type of its input, which the caller chooses per block: float32 like
// the reference, or bfloat16 for speed. In training, float32 master weights are converted on the fly, and
// gradients flow back through the conversion.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/nn/backward.h"
#include "saccade/nn/linear/packed_on_demand.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

// Linear layer y = activation(x W^T + b). W: [out, in].
template <typename T>
class LinearOf {
 public:
  LinearOf() = default;
  // Loads the parameters "<name>.weight" and, unless without_bias, "<name>.bias" (initially 0).
  static Result<LinearOf> make(ParameterSourceOf<T>& source, const std::string& name, int64_t in, int64_t out,
                               double init_std, bool without_bias = false);
  // Joins several layers with the same input into one, with their outputs concatenated. The parameters keep
  // their names.
  static Result<LinearOf> make_joint(ParameterSourceOf<T>& source, const std::vector<std::string>& names,
                                     int64_t in, int64_t out_each, double init_std,
                                     bool without_bias = false);
  // Makes a layer from a tensor of another shape (a convolution's kernel), viewed as [out, in]. bias: [out]
  // or undefined.
  explicit LinearOf(T weight, T bias = {});
  // Makes a layer from several tensors, with their outputs concatenated.
  LinearOf(std::vector<T> weights, std::vector<T> biases)
      : weights_(std::move(weights)), biases_(std::move(biases)) {}

  // Applies the layer to x: [..., in]. The result has x's dtype. Inference only after pack().
  [[nodiscard]] T forward(const T& x, Activation activation = Activation::kNone) const;
  // Computes forward(x) as input of attention, which is bfloat16 for products of 8-bit integers
  // (PackedLinear::attended).
  [[nodiscard]] T forward_to_attention(const T& x) const;
  // Computes residual + forward(x) in float32; in inference, `residual` itself is overwritten.
  [[nodiscard]] T add_to(T residual, const T& x) const;
  // Computes the gradient of a score with respect to x from that with respect to forward(x) without an
  // activation. Inference only, without autograd. gradient: [..., out]; result [..., in] float32. The first
  // call packs the weights a second time.
  [[nodiscard]] T backward(const T& gradient) const;

  // Prepares the layer for inference with products in `dtype`. The weights are repacked at the first product
  // (PackedOnDemand).
  void pack(DType dtype);

 private:
  static constexpr bool kPacks = std::is_same_v<T, Tensor>;

  std::vector<T> weights_;
  std::vector<T> biases_;
  std::shared_ptr<PackedOnDemand> packed_;
};

// Layer normalization over the last dimension with gain and bias.
template <typename T>
class LayerNormOf {
 public:
  LayerNormOf() = default;
  static Result<LayerNormOf> make(ParameterSourceOf<T>& source, const std::string& name, int64_t width,
                                  double eps);
  // Normalizes x: [..., width] float32; the result has `dtype`.
  [[nodiscard]] T forward(const T& x, DType dtype) const {
    return layer_norm(x, weight_, bias_, eps_, dtype);
  }
  // Computes the gradient of a score with respect to x from that with respect to forward(x). Inference only,
  // without autograd.
  [[nodiscard]] T backward(const T& x, const T& gradient) const {
    return layer_norm_backward(x, weight_, eps_, gradient);
  }

 private:
  T weight_;
  T bias_;
  double eps_ = 0;
};

// Width and depth of a transformer, as read from a checkpoint's config.
struct TransformerShape {
  int64_t width = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t mlp_width = 0;
  Activation activation = Activation::kGelu;
  double eps = 1e-5;
  bool attention_bias = true;  // biases of query, key and value
};

// Names of a block's parts in the checkpoint's layout, relative to the block's name. `key` and `value` are
// empty if the layout stores query, key and value as one layer.
struct BlockNames {
  std::string norm1, query, key, value, output, norm2, mlp_in, mlp_out;
};

// Shared tokens of several texts: the blocks' layers process each distinct token once, and attention sees
// every text whole.
struct SharedTokens {
  Tensor of_texts;  // [texts, tokens] int64: which token, by its row, stands in each place of a text
  Tensor places;    // [rows] int64: text * tokens + token, a place where each row stands
};

// Pre-norm transformer block: x + attention(norm1(x)), then x + mlp(norm2(x)).
template <typename T>
class TransformerBlockOf {
 public:
  static Result<TransformerBlockOf> make(ParameterSourceOf<T>& source, const std::string& prefix,
                                         const BlockNames& names, const TransformerShape& shape);
  // Applies the block to x: [batch, tokens, width] float32 (consumed when packed). mask: undefined, or
  // float32 added to the attention scores, broadcast to [batch, heads, tokens, tokens]. With `shared`
  // (inference only), x is [rows, width] with the tokens listed in it, and the mask is that of its texts.
  [[nodiscard]] T forward(T x, const Tensor& mask, DType dtype, const SharedTokens* shared = nullptr) const;
  // Makes forward() keep its input alone for the backward pass, which computes the rest again (gradient
  // checkpointing; Chen et al. 2016, "Training deep nets with sublinear memory cost"). Training only.
  void checkpoint_activations() { checkpoints_ = true; }
  // Computes forward(x) at one position of each entry, for a last block whose other rows are not needed. Only
  // the attention runs over all tokens. positions: [batch] int64 (row numbers for shared tokens). Result:
  // [batch, width] float32.
  [[nodiscard]] T forward_at(const T& x, const Tensor& mask, DType dtype, const Tensor& positions,
                             const SharedTokens* shared = nullptr) const;
  void pack(DType dtype);

  // Runs forward(x) and records its intermediate values. Inference only, without autograd and mask
  // (backward.h). x is not modified. See CrossedBlock.
  [[nodiscard]] T forward_traced(const T& x, DType dtype, BlockTrace& trace) const;
  [[nodiscard]] BlockGradient backward_to_attention(const BlockTrace& trace, const T& gradient) const;
  [[nodiscard]] T backward_from_attention(const BlockTrace& trace, const BlockGradient& gradient) const;
  [[nodiscard]] int64_t heads() const { return heads_; }

 private:
  [[nodiscard]] T attend(const T& x, const Tensor& mask, DType dtype, const SharedTokens* shared) const;
  [[nodiscard]] T forward_keeping(T x, const Tensor& mask, DType dtype, const SharedTokens* shared) const;

  bool checkpoints_ = false;
  int64_t heads_ = 0;
  Activation activation_ = Activation::kGelu;
  LayerNormOf<T> norm1_, norm2_;
  LinearOf<T> query_key_value_, output_, mlp_in_, mlp_out_;
};

using Linear = LinearOf<Tensor>;
using LayerNorm = LayerNormOf<Tensor>;
using TransformerBlock = TransformerBlockOf<Tensor>;

// Converts x to the packed layer's input type.
inline Tensor taken(const PackedLinear& packed, const Tensor& x) {
  return (packed.takes(x.dtype()) ? x : x.to(packed.dtype())).contiguous();
}

// --- definitions ----------------------------------------------------------------------------------------

template <typename T>
Result<LinearOf<T>> LinearOf<T>::make(ParameterSourceOf<T>& source, const std::string& name, int64_t in,
                                      int64_t out, double init_std, bool without_bias) {
  LinearOf layer;
  SACCADE_ASSIGN(layer.weights_.emplace_back(),
                 source.take_stored(name + ".weight", {out, in}, {0, init_std}));
  if (!without_bias) {
    SACCADE_ASSIGN(layer.biases_.emplace_back(), source.take(name + ".bias", {out}, {}));
  }
  return layer;
}

template <typename T>
Result<LinearOf<T>> LinearOf<T>::make_joint(ParameterSourceOf<T>& source,
                                            const std::vector<std::string>& names, int64_t in,
                                            int64_t out_each, double init_std, bool without_bias) {
  LinearOf joint;
  for (const std::string& name : names) {
    SACCADE_ASSIGN(const LinearOf part, make(source, name, in, out_each, init_std, without_bias));
    joint.weights_.push_back(part.weights_.front());
    if (!without_bias) joint.biases_.push_back(part.biases_.front());
  }
  return joint;
}

template <typename T>
LinearOf<T>::LinearOf(T weight, T bias) : weights_{std::move(weight)} {
  if (bias.defined()) biases_.push_back(std::move(bias));
}

template <typename T>
T LinearOf<T>::forward(const T& x, Activation activation) const {
  if constexpr (kPacks) {
    const PackedLinear& packed = packed_->get(x.workspace());
    return packed.forward(taken(packed, x), activation, x.dtype());
  } else {
    return linear(x, weights_, biases_, activation);
  }
}

template <typename T>
T LinearOf<T>::forward_to_attention(const T& x) const {
  if constexpr (kPacks) {
    const PackedLinear& packed = packed_->get(x.workspace());
    return packed.forward(taken(packed, x), Activation::kNone, packed.attended(x.dtype()));
  } else {
    return forward(x);
  }
}

template <typename T>
T LinearOf<T>::add_to(T residual, const T& x) const {
  if constexpr (kPacks) {
    const PackedLinear& packed = packed_->get(x.workspace());
    packed.add_to(residual, taken(packed, x));
    return residual;
  } else {
    return residual + forward(x);
  }
}

template <typename T>
T LinearOf<T>::backward(const T& gradient) const {
  static_assert(kPacks, "training has autograd");
  const PackedLinear& packed = packed_->get_transposed(gradient.workspace());
  return packed.forward(gradient.to(packed.dtype()).contiguous(), Activation::kNone, DType::kF32);
}

template <typename T>
void LinearOf<T>::pack(DType dtype) {
  if constexpr (kPacks) {
    packed_ = std::make_shared<PackedOnDemand>(std::move(weights_), std::move(biases_), dtype);
    weights_.clear();
    biases_.clear();
  }
}

template <typename T>
Result<LayerNormOf<T>> LayerNormOf<T>::make(ParameterSourceOf<T>& source, const std::string& name,
                                            int64_t width, double eps) {
  LayerNormOf layer;
  SACCADE_ASSIGN(layer.weight_, source.take(name + ".weight", {width}, {1, 0}));
  SACCADE_ASSIGN(layer.bias_, source.take(name + ".bias", {width}, {}));
  layer.eps_ = eps;
  return layer;
}

template <typename T>
Result<TransformerBlockOf<T>> TransformerBlockOf<T>::make(ParameterSourceOf<T>& source,
                                                          const std::string& prefix, const BlockNames& names,
                                                          const TransformerShape& shape) {
  // CLIP's initialization (Radford et al. 2021, released code): the output projections shrink with depth, so
  // that the residual stream's variance does not grow with it.
  const auto width = static_cast<double>(shape.width);
  const double attention_std = 1 / std::sqrt(width);
  const double output_std = attention_std / std::sqrt(2.0 * static_cast<double>(shape.layers));
  const double mlp_std = 1 / std::sqrt(2 * width);

  TransformerBlockOf block;
  block.heads_ = shape.heads;
  block.activation_ = shape.activation;
  SACCADE_ASSIGN(block.norm1_, LayerNormOf<T>::make(source, prefix + names.norm1, shape.width, shape.eps));
  const bool joint = names.key.empty();
  std::vector<std::string> parts = {prefix + names.query};
  if (!joint) parts.insert(parts.end(), {prefix + names.key, prefix + names.value});
  SACCADE_ASSIGN(block.query_key_value_,
                 LinearOf<T>::make_joint(source, parts, shape.width, joint ? 3 * shape.width : shape.width,
                                         attention_std, !shape.attention_bias));
  SACCADE_ASSIGN(block.output_,
                 LinearOf<T>::make(source, prefix + names.output, shape.width, shape.width, output_std));
  SACCADE_ASSIGN(block.norm2_, LayerNormOf<T>::make(source, prefix + names.norm2, shape.width, shape.eps));
  SACCADE_ASSIGN(block.mlp_in_,
                 LinearOf<T>::make(source, prefix + names.mlp_in, shape.width, shape.mlp_width, mlp_std));
  SACCADE_ASSIGN(block.mlp_out_,
                 LinearOf<T>::make(source, prefix + names.mlp_out, shape.mlp_width, shape.width, output_std));
  return block;
}

template <typename T>
T TransformerBlockOf<T>::attend(const T& x, const Tensor& mask, DType dtype,
                                const SharedTokens* shared) const {
  const T qkv = query_key_value_.forward_to_attention(norm1_.forward(x, dtype));
  if constexpr (std::is_same_v<T, Tensor>) {
    if (shared != nullptr) {
      const T mixed = attention(pick_rows(qkv, shared->of_texts), heads_, mask);
      return pick_rows(mixed.view({-1, mixed.size(2)}), shared->places);
    }
  }
  return attention(qkv, heads_, mask);
}

template <typename T>
T TransformerBlockOf<T>::forward(T x, const Tensor& mask, DType dtype, const SharedTokens* shared) const {
  if constexpr (!std::is_same_v<T, Tensor>) {
    if (checkpoints_) {
      return recomputed(
          x, [this, mask, dtype](const T& input) { return forward_keeping(input, mask, dtype, nullptr); });
    }
  }
  return forward_keeping(std::move(x), mask, dtype, shared);
}

// Computes forward(x); with gradients, all intermediate values are kept.
template <typename T>
T TransformerBlockOf<T>::forward_keeping(T x, const Tensor& mask, DType dtype,
                                         const SharedTokens* shared) const {
  const T mixed = attend(x, mask, dtype, shared);
  x = output_.add_to(std::move(x), mixed);
  const T hidden = mlp_in_.forward(norm2_.forward(x, dtype), activation_);
  return mlp_out_.add_to(std::move(x), hidden);
}

template <typename T>
T TransformerBlockOf<T>::forward_at(const T& x, const Tensor& mask, DType dtype, const Tensor& positions,
                                    const SharedTokens* shared) const {
  const T mixed = attend(x, mask, dtype, shared);
  const auto at_positions = [&](const T& all) {
    if constexpr (std::is_same_v<T, Tensor>) {
      if (shared != nullptr) return pick_rows(all, positions);
    }
    return take_rows(all, positions);
  };
  T rows = output_.add_to(at_positions(x), at_positions(mixed));
  const T hidden = mlp_in_.forward(norm2_.forward(rows, dtype), activation_);
  return mlp_out_.add_to(std::move(rows), hidden);
}

template <typename T>
T TransformerBlockOf<T>::forward_traced(const T& x, DType dtype, BlockTrace& trace) const {
  trace.input = x;
  trace.qkv = query_key_value_.forward(norm1_.forward(x, dtype)).to(DType::kF32);
  const T mixed = attention(trace.qkv, heads_, {});
  trace.middle = output_.add_to(x.clone(), mixed);
  const T hidden = mlp_in_.forward(norm2_.forward(trace.middle, dtype), activation_);
  return mlp_out_.add_to(trace.middle.clone(), hidden);
}

template <typename T>
BlockGradient TransformerBlockOf<T>::backward_to_attention(const BlockTrace& trace, const T& gradient) const {
  const T middle = trace.middle.slice(1, 0, gradient.size(1)).contiguous();
  const T before = mlp_in_.forward(norm2_.forward(middle, DType::kF32));
  const T hidden = activation_backward(before, activation_, mlp_out_.backward(gradient));
  BlockGradient result;
  result.middle = gradient + norm2_.backward(middle, mlp_in_.backward(hidden));
  result.mixed = output_.backward(result.middle);
  return result;
}

template <typename T>
T TransformerBlockOf<T>::backward_from_attention(const BlockTrace& trace,
                                                 const BlockGradient& gradient) const {
  const T qkv = attention_backward(trace.qkv, heads_, gradient.mixed);
  return gradient.middle + norm1_.backward(trace.input, query_key_value_.backward(qkv));
}

template <typename T>
void TransformerBlockOf<T>::pack(DType dtype) {
  for (LinearOf<T>* layer : {&query_key_value_, &output_, &mlp_in_, &mlp_out_}) layer->pack(dtype);
}

extern template class LinearOf<Tensor>;
extern template class LayerNormOf<Tensor>;
extern template class TransformerBlockOf<Tensor>;

}  // namespace saccade::nn
