#include "saccade/nn/post_norm.h"

namespace saccade::nn {

template <>
Tensor PostNormCrossAttentionOf<Tensor>::forward_traced(const Tensor& x, const Tensor& memory, DType dtype,
                                                        Trace& trace) const {
  const Shape heads = {x.size(0), x.size(1), heads_, x.size(2) / heads_};
  trace.query = query_.forward(x.to(dtype)).to(DType::kF32).contiguous().view(heads);
  trace.key_value = key_value_.forward(memory.to(dtype))
                        .to(DType::kF32)
                        .contiguous()
                        .view({memory.size(0), memory.size(1), 2, heads[2], heads[3]});
  const Tensor mixed = attention(trace.query, trace.key_value.select(2, 0), trace.key_value.select(2, 1), {});
  trace.sum = output_.add_to(x.clone(), mixed);
  return norm_.forward(trace.sum, DType::kF32);
}

template <>
Tensor PostNormCrossAttentionOf<Tensor>::backward_to_attention(const Tensor& sum,
                                                               const Tensor& gradient) const {
  return output_.backward(norm_.backward(sum, gradient));
}

template <>
Tensor PostNormMlpOf<Tensor>::backward(const Tensor& x, const Tensor& gradient) const {
  const Tensor before = in_.forward(x);
  const Tensor sum = out_.add_to(x.clone(), activate(before, activation_));
  const Tensor change = norm_.backward(sum, gradient);
  return change + in_.backward(activation_backward(before, activation_, out_.backward(change)));
}

template class PostNormAttentionOf<Tensor>;
template class PostNormCrossAttentionOf<Tensor>;
template class PostNormMlpOf<Tensor>;
template class PostNormBlockOf<Tensor>;

}  // namespace saccade::nn
