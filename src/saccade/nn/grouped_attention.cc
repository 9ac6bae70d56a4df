#include "saccade/nn/grouped_attention.h"

#include <cmath>

#include "saccade/nn/layers.h"

namespace saccade::nn {

torch::Tensor grouped_attention(const torch::Tensor& query, const torch::Tensor& key,
                                const torch::Tensor& value, const torch::Tensor& mask) {
  const int64_t batch = query.size(0);
  const int64_t queries = query.size(1);
  const int64_t heads = query.size(2);
  const int64_t width = query.size(3);
  const int64_t keys = key.size(1);
  const int64_t key_heads = key.size(2);
  const auto spread = [&](const torch::Tensor& x) {  // [batch, keys, heads, width], each head for its group
    return x.unsqueeze(3)
        .expand({batch, keys, key_heads, heads / key_heads, width})
        .reshape({batch, keys, heads, width});
  };
  if (queries == keys && !at::GradMode::is_enabled()) {
    // Spreading costs less than a thousandth of the products, and the kernels want it so.
    const torch::Tensor qkv =
        torch::stack({query, spread(key), spread(value)}, 2).view({batch, keys, 3 * heads * width});
    return attention(qkv, heads, mask);
  }
  const torch::Tensor q = query.transpose(1, 2) * (1 / std::sqrt(static_cast<double>(width)));
  torch::Tensor scores = at::matmul(q, spread(key).permute({0, 2, 3, 1})).to(at::kFloat);
  if (mask.defined()) scores = scores + mask;
  const torch::Tensor weights = at::softmax(scores, -1).to(query.scalar_type());
  return at::matmul(weights, spread(value).transpose(1, 2))
      .transpose(1, 2)
      .reshape({batch, queries, heads * width});
}

Rotary::Rotary(int64_t head_width, double theta) {
  // In float32 step by step, as the reference: at position 1,000 the last bit of a frequency shows.
  const torch::Tensor exponents =
      torch::arange(0, head_width, 2, at::kLong).to(at::kFloat) / static_cast<double>(head_width);
  frequencies_ = 1.0 / torch::pow(theta, exponents).to(at::kFloat);
}

Rotary::Angles Rotary::angles(int64_t first, int64_t tokens) const {
  const torch::Tensor positions = torch::arange(first, first + tokens, at::kLong).to(at::kFloat);
  const torch::Tensor half = positions.unsqueeze(1) * frequencies_.unsqueeze(0);
  const torch::Tensor whole = torch::cat({half, half}, 1).unsqueeze(1);
  return {whole.cos(), whole.sin()};
}

torch::Tensor Rotary::turn(const torch::Tensor& x, const Angles& angles) {
  const torch::Tensor plain = x.to(at::kFloat);
  const std::vector<torch::Tensor> halves = plain.chunk(2, -1);
  const torch::Tensor rotated = torch::cat({-halves[1], halves[0]}, -1);
  return (plain * angles.cos + rotated * angles.sin).to(x.scalar_type());
}

}  // namespace saccade::nn
