// A picture tower of transformer blocks as explaining sees it: what can be crossed backwards without
// autograd. For the module's own files.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "saccade/model/explain/relevance_map.h"
#include "saccade/nn/backward.h"
#include "saccade/nn/layers.h"

namespace saccade {

// A block, whatever its kind. What the three do: TransformerBlockOf.
struct CrossedBlock {
  std::function<nn::Tensor(const nn::Tensor& x, nn::BlockTrace& trace)> forward;
  std::function<nn::BlockGradient(const nn::BlockTrace& trace, const nn::Tensor& gradient)> to_attention;
  std::function<nn::Tensor(const nn::BlockTrace& trace, const nn::BlockGradient& gradient)> from_attention;
  int64_t heads = 0;
};
CrossedBlock crossed(const nn::TransformerBlock& block, DType dtype);

// How a score follows from tokens' states.
struct Pooled {
  // [n, tokens]: what attention over the tokens has to do with the score, where the
  // tower pools by it; else undefined.
  nn::Tensor relevance;
  // [n, tokens or fewer, width]: what the score changes with the first tokens' states; with those behind it
  // changes nothing. Undefined where it was not asked for.
  nn::Tensor gradient;
};
struct PoolingWish {
  bool times_attention = false;  // of `relevance`
  bool gradient = true;
};

// What a score changes with the states that are projected, [n, width]: of that shape.
using StateChange = std::function<nn::Tensor(const nn::Tensor& states)>;

struct PictureTower {
  std::function<nn::Tensor(const nn::Tensor& pixels)> embed;  // -> [n, tokens, width] float32
  std::vector<CrossedBlock> blocks;
  // tokens: [n, tokens, width], any block's states, pooled as the last block's
  // are, by the last norm and the pooling.
  std::function<Pooled(const nn::Tensor& tokens, const StateChange& change, PoolingWish wish)> pool;
  const nn::Linear* projection = nullptr;  // of pooled states into the shared space, where there is one
  bool pools_by_attention = false;         // whether Pooled::relevance comes out
  int64_t class_tokens = 1;                // that stand before the patches
  int rows = 0;                            // of patches
  int columns = 0;
};

// The gradient of the dot products of rows, brought to length 1, with `target`: [n, dim], or [dim], one for
// all. rows: [n, dim], not normalized -> [n, dim].
nn::Tensor cosine_gradient(const nn::Tensor& rows, const nn::Tensor& target);
// The same of what the projection makes of states: [n, width].
nn::Tensor projected_gradient(const nn::Linear* projection, const nn::Tensor& states,
                              const StateChange& of_unit_rows);
// Pooling at the first token: norm(tokens[0]).
Pooled pool_first(const nn::LayerNorm& norm, const nn::Tensor& tokens, const StateChange& change);

// Relevance of the patches of pictures [n, 3, height, width]: [n, rows * columns].
nn::Tensor map_tower(const PictureTower& tower, const nn::Tensor& pixels, const StateChange& change,
                     MapMethod method);

}  // namespace saccade
