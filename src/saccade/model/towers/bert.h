// BERT (Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding"): token, position and type embeddings, post-norm blocks that see the whole text. Also the
// text tower of models that took it over (ALIGN).
//
// Parameters go by their names in the Hugging Face layout, below a prefix of the model's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/post_norm.h"

namespace saccade {

struct BertConfig {
  nn::TransformerShape shape;
  int64_t vocabulary = 30522;
  int64_t positions = 512;
  int64_t token_types = 2;
  int64_t pad_id = 0;
};

// From config.json (or the section of it that describes a BERT), with transformers' defaults. kBadData for
// impossible shapes, kUnsupported for switches that would change the answers, by name.
Result<BertConfig> bert_config_from_hugging_face(const Json& config);

// States on the way: filled where asked for.
struct BertTrace {
  nn::Tensor hidden_1;                 // [n, tokens, width], after the first block
  std::vector<nn::Tensor> attentions;  // per block [n, heads, tokens, tokens]
};

// Not thread-safe while training or packing; forward passes alone are.
class BertModel {
 public:
  // The pooler (a dense layer over the first token's state) only where asked for.
  static Result<BertModel> make(const BertConfig& config, nn::ParameterSource& source,
                                const std::string& prefix, bool with_pooler);

  // ids: [n, tokens] int64, tokens <= positions; mask: [n, tokens], 0 leaves a token out, and leaves at least
  // one of a text; token_types: undefined (all 0) or [n, tokens] int64. -> the last block's states, [n,
  // tokens, width] float32.
  [[nodiscard]] nn::Tensor states(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                                  const nn::Tensor& token_types = {}, BertTrace* trace = nullptr) const;
  // The first token's state alone, [n, width], for less.
  [[nodiscard]] nn::Tensor first_state(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                                       const nn::Tensor& token_types = {}) const;
  // tanh(dense(first token's state)), [n, width] to [n, width]. Only with a pooler.
  [[nodiscard]] nn::Tensor pool(const nn::Tensor& first_state) const;

  [[nodiscard]] const BertConfig& config() const { return config_; }
  void pack(DType dtype);

 private:
  [[nodiscard]] nn::Tensor embed(const nn::Tensor& ids, const nn::Tensor& token_types) const;

  BertConfig config_;
  nn::Tensor tokens_, positions_, token_types_;
  nn::LayerNorm norm_;
  std::vector<nn::PostNormBlock> blocks_;
  bool with_pooler_ = false;
  nn::Linear pooler_;
};

// A checkpoint's tensors as BertModel asks for them: the
// oldest checkpoints call a norm's parameters gamma and beta.
nn::TensorMap with_current_bert_names(nn::TensorMap tensors);

}  // namespace saccade
