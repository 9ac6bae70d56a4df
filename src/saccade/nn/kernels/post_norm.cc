#include "saccade/nn/kernels/post_norm.h"

#include "saccade/nn/attention_gradient.h"

namespace saccade::nn {
namespace {

// Propagates a gradient through a part's norm to its sum, and through its output layer to the attention
// output.
BlockGradient before_output(const LayerNorm& norm, const Linear& output, const Tensor& sum,
                            const Tensor& gradient) {
  BlockGradient result;
  result.middle = norm.backward(sum, gradient);
  result.mixed = output.backward(result.middle);
  return result;
}

}  // namespace

template <>
Tensor PostNormAttentionOf<Tensor>::forward_traced(const Tensor& x, DType dtype, Trace& trace) const {
  trace.qkv = query_key_value_.forward(x.to(dtype)).to(DType::kF32);
  const Tensor mixed = attention(trace.qkv, heads_, {});
  trace.sum = output_.add_to(x.clone(), mixed);
  return norm_.forward(trace.sum, DType::kF32);
}

template <>
BlockGradient PostNormAttentionOf<Tensor>::backward_to_attention(const Trace& trace,
                                                                 const Tensor& gradient) const {
  return before_output(norm_, output_, trace.sum, gradient);
}

template <>
Tensor PostNormAttentionOf<Tensor>::backward_from_attention(const Trace& trace,
                                                            const BlockGradient& gradient) const {
  return gradient.middle + query_key_value_.backward(attention_backward(trace.qkv, heads_, gradient.mixed));
}

template <>
RelevanceInput PostNormAttentionOf<Tensor>::relevance_input(const Trace& trace) const {
  return nn::relevance_input(trace.qkv, heads_);
}

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
BlockGradient PostNormCrossAttentionOf<Tensor>::backward_to_attention(const Trace& trace,
                                                                      const Tensor& gradient) const {
  return before_output(norm_, output_, trace.sum, gradient);
}

template <>
PostNormCrossAttentionOf<Tensor>::Gradient PostNormCrossAttentionOf<Tensor>::backward_from_attention(
    const Trace& trace, const BlockGradient& gradient) const {
  const AttentionGradient change = attention_gradient(trace.query, trace.key_value.select(2, 0),
                                                      trace.key_value.select(2, 1), gradient.mixed);
  const Tensor& pairs = change.key_value;
  return {gradient.middle + query_.backward(change.query.view(gradient.middle.sizes())),
          key_value_.backward(pairs.view({pairs.size(0), pairs.size(1), -1}))};
}

template <>
RelevanceInput PostNormCrossAttentionOf<Tensor>::relevance_input(const Trace& trace) {
  RelevanceInput input;
  input.query = trace.query;
  input.key = trace.key_value.select(2, 0);
  input.value = trace.key_value.select(2, 1);
  return input;
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
