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
                 source.take_stored(name + ".attention.in_proj_weight", {3 * width, width}, {0, std}));
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

Tensor AttentionPool::forward_traced(const Tensor& x, DType dtype, Trace& trace) const {
  const int64_t batch = x.size(0);
  const int64_t width = x.size(2);
  const int64_t head_width = width / heads_;
  trace.query = query_.forward(probe_.to(dtype))
                    .to(DType::kF32)
                    .view({1, 1, heads_, head_width})
                    .expand({batch, 1, heads_, head_width})
                    .contiguous();
  trace.key_value = key_value_.forward(x.to(dtype))
                        .to(DType::kF32)
                        .contiguous()
                        .view({batch, x.size(1), 2, heads_, head_width});
  const Tensor mixed = attention(trace.query.in(x.workspace()), trace.key_value.select(2, 0),
                                 trace.key_value.select(2, 1), {});
  trace.before_mlp = output_.forward(mixed).view({batch, width});
  const Tensor hidden = mlp_in_.forward(norm_.forward(trace.before_mlp, dtype), activation_);
  return mlp_out_.add_to(trace.before_mlp.clone(), hidden);
}

Tensor AttentionPool::backward_to_attention(const Trace& trace, const Tensor& gradient) const {
  const Tensor before = mlp_in_.forward(norm_.forward(trace.before_mlp, DType::kF32));
  const Tensor hidden = activation_backward(before, activation_, mlp_out_.backward(gradient));
  const Tensor out = gradient + norm_.backward(trace.before_mlp, mlp_in_.backward(hidden));
  return output_.backward(out).view({out.size(0), 1, out.size(1)});
}

Tensor AttentionPool::backward_from_attention(const Trace& trace, const Tensor& mixed) const {
  const Tensor both =
      key_value_backward(trace.query, trace.key_value.select(2, 0), trace.key_value.select(2, 1), mixed);
  return key_value_.backward(both.view({both.size(0), both.size(1), -1}));
}

RelevanceInput AttentionPool::relevance_input(const Trace& trace) {
  RelevanceInput input;
  input.query = trace.query;
  input.key = trace.key_value.select(2, 0);
  input.value = trace.key_value.select(2, 1);
  return input;
}

void AttentionPool::pack(DType dtype) {
  for (Linear* layer : {&query_, &key_value_, &output_, &mlp_in_, &mlp_out_}) layer->pack(dtype);
}

}  // namespace saccade::nn
