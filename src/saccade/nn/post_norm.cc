#include "saccade/nn/post_norm.h"

#include <cmath>
#include <limits>

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

torch::Tensor PostNormAttention::forward(torch::Tensor x, const torch::Tensor& mask, at::ScalarType dtype,
                                         torch::Tensor* weights) const {
  const torch::Tensor qkv = query_key_value_.forward(x.to(dtype));
  if (weights != nullptr) *weights = attention_weights(qkv, heads_, mask);
  const torch::Tensor mixed = attention(qkv, heads_, mask);
  return norm_.forward(output_.add_to(std::move(x), mixed), at::kFloat);
}

torch::Tensor PostNormAttention::forward_at(const torch::Tensor& x, const torch::Tensor& mask,
                                            at::ScalarType dtype, const torch::Tensor& positions) const {
  const torch::Tensor entries = torch::arange(x.size(0), positions.options());
  const torch::Tensor mixed = attention(query_key_value_.forward(x.to(dtype)), heads_, mask);
  return norm_.forward(output_.add_to(x.index({entries, positions}), mixed.index({entries, positions})),
                       at::kFloat);
}

void PostNormAttention::pack(at::ScalarType dtype) {
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

torch::Tensor PostNormCrossAttention::forward(torch::Tensor x, const torch::Tensor& memory,
                                              at::ScalarType dtype) const {
  const int64_t batch = x.size(0);
  const int64_t head_width = x.size(2) / heads_;
  // [n, tokens, parts * width] to [parts][n, heads, tokens, head_width]
  const auto split = [&](const torch::Tensor& joint, int64_t parts) {
    return joint.view({joint.size(0), joint.size(1), parts, heads_, head_width}).permute({2, 0, 3, 1, 4});
  };
  // One memory for all is repeated here, behind its product.
  const auto whole = [&](const torch::Tensor& part) {
    return part.expand({batch, heads_, part.size(2), head_width})
        .reshape({batch * heads_, part.size(2), head_width});
  };
  const torch::Tensor query =
      whole(split(query_.forward(x.to(dtype)), 1)[0]) * (1 / std::sqrt(static_cast<double>(head_width)));
  const torch::Tensor key_value = split(key_value_.forward(memory.to(dtype)), 2);
  const torch::Tensor scores = at::bmm(query, whole(key_value[0]).transpose(1, 2)).to(at::kFloat);
  const torch::Tensor mixed = at::bmm(at::softmax(scores, -1).to(dtype), whole(key_value[1]))
                                  .view({batch, heads_, x.size(1), head_width})
                                  .transpose(1, 2)
                                  .reshape(x.sizes());
  return norm_.forward(output_.add_to(std::move(x), mixed), at::kFloat);
}

void PostNormCrossAttention::pack(at::ScalarType dtype) {
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

torch::Tensor PostNormMlp::forward(torch::Tensor x, at::ScalarType dtype) const {
  const torch::Tensor hidden = in_.forward(x.to(dtype), activation_);
  return norm_.forward(out_.add_to(std::move(x), hidden), at::kFloat);
}

void PostNormMlp::pack(at::ScalarType dtype) {
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

torch::Tensor PostNormBlock::forward(torch::Tensor x, const torch::Tensor& mask, at::ScalarType dtype,
                                     torch::Tensor* weights) const {
  return mlp_.forward(attention_.forward(std::move(x), mask, dtype, weights), dtype);
}

torch::Tensor PostNormBlock::forward_at(const torch::Tensor& x, const torch::Tensor& mask,
                                        at::ScalarType dtype, const torch::Tensor& positions) const {
  return mlp_.forward(attention_.forward_at(x, mask, dtype, positions), dtype);
}

void PostNormBlock::pack(at::ScalarType dtype) {
  attention_.pack(dtype);
  mlp_.pack(dtype);
}

torch::Tensor padding_mask(const torch::Tensor& attention_mask) {
  const torch::Tensor left_out = attention_mask.unsqueeze(1).unsqueeze(1) == 0;
  return torch::zeros(left_out.sizes(), attention_mask.options().dtype(at::kFloat))
      .masked_fill(left_out, -std::numeric_limits<double>::infinity());
}

}  // namespace saccade::nn
