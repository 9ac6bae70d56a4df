// Attention whose queries, keys and values come apart: fewer heads of keys than of queries (Ainslie et al.
// 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints"), other tokens
// to look at than those that look; and rotary positions (Su et al. 2021, "RoFormer").
#pragma once

#include "saccade/nn/torch.h"

namespace saccade::nn {

// softmax(q k^T / sqrt(head_width) + mask) v. query: [batch, queries, heads, head_width]; key, value: [batch,
// keys, key_heads, head_width], heads a multiple of key_heads: each serves heads / key_heads neighbours.
// mask: undefined, or float32 broadcast to [batch, heads, queries, keys]. Result [batch, queries, heads *
// head_width], of query's dtype; the softmax is in float32. Without gradients and with as many queries as
// keys it runs in the kernels of kernels.h.
torch::Tensor grouped_attention(const torch::Tensor& query, const torch::Tensor& key,
                                const torch::Tensor& value, const torch::Tensor& mask);

// Rotary positions, each frequency's pair at i and i + head_width / 2 of a head: x cos + rotate(x) sin.
class Rotary {
 public:
  Rotary() = default;
  // head_width: even; theta: the base of the frequencies theta^(-2i / head_width).
  Rotary(int64_t head_width, double theta);

  // Cosines and sines of positions [first, first + tokens): [tokens, 1, head_width] float32 each.
  struct Angles {
    torch::Tensor cos, sin;
  };
  [[nodiscard]] Angles angles(int64_t first, int64_t tokens) const;
  // x: [batch, tokens, heads, head_width], turned in float32; the result has x's dtype.
  [[nodiscard]] static torch::Tensor turn(const torch::Tensor& x, const Angles& angles);

 private:
  torch::Tensor frequencies_;  // [head_width / 2] float32
};

}  // namespace saccade::nn
