// Q-Former of BLIP-2 (Li et al. 2023): a BERT with cross-attention to an image in every n-th block, and two
// sets of MLPs, for its learned queries and for text. It runs in three modes: queries alone (an image's
// rows), text alone (a text's row), and both together (image-text matching). SPRC (composers/sprc.cc) adds a
// fourth: a text with a prompt of vectors.
//
// Parameters have transformers' names. T: nn::Tensor for inference, Variable (lab/train/math/variable.h) for
// training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/error.h"
#include "saccade/model/towers/state_score.h"
#include "saccade/nn/kernels/post_norm.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct QFormerConfig {
  nn::TransformerShape shape;
  int64_t memory_width = 1408;            // width of the vision tower's states
  int64_t cross_attention_frequency = 2;  // blocks 0, n, 2n, ... attend to the image
  bool text_input = false;                // has MLPs for text
  int64_t vocabulary = 30522;
  int64_t positions = 512;
  int64_t pad_id = 0;
};

// Returns parameter names; `part`: "attention" or "crossattention".
nn::BlockNames qformer_attention_names(const std::string& part);
// Returns parameter names; `suffix`: "_query" for the queries' own.
nn::BlockNames qformer_mlp_names(const std::string& suffix);

// Q-Former model. Forward passes are thread-safe, packing is not.
template <typename T>
class QFormerOf {
 public:
  static Result<QFormerOf> make(const QFormerConfig& config, int64_t queries,
                                nn::ParameterSourceOf<T>& source);

  // Computes the queries' states, [n, queries, width] float32, from memory: [n, rows, memory_width], the
  // vision tower's states.
  [[nodiscard]] T ask(const T& memory, DType dtype) const;
  // The following functions need a Q-Former that reads text. ids, attention_mask: [n, tokens] int64.
  // Returns the state at a text's first token: [n, width] float32.
  [[nodiscard]] T read(const nn::Tensor& ids, const nn::Tensor& attention_mask, DType dtype) const;
  // Returns the queries' states with image and text i as input, for every i: [n, queries, width] float32.
  // memory may be [1, ...]: one image for all texts.
  [[nodiscard]] T compare(const T& memory, const nn::Tensor& ids, const nn::Tensor& attention_mask,
                          DType dtype) const;
  // Position of a prompt among a text's tokens.
  enum class PromptPlace {
    kBefore,      // before all of them; the text's positions are its own
    kAfterStart,  // behind the first token; prompt and text are numbered together
  };
  // Returns the state at a text's first token when it is read with a prompt, [n, vectors, width]: [n, width]
  // float32. All states go through the MLPs of text, and none attends to an image. kAfterStart needs
  // positions for vectors and tokens.
  [[nodiscard]] T read_prompted(const T& prompt, PromptPlace place, const nn::Tensor& ids,
                                const nn::Tensor& attention_mask, DType dtype) const;
  // The following functions are for inference. They trace scores of the queries' states, [n, queries, width],
  // back to the memory. LeGrad sums over the blocks with attention to the memory. Each one's states replace
  // the last one's, and the score is traced to its cross-attention alone: [n, rows].
  [[nodiscard]] nn::Tensor legrad(const nn::Tensor& memory, DType dtype, const StateScore& score) const;
  // Gradient-weighted attention (Chefer et al. 2021, equations 5 to 10). R_qq is the relevance of queries to
  // each other and R_qm that of the memory to queries; at first R_qq = I and R_qm = 0. Self-attention updates
  // R_qm += A R_qm and R_qq += A R_qq. Cross-attention updates R_qm += N(R_qq)' A N(R_mm). A is the mean over
  // heads of (gradient * A)+, and N(R) = I + R - I with row sums of 1. R_mm, of the tower below, is the same
  // in every term: `relevance` is the row of the score's states before multiplication by N(R_mm).
  struct Followed {
    nn::Tensor relevance;  // [n, rows]
    nn::Tensor gradient;   // [n, rows, memory_width]: what the score changes with the memory
  };
  [[nodiscard]] Followed chefer(const nn::Tensor& memory, DType dtype, const StateScore& score) const;
  void pack(DType dtype);

 private:
  static constexpr bool kTrains = !std::is_same_v<T, nn::Tensor>;

  struct Block {
    nn::PostNormAttentionOf<T> attention;
    std::optional<nn::PostNormCrossAttentionOf<T>> cross_attention;
    nn::PostNormMlpOf<T> query_mlp;
    std::optional<nn::PostNormMlpOf<T>> text_mlp;
  };
  static Result<Block> make_block(const QFormerConfig& config, int64_t index,
                                  nn::ParameterSourceOf<T>& source);
  [[nodiscard]] T embed(const nn::Tensor& ids) const;
  // Applies all blocks with the MLPs of text to x: [n, tokens, width]. Returns the states at one position.
  [[nodiscard]] T read_states_at(T x, const nn::Tensor& mask, DType dtype, int64_t position) const;
  // Applies the rest of a block to the queries' states after its attention: [n, queries, width].
  static T finish_queries(const Block& block, T x, const T& memory, DType dtype);

  T query_tokens_;                         // [1, queries, width]
  T word_embedding_, position_embedding_;  // undefined without text
  nn::LayerNormOf<T> norm_;
  std::vector<Block> blocks_;
};
using QFormer = QFormerOf<nn::Tensor>;

// --- definitions ----------------------------------------------------------------------------------------

template <typename T>
Result<typename QFormerOf<T>::Block> QFormerOf<T>::make_block(const QFormerConfig& config, int64_t index,
                                                              nn::ParameterSourceOf<T>& source) {
  const std::string prefix = fmt::format("qformer.encoder.layer.{}.", index);
  Block block;
  SACCADE_ASSIGN(block.attention, nn::PostNormAttentionOf<T>::make(
                                      source, prefix, qformer_attention_names("attention"), config.shape));
  if (index % config.cross_attention_frequency == 0) {
    SACCADE_ASSIGN(block.cross_attention, nn::PostNormCrossAttentionOf<T>::make(
                                              source, prefix, qformer_attention_names("crossattention"),
                                              config.shape, config.memory_width));
  }
  SACCADE_ASSIGN(block.query_mlp,
                 nn::PostNormMlpOf<T>::make(source, prefix, qformer_mlp_names("_query"), config.shape));
  if (config.text_input) {
    SACCADE_ASSIGN(block.text_mlp,
                   nn::PostNormMlpOf<T>::make(source, prefix, qformer_mlp_names(""), config.shape));
  }
  return block;
}

template <typename T>
Result<QFormerOf<T>> QFormerOf<T>::make(const QFormerConfig& config, int64_t queries,
                                        nn::ParameterSourceOf<T>& source) {
  constexpr double kInitStd = 0.02;
  QFormerOf qformer;
  const int64_t width = config.shape.width;
  SACCADE_ASSIGN(qformer.query_tokens_, source.take("query_tokens", {1, queries, width}, {0, kInitStd}));
  if (config.text_input) {
    SACCADE_ASSIGN(qformer.word_embedding_, source.take("embeddings.word_embeddings.weight",
                                                        {config.vocabulary, width}, {0, kInitStd}));
    SACCADE_ASSIGN(qformer.position_embedding_, source.take("embeddings.position_embeddings.weight",
                                                            {config.positions, width}, {0, kInitStd}));
  }
  SACCADE_ASSIGN(qformer.norm_,
                 nn::LayerNormOf<T>::make(source, "qformer.layernorm", width, config.shape.eps));
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    SACCADE_ASSIGN(qformer.blocks_.emplace_back(), make_block(config, i, source));
  }
  return qformer;
}

template <typename T>
T QFormerOf<T>::embed(const nn::Tensor& ids) const {
  return embedding(word_embedding_, ids) + position_embedding_.slice(0, 0, ids.size(1));
}

template <typename T>
T QFormerOf<T>::finish_queries(const Block& block, T x, const T& memory, DType dtype) {
  if (block.cross_attention) x = block.cross_attention->forward(std::move(x), memory, dtype);
  return block.query_mlp.forward(std::move(x), dtype);
}

template <typename T>
T QFormerOf<T>::ask(const T& memory, DType dtype) const {
  T queries = query_tokens_;
  if constexpr (!kTrains) queries = queries.in(memory.workspace());
  T x = norm_.forward(queries.expand({memory.size(0), -1, -1}), DType::kF32);
  for (const Block& block : blocks_) {
    x = finish_queries(block, block.attention.forward(std::move(x), {}, dtype), memory, dtype);
  }
  return x;
}

template <typename T>
T QFormerOf<T>::read_states_at(T x, const nn::Tensor& mask, DType dtype, int64_t position) const {
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) {
    x = blocks_[i].text_mlp->forward(blocks_[i].attention.forward(std::move(x), mask, dtype), dtype);
  }
  // Only one state of the last block is read.
  const nn::Tensor places = nn::Tensor::full_integers({x.size(0)}, position);
  return blocks_.back().text_mlp->forward(blocks_.back().attention.forward_at(x, mask, dtype, places), dtype);
}

template <typename T>
T QFormerOf<T>::read(const nn::Tensor& ids, const nn::Tensor& attention_mask, DType dtype) const {
  return read_states_at(norm_.forward(embed(ids), DType::kF32), nn::padding_mask(attention_mask), dtype, 0);
}

template <typename T>
T QFormerOf<T>::read_prompted(const T& prompt, PromptPlace place, const nn::Tensor& ids,
                              const nn::Tensor& attention_mask, DType dtype) const {
  const int64_t n = ids.size(0);
  const int64_t vectors = prompt.size(1);
  // Padding is at the end of either order, so the mask is the same.
  const nn::Tensor mask =
      nn::padding_mask(nn::cat({nn::Tensor::full_integers({n, vectors}, 1), attention_mask}, 1));
  if (place == PromptPlace::kBefore) {
    const T x = cat(std::vector<T>{prompt, embed(ids)}, 1);
    return read_states_at(norm_.forward(x, DType::kF32), mask, dtype, vectors);
  }
  const T words = embedding(word_embedding_, ids);
  const T x = cat(std::vector<T>{words.slice(1, 0, 1), prompt, words.slice(1, 1)}, 1) +
              position_embedding_.slice(0, 0, vectors + ids.size(1));
  return read_states_at(norm_.forward(x, DType::kF32), mask, dtype, 0);
}

template <typename T>
T QFormerOf<T>::compare(const T& memory, const nn::Tensor& ids, const nn::Tensor& attention_mask,
                        DType dtype) const {
  const int64_t n = ids.size(0);
  const int64_t queries = query_tokens_.size(1);
  const nn::Tensor all = nn::cat({nn::Tensor::full_integers({n, queries}, 1), attention_mask}, 1);
  const nn::Tensor mask = nn::padding_mask(all);
  // x: [n, queries + tokens, width]
  T x = norm_.forward(cat(std::vector<T>{query_tokens_.expand({n, -1, -1}), embed(ids)}, 1), DType::kF32);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    x = block.attention.forward(std::move(x), mask, dtype);
    const T asked = finish_queries(block, x.slice(1, 0, queries).contiguous(), memory, dtype);
    if (i + 1 == blocks_.size()) return asked;  // the text's states are not read any more
    x = cat(std::vector<T>{asked, block.text_mlp->forward(x.slice(1, queries).contiguous(), dtype)}, 1);
  }
  return x;
}

template <typename T>
void QFormerOf<T>::pack(DType dtype) {
  for (Block& block : blocks_) {
    block.attention.pack(dtype);
    if (block.cross_attention) block.cross_attention->pack(dtype);
    block.query_mlp.pack(dtype);
    if (block.text_mlp) block.text_mlp->pack(dtype);
  }
}

template <>
nn::Tensor QFormerOf<nn::Tensor>::legrad(const nn::Tensor& memory, DType dtype,
                                         const StateScore& score) const;
template <>
QFormerOf<nn::Tensor>::Followed QFormerOf<nn::Tensor>::chefer(const nn::Tensor& memory, DType dtype,
                                                              const StateScore& score) const;

extern template class QFormerOf<nn::Tensor>;

}  // namespace saccade
