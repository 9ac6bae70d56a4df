#include "saccade/nn/post_norm.h"

namespace saccade::nn {
namespace {

constexpr double kInitStd = 0.02;  // BERT's "initializer_range"

}  // namespace

Result<PostNormAttention> PostNormAttention::make(ParameterSource& source, const std::string& prefix,
                                                  const BlockNames& names, const TransformerShape& shape) {
  PostNormAttention part;
  part.heads_ = shape.heads;
  SACCADE_ASSIGN(part.query_key_value_,
                 Linear::make_joint(source, {prefix + names.query, prefix + names.key, prefix + names.value},
                                    shape.width, shape.width, kInitStd));
  SACCADE_ASSIGN(part.output_,
                 Linear::make(source, prefix + names.output, shape.width, shape.width, kInitStd));
  SACCADE_ASSIGN(part.norm_, LayerNorm::make(source, prefix + names.norm1, shape.width, shape.eps));
  return part;
}

Tensor PostNormAttention::forward(Tensor x, const Tensor& mask, DType dtype, Tensor* weights) const {
  const Tensor qkv = query_key_value_.forward(x.to(dtype));
  if (weights != nullptr) *weights = attention_weights(qkv, heads_, mask);
  const Tensor mixed = attention(qkv, heads_, mask);
  return norm_.forward(output_.add_to(std::move(x), mixed), DType::kF32);
}

Tensor PostNormAttention::forward_at(const Tensor& x, const Tensor& mask, DType dtype,
                                     const Tensor& positions) const {
  const Tensor mixed = attention(query_key_value_.forward(x.to(dtype)), heads_, mask);
  return norm_.forward(output_.add_to(take_rows(x, positions), take_rows(mixed, positions)), DType::kF32);
}

void PostNormAttention::pack(DType dtype) {
  query_key_value_.pack(dtype);
  output_.pack(dtype);
}

Result<PostNormCrossAttention> PostNormCrossAttention::make(ParameterSource& source,
                                                            const std::string& prefix,
                                                            const BlockNames& names,
                                                            const TransformerShape& shape,
                                                            int64_t memory_width) {
  PostNormCrossAttention part;
  part.heads_ = shape.heads;
  SACCADE_ASSIGN(part.query_, Linear::make(source, prefix + names.query, shape.width, shape.width, kInitStd));
  SACCADE_ASSIGN(part.key_value_, Linear::make_joint(source, {prefix + names.key, prefix + names.value},
                                                     memory_width, shape.width, kInitStd));
  SACCADE_ASSIGN(part.output_,
                 Linear::make(source, prefix + names.output, shape.width, shape.width, kInitStd));
  SACCADE_ASSIGN(part.norm_, LayerNorm::make(source, prefix + names.norm1, shape.width, shape.eps));
  return part;
}

Tensor PostNormCrossAttention::forward(Tensor x, const Tensor& memory, DType dtype) const {
  const int64_t head_width = x.size(2) / heads_;
  const Tensor query = query_.forward(x.to(dtype)).view({x.size(0), x.size(1), heads_, head_width});
  const Tensor both =
      key_value_.forward(memory.to(dtype)).view({memory.size(0), memory.size(1), 2, heads_, head_width});
  const Tensor mixed = attention(query, both.select(2, 0), both.select(2, 1), {});
  return norm_.forward(output_.add_to(std::move(x), mixed), DType::kF32);
}

void PostNormCrossAttention::pack(DType dtype) {
  for (Linear* layer : {&query_, &key_value_, &output_}) layer->pack(dtype);
}

Result<PostNormMlp> PostNormMlp::make(ParameterSource& source, const std::string& prefix,
                                      const BlockNames& names, const TransformerShape& shape) {
  PostNormMlp part;
  part.activation_ = shape.activation;
  SACCADE_ASSIGN(part.in_,
                 Linear::make(source, prefix + names.mlp_in, shape.width, shape.mlp_width, kInitStd));
  SACCADE_ASSIGN(part.out_,
                 Linear::make(source, prefix + names.mlp_out, shape.mlp_width, shape.width, kInitStd));
  SACCADE_ASSIGN(part.norm_, LayerNorm::make(source, prefix + names.norm2, shape.width, shape.eps));
  return part;
}

Tensor PostNormMlp::forward(Tensor x, DType dtype) const {
  const Tensor hidden = in_.forward(x.to(dtype), activation_);
  return norm_.forward(out_.add_to(std::move(x), hidden), DType::kF32);
}

void PostNormMlp::pack(DType dtype) {
  in_.pack(dtype);
  out_.pack(dtype);
}

Result<PostNormBlock> PostNormBlock::make(ParameterSource& source, const std::string& prefix,
                                          const BlockNames& names, const TransformerShape& shape) {
  PostNormBlock block;
  SACCADE_ASSIGN(block.attention_, PostNormAttention::make(source, prefix, names, shape));
  SACCADE_ASSIGN(block.mlp_, PostNormMlp::make(source, prefix, names, shape));
  return block;
}

Tensor PostNormBlock::forward(Tensor x, const Tensor& mask, DType dtype, Tensor* weights) const {
  return mlp_.forward(attention_.forward(std::move(x), mask, dtype, weights), dtype);
}

Tensor PostNormBlock::forward_at(const Tensor& x, const Tensor& mask, DType dtype,
                                 const Tensor& positions) const {
  return mlp_.forward(attention_.forward_at(x, mask, dtype, positions), dtype);
}

void PostNormBlock::pack(DType dtype) {
  attention_.pack(dtype);
  mlp_.pack(dtype);
}

}  // namespace saccade::nn
