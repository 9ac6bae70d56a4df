// The layers every architecture here is made of, over libtorch.
//
// One definition serves training and inference. The residual stream is float32; products are made in the
// dtype of their input, which the caller chooses block by block: float32 as the reference, bfloat16 for speed
// (float32 master weights are converted on the way, and gradients flow back through the conversion). After
// pack(), linear layers run on weights repacked for oneDNN: for inference only, as gradients do not flow
// through them. With gradients off, normalization and attention on the CPU run in the kernels of kernels.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/packed_linear.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {

// y = activation(x W^T + b). W: [out, in].
class Linear {
 public:
  Linear() = default;
  // Parameters "<name>.weight" and, unless without_bias, "<name>.bias" (starting at 0).
  static Result<Linear> make(ParameterSource& source, const std::string& name, int64_t in, int64_t out,
                             double init_std, bool without_bias = false);
  // Several layers that read the same input as one: their
  // outputs side by side. The parameters keep their names.
  static Result<Linear> make_joint(ParameterSource& source, const std::vector<std::string>& names, int64_t in,
                                   int64_t out_each, double init_std, bool without_bias = false);
  // A layer over a tensor of another shape (a convolution's
  // kernel) seen as [out, in]; bias: [out] or undefined.
  explicit Linear(torch::Tensor weight, torch::Tensor bias = {});

  // x: [..., in]; the result has x's dtype.
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x,
                                      Activation activation = Activation::kNone) const;
  // residual + forward(x), in float32; when packed, `residual` itself is overwritten.
  [[nodiscard]] torch::Tensor add_to(torch::Tensor residual, const torch::Tensor& x) const;

  // Memory of a mapped checkpoint that was read on the way is given back.
  void pack(at::ScalarType dtype);

 private:
  [[nodiscard]] torch::Tensor weight() const;
  [[nodiscard]] torch::Tensor bias() const;

  std::vector<torch::Tensor> weights_;
  std::vector<torch::Tensor> biases_;
  std::shared_ptr<const PackedLinear> packed_;
};

// Normalization over the last dimension with gain and bias.
class LayerNorm {
 public:
  LayerNorm() = default;
  static Result<LayerNorm> make(ParameterSource& source, const std::string& name, int64_t width, double eps);
  // x: [..., width] float32; the result is of `dtype`.
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x, at::ScalarType dtype) const;

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
  double eps_ = 0;
};

// How wide and deep a transformer is; read from a checkpoint's config.
struct TransformerShape {
  int64_t width = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t mlp_width = 0;
  Activation activation = Activation::kGelu;
  double eps = 1e-5;
  bool attention_bias = true;  // of query, key and value
};

// Names of a block's parts below the block's own, in the layout the parameters are kept in. Where that keeps
// query, key and value as one layer, `key` and `value` are empty.
struct BlockNames {
  std::string norm1, query, key, value, output, norm2, mlp_in, mlp_out;
};

// A pre-norm transformer block: x + attention(norm1(x)), then x + mlp(norm2(x)).
class TransformerBlock {
 public:
  static Result<TransformerBlock> make(ParameterSource& source, const std::string& prefix,
                                       const BlockNames& names, const TransformerShape& shape);
  // x: [batch, tokens, width] float32 (consumed when packed); mask: undefined, or float32 added to the
  // attention scores, broadcast to [batch, heads, tokens, tokens].
  [[nodiscard]] torch::Tensor forward(torch::Tensor x, const torch::Tensor& mask, at::ScalarType dtype) const;
  // The rows of forward(x) at one position an entry, for a last block of which nothing else is read: only the
  // attention sees all tokens. positions: [batch] int64; result [batch, width] float32.
  [[nodiscard]] torch::Tensor forward_at(const torch::Tensor& x, const torch::Tensor& mask,
                                         at::ScalarType dtype, const torch::Tensor& positions) const;
  void pack(at::ScalarType dtype);

 private:
  int64_t heads_ = 0;
  Activation activation_ = Activation::kGelu;
  LayerNorm norm1_, norm2_;
  Linear query_key_value_, output_, mlp_in_, mlp_out_;
};

// softmax(scale q k^T + mask) v per head, scale 1 / sqrt(width / heads) unless it is given. qkv: [batch,
// tokens, 3 * width]; result [batch, tokens, width], of qkv's dtype. The softmax is in float32.
torch::Tensor attention(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask,
                        std::optional<double> scale = std::nullopt);

// The softmax alone, for people to look at: [batch, heads, tokens, tokens] float32, rows of sum 1.
torch::Tensor attention_weights(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask);

// [tokens, tokens]: 0 on and below the diagonal, -infinity above.
torch::Tensor causal_mask(int64_t tokens);

// Pictures cut into squares of patch x patch: [batch, channels, height, width] to
// [batch, (height / patch) * (width / patch), channels * patch * patch], rows of patches first. What is left
// at the right and at the bottom is not looked at, as a convolution of that stride has it (384 = 27 * 14 +
// 6).
torch::Tensor patches(const torch::Tensor& pixels, int64_t patch);

// Rows of length 1 (L2), by division with the norm.
torch::Tensor normalize_rows(const torch::Tensor& rows);

}  // namespace saccade::nn
