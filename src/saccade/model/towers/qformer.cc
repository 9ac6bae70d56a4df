#include "saccade/model/towers/qformer.h"

namespace saccade {

nn::BlockNames qformer_attention_names(const std::string& part) {
  return {part + ".output.LayerNorm",
          part + ".attention.query",
          part + ".attention.key",
          part + ".attention.value",
          part + ".output.dense",
          "",
          "",
          ""};
}

nn::BlockNames qformer_mlp_names(const std::string& suffix) {
  nn::BlockNames names;
  names.mlp_in = "intermediate" + suffix + ".dense";
  names.mlp_out = "output" + suffix + ".dense";
  names.norm2 = "output" + suffix + ".LayerNorm";
  return names;
}

template <>
nn::Tensor QFormerOf<nn::Tensor>::relevance(
    const nn::Tensor& memory, DType dtype,
    const std::function<QueryGradient(const nn::Tensor&)>& score) const {
  using nn::Tensor;
  const int64_t n = memory.size(0);
  Tensor sum = Tensor::zeros({n, memory.size(1)}, DType::kF32, memory.workspace());
  Tensor x = norm_.forward(query_tokens_.in(memory.workspace()).expand({n, -1, -1}), DType::kF32);
  for (const Block& block : blocks_) {
    x = block.attention.forward(std::move(x), {}, dtype);
    if (!block.cross_attention) {
      x = block.query_mlp.forward(std::move(x), dtype);
      continue;
    }
    nn::PostNormCrossAttention::Trace trace;
    const Tensor looked = block.cross_attention->forward_traced(x, memory, dtype, trace);
    x = block.query_mlp.forward(looked.clone(), dtype);
    const QueryGradient chosen = score(x);
    const Tensor which = Tensor::of(chosen.query, {n});
    const Tensor change = block.query_mlp.backward(nn::take_rows(looked, which), chosen.change);
    nn::RelevanceInput input;
    const Tensor mixed =
        block.cross_attention->backward_to_attention(nn::take_rows(trace.sum, which), change);
    const int64_t heads = trace.query.size(2);
    const Tensor queries = trace.query.view({n, trace.query.size(1), -1});
    input.query = nn::take_rows(queries, which).view({n, 1, heads, -1});
    input.key = trace.key_value.select(2, 0);
    input.value = trace.key_value.select(2, 1);
    input.gradient = mixed.view({n, 1, -1});
    input.weights = Tensor::full({n, 1}, 1);
    sum = sum + nn::attention_relevance(input);
  }
  return sum;
}

template class QFormerOf<nn::Tensor>;

}  // namespace saccade
