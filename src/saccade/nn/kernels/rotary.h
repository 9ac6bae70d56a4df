// Rotary positions (Su et al. 2021, "RoFormer"): pairs of a head's numbers are turned by angles that grow
// with the position.
#pragma once

#include "saccade/nn/tensor.h"

namespace saccade::nn {

// Each frequency's pair at i and i + head_width / 2 of a head: x cos + rotate(x) sin.
class Rotary {
 public:
  Rotary() = default;
  // head_width: even; theta: the base of the frequencies theta^(-2i / head_width).
  Rotary(int64_t head_width, double theta);

  // Cosines and sines of positions [first, first + tokens): [tokens, head_width / 2] float32 each.
  struct Angles {
    Tensor cos, sin;
  };
  [[nodiscard]] Angles angles(int64_t first, int64_t tokens) const;
  // x: [batch, tokens, heads, head_width], float32 or bfloat16, each head's numbers in a row, turned in
  // float32 where it lies.
  static void turn(const Tensor& x, const Angles& angles);

 private:
  std::vector<float> frequencies_;  // [head_width / 2]
};

// The same for pairs that lie side by side, 2i and 2i + 1: cos, sin: [tokens, head_width] float32, both
// numbers of a pair by the same angle.
void turn_neighbours(const Tensor& x, const Tensor& cos, const Tensor& sin);

}  // namespace saccade::nn
