#include "saccade/nn/layers.h"

#include <cmath>
#include <limits>

#include "saccade/nn/gradients.h"
#include "saccade/nn/kernels.h"

namespace saccade::nn {
namespace {

// Nobody will ask for gradients, and the values are where and of the types that kernels.h works on.
bool takes_kernels(const torch::Tensor& x) {
  return !at::GradMode::is_enabled() && is_for_kernels(x);
}

// 1 / sqrt(head width)
double usual_scale(const torch::Tensor& qkv, int64_t heads) {
  return 1 / std::sqrt(static_cast<double>(qkv.size(2) / 3 / heads));
}

// [batch, tokens, 3 * width] to query, key and value: [3, batch * heads, tokens, head_width].
torch::Tensor split_heads(const torch::Tensor& qkv, int64_t heads) {
  const int64_t batch = qkv.size(0);
  const int64_t tokens = qkv.size(1);
  const int64_t head_width = qkv.size(2) / 3 / heads;
  return qkv.view({batch, tokens, 3, heads, head_width})
      .permute({2, 0, 3, 1, 4})
      .contiguous()
      .view({3, batch * heads, tokens, head_width});
}

// The softmax over keys, in float32: [batch * heads, tokens, tokens].
torch::Tensor weights_of(const torch::Tensor& parts, int64_t batch, const torch::Tensor& mask, double scale) {
  const int64_t tokens = parts.size(2);
  const torch::Tensor query = parts[0] * scale;
  torch::Tensor scores = at::bmm(query, parts[1].transpose(1, 2)).to(at::kFloat);
  if (mask.defined()) {
    scores = (scores.view({batch, parts.size(1) / batch, tokens, tokens}) + mask).view_as(scores);
  }
  return at::softmax(scores, -1);
}

}  // namespace

Result<Linear> Linear::make(ParameterSource& source, const std::string& name, int64_t in, int64_t out,
                            double init_std, bool without_bias) {
  Linear layer;
  SACCADE_ASSIGN(layer.weights_.emplace_back(),
                 source.take_stored(name + ".weight", {out, in}, {0, init_std}));
  if (!without_bias) {
    SACCADE_ASSIGN(layer.biases_.emplace_back(), source.take(name + ".bias", {out}, {}));
  }
  return layer;
}

Result<Linear> Linear::make_joint(ParameterSource& source, const std::vector<std::string>& names, int64_t in,
                                  int64_t out_each, double init_std, bool without_bias) {
  Linear joint;
  for (const std::string& name : names) {
    SACCADE_ASSIGN(const Linear part, make(source, name, in, out_each, init_std, without_bias));
    joint.weights_.push_back(part.weights_.front());
    if (!without_bias) joint.biases_.push_back(part.biases_.front());
  }
  return joint;
}

Linear::Linear(torch::Tensor weight, torch::Tensor bias) : weights_{std::move(weight)} {
  if (bias.defined()) biases_.push_back(std::move(bias));
}

torch::Tensor Linear::weight() const {
  return weights_.size() == 1 ? weights_.front() : torch::cat(weights_);
}

torch::Tensor Linear::bias() const {
  if (biases_.empty()) return {};
  return biases_.size() == 1 ? biases_.front() : torch::cat(biases_);
}

torch::Tensor Linear::forward(const torch::Tensor& x, Activation activation) const {
  if (packed_) return packed_->forward(x.to(packed_->dtype()).contiguous(), activation, x.scalar_type());
  const torch::Tensor b = bias();
  if (at::GradMode::is_enabled() && takes_linear_with_gradient(x)) {
    return activate(linear_with_gradient(x, weight(), b), activation);
  }
  return activate(at::linear(x, weight().to(x.scalar_type()), b.defined() ? b.to(x.scalar_type()) : b),
                  activation);
}

torch::Tensor Linear::add_to(torch::Tensor residual, const torch::Tensor& x) const {
  if (!packed_) return residual + forward(x);
  packed_->add_to(residual, x.to(packed_->dtype()).contiguous());
  return residual;
}

void Linear::pack(at::ScalarType dtype) {
  packed_ = std::make_shared<PackedLinear>(weight(), bias(), dtype);
  for (const torch::Tensor& packed : weights_) release_borrowed(packed);
  weights_.clear();
  biases_.clear();
}

Result<LayerNorm> LayerNorm::make(ParameterSource& source, const std::string& name, int64_t width,
                                  double eps) {
  LayerNorm layer;
  SACCADE_ASSIGN(layer.weight_, source.take(name + ".weight", {width}, {1, 0}));
  SACCADE_ASSIGN(layer.bias_, source.take(name + ".bias", {width}, {}));
  layer.eps_ = eps;
  return layer;
}

torch::Tensor LayerNorm::forward(const torch::Tensor& x, at::ScalarType dtype) const {
  if (takes_kernels(x) && x.scalar_type() == at::kFloat && (dtype == at::kFloat || dtype == at::kBFloat16)) {
    const torch::Tensor input = x.contiguous();
    torch::Tensor out = torch::empty(input.sizes(), dtype);
    NormTask task;
    task.width = weight_.numel();
    task.rows = input.numel() / task.width;
    task.x = input.data_ptr<float>();
    task.gain = weight_.data_ptr<float>();
    task.bias = bias_.data_ptr<float>();
    task.eps = static_cast<float>(eps_);
    task.out_type = element_of(dtype);
    task.out = out.data_ptr();
    normalize(task);
    return out;
  }
  return at::layer_norm(x, weight_.sizes(), weight_, bias_, eps_).to(dtype);
}

Result<TransformerBlock> TransformerBlock::make(ParameterSource& source, const std::string& prefix,
                                                const BlockNames& names, const TransformerShape& shape) {
  // CLIP's own initial values (Radford et al. 2021, released code): the output projections shrink with depth,
  // so that the residual stream's variance does not grow with it.
  const auto width = static_cast<double>(shape.width);
  const double attention_std = 1 / std::sqrt(width);
  const double output_std = attention_std / std::sqrt(2.0 * static_cast<double>(shape.layers));
  const double mlp_std = 1 / std::sqrt(2 * width);

  TransformerBlock block;
  block.heads_ = shape.heads;
  block.activation_ = shape.activation;
  SACCADE_ASSIGN(block.norm1_, LayerNorm::make(source, prefix + names.norm1, shape.width, shape.eps));
  const bool joint = names.key.empty();
  std::vector<std::string> parts = {prefix + names.query};
  if (!joint) parts.insert(parts.end(), {prefix + names.key, prefix + names.value});
  SACCADE_ASSIGN(block.query_key_value_,
                 Linear::make_joint(source, parts, shape.width, joint ? 3 * shape.width : shape.width,
                                    attention_std, !shape.attention_bias));
  SACCADE_ASSIGN(block.output_,
                 Linear::make(source, prefix + names.output, shape.width, shape.width, output_std));
  SACCADE_ASSIGN(block.norm2_, LayerNorm::make(source, prefix + names.norm2, shape.width, shape.eps));
  SACCADE_ASSIGN(block.mlp_in_,
                 Linear::make(source, prefix + names.mlp_in, shape.width, shape.mlp_width, mlp_std));
  SACCADE_ASSIGN(block.mlp_out_,
                 Linear::make(source, prefix + names.mlp_out, shape.mlp_width, shape.width, output_std));
  return block;
}

torch::Tensor TransformerBlock::forward(torch::Tensor x, const torch::Tensor& mask,
                                        at::ScalarType dtype) const {
  const torch::Tensor mixed = attention(query_key_value_.forward(norm1_.forward(x, dtype)), heads_, mask);
  x = output_.add_to(std::move(x), mixed);
  const torch::Tensor hidden = mlp_in_.forward(norm2_.forward(x, dtype), activation_);
  return mlp_out_.add_to(std::move(x), hidden);
}

torch::Tensor TransformerBlock::forward_at(const torch::Tensor& x, const torch::Tensor& mask,
                                           at::ScalarType dtype, const torch::Tensor& positions) const {
  const torch::Tensor entries = torch::arange(x.size(0), positions.options());
  const torch::Tensor mixed = attention(query_key_value_.forward(norm1_.forward(x, dtype)), heads_, mask);
  torch::Tensor rows = output_.add_to(x.index({entries, positions}), mixed.index({entries, positions}));
  const torch::Tensor hidden = mlp_in_.forward(norm2_.forward(rows, dtype), activation_);
  return mlp_out_.add_to(std::move(rows), hidden);
}

void TransformerBlock::pack(at::ScalarType dtype) {
  for (Linear* layer : {&query_key_value_, &output_, &mlp_in_, &mlp_out_}) layer->pack(dtype);
}

torch::Tensor attention(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask,
                        std::optional<double> scale) {
  const double factor = scale.value_or(usual_scale(qkv, heads));
  if (takes_kernels(qkv)) return fused_attention(qkv, heads, mask, factor);
  if (is_for_kernels(qkv) && !(mask.defined() && mask.requires_grad())) {
    return attention_with_gradient(qkv, heads, mask, factor);
  }
  const torch::Tensor parts = split_heads(qkv, heads);
  const torch::Tensor weights = weights_of(parts, qkv.size(0), mask, factor).to(qkv.scalar_type());
  return at::bmm(weights, parts[2])
      .view({qkv.size(0), heads, qkv.size(1), parts.size(3)})
      .transpose(1, 2)
      .reshape({qkv.size(0), qkv.size(1), qkv.size(2) / 3});
}

torch::Tensor attention_weights(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask) {
  return weights_of(split_heads(qkv, heads), qkv.size(0), mask, usual_scale(qkv, heads))
      .view({qkv.size(0), heads, qkv.size(1), qkv.size(1)});
}

torch::Tensor causal_mask(int64_t tokens) {
  return torch::full({tokens, tokens}, -std::numeric_limits<float>::infinity()).triu(1);
}

torch::Tensor patches(const torch::Tensor& pixels, int64_t patch) {
  const int64_t batch = pixels.size(0);
  const int64_t channels = pixels.size(1);
  const int64_t rows = pixels.size(2) / patch;
  const int64_t columns = pixels.size(3) / patch;
  return pixels.slice(2, 0, rows * patch)
      .slice(3, 0, columns * patch)
      .reshape({batch, channels, rows, patch, columns, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({batch, rows * columns, channels * patch * patch});
}

torch::Tensor normalize_rows(const torch::Tensor& rows) {
  return rows / rows.norm(2, -1, true).clamp_min(1e-12);
}

}  // namespace saccade::nn
