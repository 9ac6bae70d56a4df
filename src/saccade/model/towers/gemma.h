// Gemma (Gemma Team 2024, "Gemma: Open Models Based on Gemini Research and Technology") without its
// language-model head. Its pre-norm blocks have grouped-query attention, rotary positions and gated MLPs.
//
// Parameters have their names in the Hugging Face layout, below a prefix: "embed_tokens", "layers.N.",
// "norm".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/kernels/rms_norm.h"
#include "saccade/nn/kernels/rotary.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct GemmaConfig {
  int64_t vocabulary = 256'000;
  int64_t width = 3072;
  int64_t layers = 28;
  int64_t heads = 16;
  int64_t key_heads = 16;
  int64_t head_width = 256;
  int64_t mlp_width = 24'576;
  int64_t positions = 8192;  // it was trained with; rotary positions have no end of their own
  nn::Activation activation = nn::Activation::kGeluTanh;
  double eps = 1e-6;
  double theta = 10'000;
};

// Reads "text_config" of the Hugging Face layout, with its defaults. Rejects impossible shapes, models other
// than Gemma 1 and unknown switches, by name.
Result<GemmaConfig> gemma_config_from_hugging_face(const Json& section);

// Gemma model. Forward passes are thread-safe.
class Gemma {
 public:
  static Result<Gemma> make(const GemmaConfig& config, nn::ParameterSource& source,
                            const std::string& prefix);

  // Embeds ids: [n, tokens] int64 -> [n, tokens, width] float32, scaled by sqrt(width) for the blocks. Reads
  // only the needed rows of the table; one of 257,152 x 2,048 in a mapped file is not copied.
  [[nodiscard]] nn::Tensor embed(const nn::Tensor& ids) const;
  // Applies the blocks and the last norm to x: [n, tokens, width] float32 (consumed when packed), at
  // positions 1, 2, ... as in PaliGemma. mask: undefined for full attention, or float32 broadcast to [n,
  // heads, tokens, tokens]. Result: [n, tokens, width] float32, normalized.
  [[nodiscard]] nn::Tensor forward(nn::Tensor x, const nn::Tensor& mask, DType dtype) const;
  void pack(DType dtype);

 private:
  struct Block {
    nn::RmsNorm norm1, norm2;
    nn::Linear query, key_value, output, gate, up, down;
  };
  static Result<Block> make_block(const GemmaConfig& config, nn::ParameterSource& source,
                                  const std::string& prefix);
  [[nodiscard]] nn::Tensor mix(const Block& block, const nn::Tensor& x, const nn::Rotary::Angles& angles,
                               const nn::Tensor& mask) const;

  GemmaConfig config_;
  nn::Tensor token_embedding_;  // [vocabulary, width], as stored
  nn::Rotary rotary_;
  std::vector<Block> blocks_;
  nn::RmsNorm norm_;
};

}  // namespace saccade
