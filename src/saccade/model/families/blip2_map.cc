// Relevance maps for scores of a Q-Former's queries.
#include "saccade/model/families/blip2.h"
#include "saccade/model/towers/picture_tower.h"
#include "saccade/nn/attention_gradient.h"

namespace saccade {
namespace {

using nn::Tensor;

// Computes matrix * vector, or vector * matrix, for each entry. matrices: [n, rows, columns]; vectors: [n,
// columns] or [n, rows].
Tensor times(const Tensor& matrices, const Tensor& vectors) {
  std::vector<Tensor> each;
  for (int64_t i = 0; i < matrices.size(0); ++i) {
    each.push_back(nn::row_products(vectors[i].unsqueeze(0), matrices[i]));
  }
  return nn::cat(each);
}
Tensor times_from_left(const Tensor& vectors, const Tensor& matrices) {
  return times(matrices.transpose(1, 2).contiguous(), vectors);
}

// Computes A of every block of the tower, [n, tokens, tokens] each, from the score's gradient with respect to
// the tower's last states.
std::vector<Tensor> tower_relevance(const std::vector<CrossedBlock>& blocks,
                                    std::vector<nn::BlockTrace> traces, Tensor gradient) {
  std::vector<Tensor> matrices(blocks.size());
  for (size_t i = blocks.size(); i-- > 0;) {
    const nn::BlockGradient crossed = blocks[i].to_attention(traces[i], gradient);
    nn::RelevanceInput input = nn::relevance_input(traces[i].qkv, blocks[i].heads);
    input.gradient = crossed.mixed;
    input.times_attention = true;
    matrices[i] = nn::relevance_matrix(input);
    if (i > 0) gradient = blocks[i].from_attention(traces[i], crossed);
    traces.pop_back();
  }
  return matrices;
}

// Computes relevance N(R), [n, tokens], where R = (I + A_last) ... (I + A_first). With S = R - I and its row
// sums s, this is relevance / s * S + relevance. S itself is never formed; only products with vectors are.
Tensor through(const std::vector<Tensor>& matrices, const Tensor& relevance) {
  const Tensor ones = Tensor::full(relevance.sizes(), 1);
  Tensor sums = Tensor::zeros(relevance.sizes());
  for (const Tensor& matrix : matrices) sums = sums + times(matrix, sums + ones);
  const Tensor shares = relevance.clone();
  for (int64_t i = 0; i < shares.numel(); ++i) {
    const float sum = sums.data<float>()[i];
    float& share = shares.data<float>()[i];
    share = sum > 0 ? share / sum : 0;
  }
  Tensor passed = Tensor::zeros(relevance.sizes());
  for (size_t i = matrices.size(); i-- > 0;) {
    passed = passed + times_from_left(shares + passed, matrices[i]);
  }
  return relevance + passed;
}

}  // namespace

Tensor map_queries(const Blip2Vision& vision, const QFormer& qformer, const Tensor& pixels,
                   const StateScore& score, MapMethod method, DType dtype) {
  constexpr int64_t kClassTokens = 1;
  if (method == MapMethod::kLegrad) {
    return qformer.legrad(vision.forward(pixels, dtype), dtype, score).slice(1, kClassTokens).contiguous();
  }
  std::vector<CrossedBlock> blocks;
  for (const nn::TransformerBlock& block : vision.blocks()) blocks.push_back(crossed(block, dtype));
  std::vector<nn::BlockTrace> traces(blocks.size());
  Tensor x = vision.embed(pixels, dtype);
  for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i].forward(x, traces[i]);
  const QFormer::Followed followed = qformer.chefer(vision.norm().forward(x, DType::kF32), dtype, score);
  const Tensor gradient = vision.norm().backward(x, followed.gradient);
  return through(tower_relevance(blocks, std::move(traces), gradient), followed.relevance)
      .slice(1, kClassTokens)
      .contiguous();
}

}  // namespace saccade
