// A row of transformer blocks under the Hugging Face layout's names, as CLIP and SigLIP have them.
#pragma once

#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/torch.h"

namespace saccade {

// States on the way, for conformance: filled where asked for.
struct TowerTrace {
  torch::Tensor hidden_1;           // after the first block (of a ResNet: stage)
  torch::Tensor last_hidden_state;  // CLIP's vision: after the last block; others: after the final norm
};

// Blocks "<tower>.encoder.layers.0" and on.
Result<std::vector<nn::TransformerBlock>> make_blocks(nn::ParameterSource& source, const std::string& tower,
                                                      const nn::TransformerShape& shape);

// The first `count` blocks over x: [batch, tokens, width] float32 (consumed).
torch::Tensor run_blocks(const std::vector<nn::TransformerBlock>& blocks, size_t count, torch::Tensor x,
                         const torch::Tensor& mask, at::ScalarType dtype, TowerTrace* trace);

// All blocks, of the last one only the states at one position an entry: [batch, width]. For inference;
// training runs whole blocks, as the reference does.
torch::Tensor run_blocks_to(const torch::Tensor& positions, const std::vector<nn::TransformerBlock>& blocks,
                            torch::Tensor x, const torch::Tensor& mask, at::ScalarType dtype);

// True where one state an entry is all that will be read.
bool only_pooled(const TowerTrace* trace);

// Refuses shapes that cannot be: `tower` is for the message.
Status check_tower(const char* tower, const nn::TransformerShape& shape);

}  // namespace saccade
