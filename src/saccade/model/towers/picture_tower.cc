#include "saccade/model/towers/picture_tower.h"

#include <cmath>

#include "saccade/nn/operations.h"

namespace saccade {
namespace {

using nn::Tensor;

// Returns [n, tokens] with 1 at each entry's first token.
Tensor first_tokens(int64_t n, int64_t tokens) {
  const Tensor weights = Tensor::zeros({n, tokens});
  weights.select(1, 0).copy_from(Tensor::full({n}, 1));
  return weights;
}

// Computes the relevance of the block's own attention to a score, given the gradient with respect to the
// block's states.
Tensor relevance_of(const CrossedBlock& block, const nn::BlockTrace& trace, const Tensor& mixed,
                    const Tensor& weights, bool times_attention) {
  nn::RelevanceInput input = nn::relevance_input(trace.qkv, block.heads);
  input.query = input.query.slice(1, 0, mixed.size(1));
  input.gradient = mixed;
  input.weights = weights;
  input.times_attention = times_attention;
  return nn::attention_relevance(input);
}

Tensor legrad(const PictureTower& tower, Tensor x, const StateChange& change) {
  Tensor sum = Tensor::zeros({x.size(0), x.size(1)}, DType::kF32, x.workspace());
  for (const CrossedBlock& block : tower.blocks) {
    nn::BlockTrace trace;
    x = block.forward(x, trace);
    // If the tower pools by attention, the score is traced to the pooling's weights (the paper's section on
    // attentional pooling). Each block's states replace the last one's.
    const Pooled pooled = tower.pool(x, change, {.gradient = !tower.pools_by_attention});
    if (tower.pools_by_attention) {
      sum = sum + pooled.relevance;
      continue;
    }
    const nn::BlockGradient gradient = block.to_attention(trace, pooled.gradient);
    const Tensor weights =
        Tensor::full({x.size(0), gradient.mixed.size(1)}, 1 / static_cast<float>(x.size(1)));
    sum = sum + relevance_of(block, trace, gradient.mixed, weights, false);
  }
  return sum;
}

// Propagates the relevance r of each token to the pooled state through the blocks, from the last to the
// first. With R = (I + A_L) ... (I + A_1), the total relevance is r_L (I + A_L) ... (I + A_1). So no [tokens,
// tokens] matrix is kept, but the blocks' intermediate values are.
Tensor chefer(const PictureTower& tower, Tensor x, const StateChange& change) {
  const int64_t n = x.size(0);
  const int64_t tokens = x.size(1);
  std::vector<nn::BlockTrace> traces(tower.blocks.size());
  for (size_t i = 0; i < traces.size(); ++i) x = tower.blocks[i].forward(x, traces[i]);
  const Pooled pooled = tower.pool(x, change, {.times_attention = true});
  Tensor relevance = tower.pools_by_attention ? pooled.relevance : first_tokens(n, tokens).in(x.workspace());
  Tensor gradient = pooled.gradient;
  if (gradient.size(1) < tokens) {
    const Tensor rest = Tensor::zeros({n, tokens - gradient.size(1), x.size(2)}, DType::kF32, x.workspace());
    gradient = nn::cat({gradient, rest}, 1);
  }
  for (size_t i = tower.blocks.size(); i-- > 0;) {
    const CrossedBlock& block = tower.blocks[i];
    const nn::BlockGradient crossed = block.to_attention(traces[i], gradient);
    relevance = relevance + relevance_of(block, traces[i], crossed.mixed, relevance, true);
    if (i > 0) gradient = block.from_attention(traces[i], crossed);
    traces.pop_back();
  }
  return relevance;
}

}  // namespace

CrossedBlock crossed(const nn::TransformerBlock& block, DType dtype) {
  CrossedBlock result;
  result.forward = [&block, dtype](const Tensor& x, nn::BlockTrace& trace) {
    return block.forward_traced(x, dtype, trace);
  };
  result.to_attention = [&block](const nn::BlockTrace& trace, const Tensor& gradient) {
    return block.backward_to_attention(trace, gradient);
  };
  result.from_attention = [&block](const nn::BlockTrace& trace, const nn::BlockGradient& gradient) {
    return block.backward_from_attention(trace, gradient);
  };
  result.heads = block.heads();
  return result;
}

Tensor cosine_gradient(const Tensor& rows, const Tensor& target) {
  const Tensor in = rows.to(DType::kF32).contiguous();
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, rows.workspace());
  const int64_t width = in.size(1);
  const Tensor targets = target.to(DType::kF32).contiguous();
  // d cos / d row = (target - cos * row / |row|) / |row|.
  for (int64_t i = 0; i < in.size(0); ++i) {
    const float* to = targets.data<float>() + (targets.dim() == 2 ? i * width : 0);
    const float* row = in.data<float>() + i * width;
    double square = 0;
    double dot = 0;
    for (int64_t c = 0; c < width; ++c) {
      square += double{row[c]} * row[c];
      dot += double{row[c]} * to[c];
    }
    const double length = std::sqrt(square);
    for (int64_t c = 0; c < width; ++c) {
      const double change = length > 0 ? (to[c] - dot / square * row[c]) / length : 0.0;
      out.data<float>()[i * width + c] = static_cast<float>(change);
    }
  }
  return out;
}

Tensor projected_gradient(const nn::Linear* projection, const Tensor& states,
                          const StateChange& of_unit_rows) {
  const Tensor rows = projection == nullptr ? states : projection->forward(states);
  const Tensor gradient = cosine_gradient(rows, of_unit_rows(nn::normalize_rows(rows)));
  return projection == nullptr ? gradient : projection->backward(gradient);
}

Pooled pool_first(const nn::LayerNorm& norm, const Tensor& tokens, const StateChange& change) {
  const Tensor first = tokens.select(1, 0).contiguous();
  const Tensor gradient = change(norm.forward(first, DType::kF32));
  return {{}, norm.backward(first, gradient).view({first.size(0), 1, first.size(1)})};
}

Tensor map_tower(const PictureTower& tower, const Tensor& pixels, const StateChange& change,
                 MapMethod method) {
  const Tensor x = tower.embed(pixels);
  const Tensor all = method == MapMethod::kLegrad ? legrad(tower, x, change) : chefer(tower, x, change);
  return all.slice(1, tower.class_tokens).contiguous();
}

}  // namespace saccade
