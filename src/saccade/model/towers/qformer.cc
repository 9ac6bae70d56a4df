#include "saccade/model/towers/qformer.h"

#include <numeric>
#include <span>

#include "saccade/nn/attention_gradient.h"

namespace saccade {
namespace {

using nn::Tensor;

// Multiplies a: [n, rows, inner] by b: [n, inner, columns] -> [n, rows, columns].
Tensor products(const Tensor& a, const Tensor& b) {
  std::vector<Tensor> each;
  for (int64_t i = 0; i < a.size(0); ++i) {
    each.push_back(nn::row_products(a[i], b[i].t().contiguous()).unsqueeze(0));
  }
  return nn::cat(each);
}

// Normalizes the rows of matrices [n, rows, columns] to a sum of 1; rows of 0 are kept.
Tensor with_unit_sums(const Tensor& matrices) {
  const Tensor result = matrices.clone();
  const auto width = static_cast<size_t>(result.size(2));
  for (size_t at = 0; at < static_cast<size_t>(result.numel()); at += width) {
    const std::span<float> row = result.floats().subspan(at, width);
    const float sum = std::accumulate(row.begin(), row.end(), 0.0F);
    for (float& value : row) value = sum > 0 ? value / sum : 0;
  }
  return result;
}

}  // namespace

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
nn::Tensor QFormerOf<nn::Tensor>::legrad(const nn::Tensor& memory, DType dtype,
                                         const StateScore& score) const {
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
    const Tensor change = block.query_mlp.backward(looked, score(x).change);
    nn::RelevanceInput input = nn::PostNormCrossAttention::relevance_input(trace);
    input.gradient = block.cross_attention->backward_to_attention(trace, change).mixed;
    input.weights = Tensor::full({n, x.size(1)}, 1);
    sum = sum + nn::attention_relevance(input);
  }
  return sum;
}

template <>
QFormerOf<nn::Tensor>::Followed QFormerOf<nn::Tensor>::chefer(const nn::Tensor& memory, DType dtype,
                                                              const StateScore& score) const {
  struct Step {
    nn::PostNormAttention::Trace attention;
    nn::PostNormCrossAttention::Trace cross_attention;
    Tensor before_mlp;
    Tensor self;              // A of the queries: [n, queries, queries]
    nn::RelevanceInput over;  // the memory
    Tensor known;             // R_qq - I at the cross-attention
  };
  const int64_t n = memory.size(0);
  std::vector<Step> steps(blocks_.size());
  Tensor x = norm_.forward(query_tokens_.in(memory.workspace()).expand({n, -1, -1}), DType::kF32);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Block& block = blocks_[i];
    x = block.attention.forward_traced(x, dtype, steps[i].attention);
    if (block.cross_attention) {
      x = block.cross_attention->forward_traced(x, memory, dtype, steps[i].cross_attention);
    }
    steps[i].before_mlp = x;
    x = block.query_mlp.forward(x.clone(), dtype);
  }

  const StateGradient last = score(x);
  Tensor gradient = last.change;
  Followed followed;
  followed.gradient = Tensor::zeros(memory.sizes(), DType::kF32, memory.workspace());
  for (size_t i = steps.size(); i-- > 0;) {
    const Block& block = blocks_[i];
    Step& step = steps[i];
    gradient = block.query_mlp.backward(step.before_mlp, gradient);
    if (block.cross_attention) {
      const nn::BlockGradient crossed =
          block.cross_attention->backward_to_attention(step.cross_attention, gradient);
      step.over = nn::PostNormCrossAttention::relevance_input(step.cross_attention);
      step.over.gradient = crossed.mixed;
      step.over.times_attention = true;
      const auto below = block.cross_attention->backward_from_attention(step.cross_attention, crossed);
      gradient = below.x;
      followed.gradient = followed.gradient + below.memory;
    }
    const nn::BlockGradient crossed = block.attention.backward_to_attention(step.attention, gradient);
    nn::RelevanceInput input = block.attention.relevance_input(step.attention);
    input.gradient = crossed.mixed;
    input.times_attention = true;
    step.self = nn::relevance_matrix(input);
    if (i > 0) gradient = block.attention.backward_from_attention(step.attention, crossed);
  }

  // R - I is kept separately, because it is small compared with I.
  Tensor known = Tensor::zeros({n, x.size(1), x.size(1)});
  for (size_t i = 0; i < steps.size(); ++i) {
    known = known + steps[i].self + products(steps[i].self, known);
    if (blocks_[i].cross_attention) steps[i].known = known;
  }
  followed.relevance = Tensor::zeros({n, memory.size(1)}, DType::kF32, memory.workspace());
  Tensor row = last.weights.unsqueeze(1);  // [n, 1, queries]: of R_qq, from the last block down
  for (size_t i = steps.size(); i-- > 0;) {
    Step& step = steps[i];
    if (blocks_[i].cross_attention) {
      const Tensor others = with_unit_sums(step.known).transpose(1, 2).contiguous();
      step.over.weights = (row + products(row, others)).view({n, x.size(1)});
      followed.relevance = followed.relevance + nn::attention_relevance(step.over);
    }
    row = row + products(row, step.self);
  }
  return followed;
}

template class QFormerOf<nn::Tensor>;

}  // namespace saccade
