#include "saccade/nn/attention_pool.h"

#include <cmath>

namespace saccade::nn {

Result<AttentionPool> AttentionPool::make(ParameterSource& source, const std::string& name,
                                          const TransformerShape& shape) {
  const int64_t width = shape.width;
  const double std = 1 / std::sqrt(static_cast<double>(width));
  AttentionPool pool;
  pool.heads_ = shape.heads;
  pool.activation_ = shape.activation;
  SACCADE_ASSIGN(pool.probe_, source.take(name + ".probe", {1, 1, width}, {0, std}));
  SACCADE_ASSIGN(const Tensor weight,
                 source.take(name + ".attention.in_proj_weight", {3 * width, width}, {0, std}));
  SACCADE_ASSIGN(const Tensor bias, source.take(name + ".attention.in_proj_bias", {3 * width}, {}));
  pool.query_ = Linear(weight.slice(0, 0, width), bias.slice(0, 0, width));
  pool.key_value_ = Linear(weight.slice(0, width), bias.slice(0, width));
  SACCADE_ASSIGN(pool.output_, Linear::make(source, name + ".attention.out_proj", width, width, std));
  SACCADE_ASSIGN(pool.norm_, LayerNorm::make(source, name + ".layernorm", width, shape.eps));
  SACCADE_ASSIGN(pool.mlp_in_, Linear::make(source, name + ".mlp.fc1", width, shape.mlp_width, std));
  SACCADE_ASSIGN(pool.mlp_out_, Linear::make(source, name + ".mlp.fc2", shape.mlp_width, width, std));
  return pool;
}

Tensor AttentionPool::forward(const Tensor& x, DType dtype) const {
  const int64_t batch = x.size(0);
  const int64_t width = x.size(2);
  const int64_t head_width = width / heads_;
  const Tensor query = query_.forward(probe_.to(dtype)).view({1, 1, heads_, head_width});
  const Tensor both = key_value_.forward(x.to(dtype)).view({batch, x.size(1), 2, heads_, head_width});
  const Tensor mixed =
      attention(query.expand({batch, 1, heads_, head_width}), both.select(2, 0), both.select(2, 1), {});
  Tensor out = output_.forward(mixed).to(DType::kF32).view({batch, width});
  const Tensor hidden = mlp_in_.forward(norm_.forward(out, dtype), activation_);
  return mlp_out_.add_to(std::move(out), hidden);
}

void AttentionPool::pack(DType dtype) {
  for (Linear* layer : {&query_, &key_value_, &output_, &mlp_in_, &mlp_out_}) layer->pack(dtype);
}

}  // namespace saccade::nn
