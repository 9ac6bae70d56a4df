// Sequence of transformer blocks under the Hugging Face layout's names, as in CLIP and SigLIP.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/options/wide_layers.h"
#include "saccade/nn/kernels/outlier_inputs.h"
#include "saccade/nn/layers.h"

namespace saccade {

// Intermediate states for conformance, filled on request.
template <typename T>
struct TowerTraceOf {
  T hidden_1;           // after the first block (of a ResNet: stage)
  T last_hidden_state;  // CLIP's vision: after the last block; others: after the final norm
};
using TowerTrace = TowerTraceOf<nn::Tensor>;

// Returns the names of a block's parts in the Hugging Face layout.
const nn::BlockNames& hugging_face_block_names();

// Parameter source that forwards to another and also keeps the weights of queries, keys and values.
template <typename T>
class KeepsReaders : public nn::ParameterSourceOf<T> {
 public:
  KeepsReaders(nn::ParameterSourceOf<T>& source, std::vector<T>& kept) : source_(source), kept_(kept) {}
  Result<T> take(const std::string& name, const std::vector<int64_t>& shape, nn::Init init) override {
    return source_.take(name, shape, init);
  }
  Result<T> take_stored(const std::string& name, const std::vector<int64_t>& shape, nn::Init init) override {
    SACCADE_ASSIGN(T tensor, source_.take_stored(name, shape, init));
    const nn::BlockNames& names = hugging_face_block_names();
    for (const std::string& reader : {names.query, names.key, names.value}) {
      if (name.ends_with(reader + ".weight")) kept_.push_back(tensor);
    }
    return tensor;
  }

 private:
  nn::ParameterSourceOf<T>& source_;
  std::vector<T>& kept_;
};

// Weights that read a tower's residual stream first, passed from make_blocks() to pack_tower().
template <typename T>
struct FirstReadersOf {
  std::string tower;
  std::vector<T> weights;
};
using FirstReaders = FirstReadersOf<nn::Tensor>;

// Makes blocks "<tower>.encoder.layers.0" and on. `readers` receives those of the first block, if not
// nullptr.
template <typename T>
Result<std::vector<nn::TransformerBlockOf<T>>> make_blocks(nn::ParameterSourceOf<T>& source,
                                                           const std::string& tower,
                                                           const nn::TransformerShape& shape,
                                                           FirstReadersOf<T>* readers = nullptr) {
  std::vector<T> kept;
  KeepsReaders<T> first(source, kept);
  std::vector<nn::TransformerBlockOf<T>> blocks;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = fmt::format("{}.encoder.layers.{}.", tower, i);
    nn::ParameterSourceOf<T>& from = i == 0 ? first : source;
    SACCADE_ASSIGN(blocks.emplace_back(),
                   nn::TransformerBlockOf<T>::make(from, prefix, hugging_face_block_names(), shape));
  }
  if (readers != nullptr) *readers = {tower, std::move(kept)};
  return blocks;
}

// Packs the blocks, for inference, and the layer that embeds patches (may be nullptr). In a tower with
// outliers in the residual stream, 8-bit packing keeps that layer and the first two blocks in higher
// precision (nn/kernels/outlier_inputs.h), because all later layers amplify their rounding errors. These
// layers are added to `wide`.
inline void pack_tower(std::vector<nn::TransformerBlock>& blocks, nn::Linear* patches, FirstReaders& readers,
                       DType dtype, WideLayers& wide) {
  constexpr size_t kFirst = 2;
  const DType first = nn::packing_of_first(readers.weights, dtype);
  const auto widened = [&](std::string name) {
    if (first == dtype) return;
    wide.dtype = first;
    wide.names.push_back(std::move(name));
  };
  if (patches != nullptr) {
    patches->pack(first);
    widened(readers.tower + ".embeddings.patch_embedding");
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].pack(i < kFirst ? first : dtype);
    if (i < kFirst) widened(fmt::format("{}.encoder.layers.{}", readers.tower, i));
  }
  readers.weights.clear();
}

// Runs the first `count` blocks on x: [batch, tokens, width] float32 (consumed). shared: as in
// TransformerBlock.
template <typename T>
T run_blocks(const std::vector<nn::TransformerBlockOf<T>>& blocks, size_t count, T x, const nn::Tensor& mask,
             DType dtype, TowerTraceOf<T>* trace, const nn::SharedTokens* shared = nullptr) {
  for (size_t i = 0; i < count; ++i) {
    x = blocks[i].forward(std::move(x), mask, dtype, shared);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  return x;
}

// Runs all blocks, the last one only for the states at one position per entry: [batch, width]. Inference
// only; training runs whole blocks, as the reference does.
template <typename T>
T run_blocks_to(const nn::Tensor& positions, const std::vector<nn::TransformerBlockOf<T>>& blocks, T x,
                const nn::Tensor& mask, DType dtype, const nn::SharedTokens* shared = nullptr) {
  x = run_blocks<T>(blocks, blocks.size() - 1, std::move(x), mask, dtype, nullptr, shared);
  return blocks.back().forward_at(x, mask, dtype, positions, shared);
}

// Returns true if only one state per entry of the result for x will be read.
template <typename T>
bool only_pooled(const T& x, const TowerTraceOf<T>* trace) {
  return trace == nullptr && !wants_gradients(x);
}

// Rejects impossible shapes; `tower` is for the message.
Status check_tower(const char* tower, const nn::TransformerShape& shape);

}  // namespace saccade
