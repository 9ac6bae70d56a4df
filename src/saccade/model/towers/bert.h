// BERT (Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding"): token, position and type embeddings, and post-norm blocks with bidirectional attention.
// Also the text tower of other models (ALIGN).
//
// Parameters have their names in the Hugging Face layout, below a prefix of the model's own.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/kernels/post_norm.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade {

struct BertConfig {
  nn::TransformerShape shape;
  int64_t vocabulary = 30522;
  int64_t positions = 512;
  int64_t token_types = 2;
  int64_t pad_id = 0;
};

// Reads config.json (or its section for a BERT), with transformers' defaults. Returns kBadData for impossible
// shapes, and kUnsupported for switches that would change the results, by name.
Result<BertConfig> bert_config_from_hugging_face(const Json& config);

// Intermediate states, filled on request.
struct BertTrace {
  nn::Tensor hidden_1;                 // [n, tokens, width], after the first block
  std::vector<nn::Tensor> attentions;  // per block [n, heads, tokens, tokens]
};

// Returns the names of a block's parts in the Hugging Face layout.
const nn::BlockNames& bert_block_names();
constexpr double kBertInitStd = 0.02;  // "initializer_range"

// BERT model. T: nn::Tensor for inference, Variable (lab/train/math/variable.h) for training. Forward passes
// alone are thread-safe; training and packing are not.
template <typename T>
class BertModelOf {
 public:
  // Makes the model; the pooler (a dense layer over the first token's state) only on request.
  static Result<BertModelOf> make(const BertConfig& config, nn::ParameterSourceOf<T>& source,
                                  const std::string& prefix, bool with_pooler);

  // Returns the last block's states, [n, tokens, width] float32. ids: [n, tokens] int64, tokens <= positions.
  // mask: [n, tokens], 0 excludes a token; at least one per text is kept. token_types: undefined (all 0) or
  // [n, tokens] int64. A trace is supported for inference only.
  [[nodiscard]] T states(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                         const nn::Tensor& token_types = {}, BertTrace* trace = nullptr) const;
  // Returns only the first token's state, [n, width], at lower cost.
  [[nodiscard]] T first_state(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                              const nn::Tensor& token_types = {}) const;
  // Computes tanh(dense(first token's state)), [n, width] to [n, width]. Requires a pooler.
  [[nodiscard]] T pool(const T& first_state) const;

  [[nodiscard]] const BertConfig& config() const { return config_; }
  void pack(DType dtype);

 private:
  [[nodiscard]] T embed(const nn::Tensor& ids, const nn::Tensor& token_types) const;

  BertConfig config_;
  T tokens_, positions_, token_types_;
  nn::LayerNormOf<T> norm_;
  std::vector<nn::PostNormBlockOf<T>> blocks_;
  bool with_pooler_ = false;
  nn::LinearOf<T> pooler_;
};
using BertModel = BertModelOf<nn::Tensor>;

// Renames a checkpoint's tensors to BertModel's names: the oldest checkpoints call a norm's parameters gamma
// and beta.
nn::TensorMap with_current_bert_names(nn::TensorMap tensors);

// --- definitions ----------------------------------------------------------------------------------------

template <typename T>
Result<BertModelOf<T>> BertModelOf<T>::make(const BertConfig& config, nn::ParameterSourceOf<T>& source,
                                            const std::string& prefix, bool with_pooler) {
  BertModelOf model;
  model.config_ = config;
  const int64_t width = config.shape.width;
  const std::string embeddings = prefix + "embeddings.";
  SACCADE_ASSIGN(model.tokens_, source.take(embeddings + "word_embeddings.weight", {config.vocabulary, width},
                                            {0, kBertInitStd}));
  SACCADE_ASSIGN(model.positions_, source.take(embeddings + "position_embeddings.weight",
                                               {config.positions, width}, {0, kBertInitStd}));
  SACCADE_ASSIGN(model.token_types_, source.take(embeddings + "token_type_embeddings.weight",
                                                 {config.token_types, width}, {0, kBertInitStd}));
  SACCADE_ASSIGN(model.norm_,
                 nn::LayerNormOf<T>::make(source, embeddings + "LayerNorm", width, config.shape.eps));
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    SACCADE_ASSIGN(model.blocks_.emplace_back(),
                   nn::PostNormBlockOf<T>::make(source, fmt::format("{}encoder.layer.{}.", prefix, i),
                                                bert_block_names(), config.shape));
  }
  if (with_pooler) {
    model.with_pooler_ = true;
    SACCADE_ASSIGN(model.pooler_,
                   nn::LinearOf<T>::make(source, prefix + "pooler.dense", width, width, kBertInitStd));
  }
  return model;
}

template <typename T>
T BertModelOf<T>::embed(const nn::Tensor& ids, const nn::Tensor& token_types) const {
  T x = embedding(tokens_, ids) + positions_.slice(0, 0, ids.size(1));
  x = x + (token_types.defined() ? embedding(token_types_, token_types) : token_types_[0]);
  return norm_.forward(x, DType::kF32);
}

template <typename T>
T BertModelOf<T>::states(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                         const nn::Tensor& token_types, BertTrace* trace) const {
  const nn::Tensor added = nn::padding_mask(mask);
  T x = embed(ids, token_types);  // [n, tokens, width]
  for (size_t i = 0; i < blocks_.size(); ++i) {
    nn::Tensor* weights = trace == nullptr ? nullptr : &trace->attentions.emplace_back();
    x = blocks_[i].forward(std::move(x), added, dtype, weights);
    if constexpr (std::is_same_v<T, nn::Tensor>) {
      if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
    }
  }
  return x;
}

template <typename T>
T BertModelOf<T>::first_state(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                              const nn::Tensor& token_types) const {
  const nn::Tensor added = nn::padding_mask(mask);
  T x = embed(ids, token_types);
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) x = blocks_[i].forward(std::move(x), added, dtype);
  return blocks_.back().forward_at(x, added, dtype, nn::Tensor::zeros({ids.size(0)}, DType::kI64));
}

template <typename T>
T BertModelOf<T>::pool(const T& first_state) const {
  return tanh(pooler_.forward(first_state));
}

template <typename T>
void BertModelOf<T>::pack(DType dtype) {
  for (nn::PostNormBlockOf<T>& block : blocks_) block.pack(dtype);
  if (with_pooler_) pooler_.pack(DType::kF32);  // one row a text: the last step stays exact
}

extern template class BertModelOf<nn::Tensor>;

}  // namespace saccade
