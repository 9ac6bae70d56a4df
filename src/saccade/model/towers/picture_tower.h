// Image tower of transformer blocks with backward passes without autograd, for relevance maps. Internal to
// the module.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "saccade/model/explain/relevance_map.h"
#include "saccade/nn/backward.h"
#include "saccade/nn/layers.h"

namespace saccade {

// Block of any kind. The three functions are those of TransformerBlockOf.
struct CrossedBlock {
  std::function<nn::Tensor(const nn::Tensor& x, nn::BlockTrace& trace)> forward;
  std::function<nn::BlockGradient(const nn::BlockTrace& trace, const nn::Tensor& gradient)> to_attention;
  std::function<nn::Tensor(const nn::BlockTrace& trace, const nn::BlockGradient& gradient)> from_attention;
  int64_t heads = 0;
};
CrossedBlock crossed(const nn::TransformerBlock& block, DType dtype);

// Dependence of a score on the tokens' states.
struct Pooled {
  // Relevance of the pooling attention over the tokens, [n, tokens], if the tower pools by attention; else
  // undefined.
  nn::Tensor relevance;
  // Gradient of the score with respect to the first tokens' states, [n, tokens or fewer, width]; that of
  // later tokens is zero. Undefined if not requested.
  nn::Tensor gradient;
};
struct PoolingWish {
  bool times_attention = false;  // applies to `relevance`
  bool gradient = true;
};

// Computes the gradient of a score with respect to the states before projection, [n, width], in that shape.
using StateChange = std::function<nn::Tensor(const nn::Tensor& states)>;

struct PictureTower {
  std::function<nn::Tensor(const nn::Tensor& pixels)> embed;  // -> [n, tokens, width] float32
  std::vector<CrossedBlock> blocks;
  // Pools tokens: [n, tokens, width], any block's states, in the same way as the last block's, by the last
  // norm and the pooling.
  std::function<Pooled(const nn::Tensor& tokens, const StateChange& change, PoolingWish wish)> pool;
  const nn::Linear* projection = nullptr;  // from pooled states to the shared space; may be nullptr
  bool pools_by_attention = false;         // true if Pooled::relevance is provided
  int64_t class_tokens = 1;                // tokens before the patches
  int rows = 0;                            // rows of patches
  int columns = 0;
};

// Computes the gradient of the dot products of normalized rows with `target`: [n, dim], or [dim], one for
// all. rows: [n, dim], not normalized -> [n, dim].
nn::Tensor cosine_gradient(const nn::Tensor& rows, const nn::Tensor& target);
// Computes the gradient through the projection of states: [n, width].
nn::Tensor projected_gradient(const nn::Linear* projection, const nn::Tensor& states,
                              const StateChange& of_unit_rows);
// Pools at the first token: norm(tokens[0]).
Pooled pool_first(const nn::LayerNorm& norm, const nn::Tensor& tokens, const StateChange& change);

// Computes the relevance of the patches of images [n, 3, height, width]: [n, rows * columns].
nn::Tensor map_tower(const PictureTower& tower, const nn::Tensor& pixels, const StateChange& change,
                     MapMethod method);

}  // namespace saccade
