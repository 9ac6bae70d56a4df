#include "saccade/nn/post_norm.h"

namespace saccade::nn {

template class PostNormAttentionOf<Tensor>;
template class PostNormMlpOf<Tensor>;
template class PostNormBlockOf<Tensor>;

Result<PostNormCrossAttention> PostNormCrossAttention::make(ParameterSource& source,
                                                            const std::string& prefix,
                                                            const BlockNames& names,
                                                            const TransformerShape& shape,
                                                            int64_t memory_width) {
  PostNormCrossAttention part;
  part.heads_ = shape.heads;
  SACCADE_ASSIGN(part.query_,
                 Linear::make(source, prefix + names.query, shape.width, shape.width, kPostNormInitStd));
  SACCADE_ASSIGN(part.key_value_, Linear::make_joint(source, {prefix + names.key, prefix + names.value},
                                                     memory_width, shape.width, kPostNormInitStd));
  SACCADE_ASSIGN(part.output_,
                 Linear::make(source, prefix + names.output, shape.width, shape.width, kPostNormInitStd));
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

}  // namespace saccade::nn
