// Encoder of T5 (Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer"). It is a pre-norm transformer without biases, with root-mean-square norms, unscaled attention
// and a learned relative position bias, one table for all blocks. Covers T5, and T5 1.1 and Flan-T5 with
// their gated MLPs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/kernels/rms_norm.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct T5Config {
  int64_t vocabulary = 32128;
  int64_t width = 512;
  int64_t layers = 6;
  int64_t heads = 8;
  int64_t head_width = 64;  // heads * head_width may differ from width
  int64_t mlp_width = 2048;
  nn::Activation activation = nn::Activation::kRelu;
  bool gated = false;
  int64_t buckets = 32;        // buckets of distances between tokens
  int64_t max_distance = 128;  // farther ones share the last bucket
  double eps = 1e-6;
  int64_t pad_id = 0;
  int64_t trained_tokens = 512;  // length used in training; the architecture has no limit
};

// Reads the section of a config.json for a T5, with transformers' defaults. Rejects impossible shapes by
// name.
Result<T5Config> t5_config_from_hugging_face(const Json& section);

// Returns the row of the bias table for each pair of `tokens` positions: [tokens, tokens] int64, from the
// row's position to the column's. Half of the buckets are for later positions. In each half, one half covers
// single steps and the other grows by powers up to max_distance.
nn::Tensor t5_distance_buckets(int64_t tokens, int64_t buckets, int64_t max_distance);

class T5Encoder {
 public:
  // Loads parameters in transformers' names below `prefix` ("language_model."): "shared.weight",
  // "encoder.block...".
  static Result<T5Encoder> make(const T5Config& config, nn::ParameterSource& source,
                                const std::string& prefix);
  // Encodes ids: [n, tokens] int64; attention_mask: [n, tokens], 0 excludes a token. Returns the states after
  // the final norm: [n, tokens, width] float32. States with mask 0 have no meaning.
  [[nodiscard]] nn::Tensor forward(const nn::Tensor& ids, const nn::Tensor& attention_mask,
                                   DType dtype) const;
  void pack(DType dtype);
  [[nodiscard]] const T5Config& config() const { return config_; }

 private:
  struct Block {
    nn::RmsNorm attention_norm, mlp_norm;
    nn::Linear query_key_value, output;
    nn::Linear mlp_in, mlp_gated, mlp_out;  // mlp_gated: where the config says so
  };
  static Result<Block> make_block(const T5Config& config, nn::ParameterSource& source,
                                  const std::string& prefix);

  T5Config config_;
  nn::Tensor token_embedding_;
  nn::Tensor distance_bias_;  // [buckets, heads]
  std::vector<Block> blocks_;
  nn::RmsNorm final_norm_;
};

}  // namespace saccade
