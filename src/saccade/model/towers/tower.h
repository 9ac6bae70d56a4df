// A row of transformer blocks under the Hugging Face layout's names, as CLIP and SigLIP have them.
#pragma once

#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"

namespace saccade {

// States on the way, for conformance: filled where asked for.
template <typename T>
struct TowerTraceOf {
  T hidden_1;           // after the first block (of a ResNet: stage)
  T last_hidden_state;  // CLIP's vision: after the last block; others: after the final norm
};
using TowerTrace = TowerTraceOf<nn::Tensor>;

// A block's parts as the Hugging Face layout names them.
const nn::BlockNames& hugging_face_block_names();

// Blocks "<tower>.encoder.layers.0" and on.
template <typename T>
Result<std::vector<nn::TransformerBlockOf<T>>> make_blocks(nn::ParameterSourceOf<T>& source,
                                                           const std::string& tower,
                                                           const nn::TransformerShape& shape) {
  std::vector<nn::TransformerBlockOf<T>> blocks;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = fmt::format("{}.encoder.layers.{}.", tower, i);
    SACCADE_ASSIGN(blocks.emplace_back(),
                   nn::TransformerBlockOf<T>::make(source, prefix, hugging_face_block_names(), shape));
  }
  return blocks;
}

// The first `count` blocks over x: [batch, tokens, width] float32 (consumed).
template <typename T>
T run_blocks(const std::vector<nn::TransformerBlockOf<T>>& blocks, size_t count, T x, const nn::Tensor& mask,
             DType dtype, TowerTraceOf<T>* trace) {
  for (size_t i = 0; i < count; ++i) {
    x = blocks[i].forward(std::move(x), mask, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  return x;
}

// All blocks, of the last one only the states at one position an entry: [batch, width]. For inference;
// training runs whole blocks, as the reference does.
template <typename T>
T run_blocks_to(const nn::Tensor& positions, const std::vector<nn::TransformerBlockOf<T>>& blocks, T x,
                const nn::Tensor& mask, DType dtype) {
  x = run_blocks<T>(blocks, blocks.size() - 1, std::move(x), mask, dtype, nullptr);
  return blocks.back().forward_at(x, mask, dtype, positions);
}

// True where one state an entry is all that will be read of what is computed from x.
template <typename T>
bool only_pooled(const T& x, const TowerTraceOf<T>* trace) {
  return trace == nullptr && !wants_gradients(x);
}

// Refuses shapes that cannot be: `tower` is for the message.
Status check_tower(const char* tower, const nn::TransformerShape& shape);

}  // namespace saccade
