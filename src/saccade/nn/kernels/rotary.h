// Rotary positions (Su et al. 2021, "RoFormer"): pairs of a head's values are rotated by angles that grow
// with the position.
#pragma once

#include "saccade/nn/tensor.h"

namespace saccade::nn {

// Rotary embedding with pairs at i and i + head_width / 2 of a head: x cos + rotate(x) sin.
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
  // Rotates x in place, in float32. x: [batch, tokens, heads, head_width], float32 or bfloat16, each head's
  // values contiguous.
  static void turn(const Tensor& x, const Angles& angles);

 private:
  std::vector<float> frequencies_;  // [head_width / 2]
};

// Rotates adjacent pairs, 2i and 2i + 1. cos, sin: [tokens, head_width] float32, with the same angle for both
// values of a pair.
void turn_neighbours(const Tensor& x, const Tensor& cos, const Tensor& sin);

}  // namespace saccade::nn
