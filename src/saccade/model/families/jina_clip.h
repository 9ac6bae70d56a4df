// Jina-CLIP v1 (Koukounas et al. 2024, "Jina CLIP: Your CLIP Model Is Also Your Text Retriever", arXiv
// 2405.20204).
//
// Image tower: EVA-02 (Fang et al. 2023, arXiv 2303.11331), a vision transformer with two-dimensional rotary
// positions beside learned ones. It has biases for queries and values but not for keys, gated MLPs (SwiGLU),
// and norms within attention and MLP. Text tower: JinaBERT (Guenther et al. 2023, arXiv 2310.19923), a
// post-norm BERT without position embeddings. Its attention decreases with distance (ALiBi, Press et al.
// 2021), its MLPs are gated by GELU, and the mean of a text's own tokens is its embedding. Both are
// implemented for inference only.
//
// Shapes come from the checkpoint's config and, if it leaves them to the code it names, from the tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/towers/picture_tower.h"
#include "saccade/model/towers/tower.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct EvaShape {
  nn::TransformerShape blocks;
  int64_t image_size = 224;
  int64_t patch_size = 16;
  bool query_value_bias = true;
  bool sub_norm = false;  // norms within attention and MLP, and separate query, key and value
  bool gated = false;     // SwiGLU in place of GELU
  bool rotary = false;
  // Number of rows and columns that grid positions are rescaled to (positions of pre-training).
  double rotary_positions = 16;
};

struct JinaTextShape {
  nn::TransformerShape blocks;
  int64_t vocabulary = 0;
  int64_t token_types = 2;
};

struct JinaClipConfig {
  EvaShape vision;
  JinaTextShape text;
  int64_t width = 768;     // width of both towers' outputs
  int64_t projection = 0;  // 0: the towers' results are the embeddings
  // Maximum text length of the published code. The model itself has no limit, but attention's memory grows
  // with the square of the length.
  int64_t context = 512;

  [[nodiscard]] int64_t dim() const { return projection > 0 ? projection : width; }
};

// Reads config.json and the tensors' shapes. Returns kUnsupported with a field whose value requires an
// unimplemented computation, and kBadData with one that is impossible.
Result<JinaClipConfig> jina_clip_config(const Json& config, const nn::TensorMap& tensors);

// Cosines and sines of two-dimensional rotary positions, [places, head width] each; undefined if unused.
struct EvaTurn {
  nn::Tensor cos, sin;
};

// Pre-norm block.
class EvaBlock {
 public:
  static Result<EvaBlock> make(nn::ParameterSource& source, const std::string& prefix, const EvaShape& shape);
  // Applies the block to x: [n, 1 + places, width] float32.
  [[nodiscard]] nn::Tensor forward(nn::Tensor x, const EvaTurn& turn, DType dtype) const;
  void pack(DType dtype);

  // Forward and backward passes without autograd, as in TransformerBlockOf. x is not modified.
  [[nodiscard]] nn::Tensor forward_traced(const nn::Tensor& x, const EvaTurn& turn, DType dtype,
                                          nn::BlockTrace& trace) const;
  [[nodiscard]] nn::BlockGradient backward_to_attention(const nn::BlockTrace& trace,
                                                        const nn::Tensor& gradient) const;
  [[nodiscard]] nn::Tensor backward_from_attention(const nn::BlockTrace& trace, const EvaTurn& turn,
                                                   const nn::BlockGradient& gradient) const;
  [[nodiscard]] int64_t heads() const { return heads_; }

 private:
  // Applies the MLP: [..., width] -> [..., width].
  [[nodiscard]] nn::Tensor mlp(const nn::Tensor& normed, DType dtype) const;

  int64_t heads_ = 1;
  bool sub_norm_ = false;
  bool gated_ = false;
  nn::LayerNorm norm1_, attention_norm_, norm2_, mlp_norm_;
  nn::Linear query_key_value_, output_, mlp_gate_, mlp_in_, mlp_out_;
};

// Post-norm block.
class JinaTextBlock {
 public:
  static Result<JinaTextBlock> make(nn::ParameterSource& source, const std::string& prefix,
                                    const nn::TransformerShape& shape);
  // Applies the block to x: [n, tokens, width] float32; bias: added to the scores, broadcast to [n, heads,
  // tokens, tokens].
  [[nodiscard]] nn::Tensor forward(nn::Tensor x, const nn::Tensor& bias, DType dtype) const;
  void pack(DType dtype);

 private:
  int64_t heads_ = 1;
  nn::Linear query_key_value_, output_, gate_, up_, down_;
  nn::LayerNorm norm1_, norm2_;
};

// Jina-CLIP model. Forward passes are thread-safe, packing is not.
class JinaClipModel {
 public:
  static Result<JinaClipModel> make(const JinaClipConfig& config, nn::ParameterSource& source);

  // Encodes pixels: [n, 3, image_size, image_size] float32 -> [n, vision width] float32.
  [[nodiscard]] nn::Tensor image_states(const nn::Tensor& pixels, DType dtype,
                                        TowerTrace* trace = nullptr) const;
  // Encodes ids, mask: [n, tokens] int64 -> [n, text width] float32. mask 0 excludes a token; every text has
  // at least one that is kept.
  [[nodiscard]] nn::Tensor text_states(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                                       TowerTrace* trace = nullptr) const;
  // Project these to [n, dim], not normalized; return them unchanged for a checkpoint without projections.
  [[nodiscard]] nn::Tensor project_images(const nn::Tensor& states) const;
  [[nodiscard]] nn::Tensor project_texts(const nn::Tensor& states) const;

  // Returns the vision tower of this model for relevance maps. Packed models only.
  [[nodiscard]] PictureTower picture_tower(DType dtype) const;

  [[nodiscard]] const nn::Tensor& logit_scale() const { return logit_scale_; }
  [[nodiscard]] const JinaClipConfig& config() const { return config_; }
  void pack(DType dtype);

 private:
  [[nodiscard]] nn::Tensor embed_images(const nn::Tensor& pixels, DType dtype) const;

  JinaClipConfig config_;
  nn::Linear patch_embedding_;
  nn::Tensor class_token_, positions_;
  EvaTurn turn_;
  std::vector<EvaBlock> vision_blocks_;
  nn::LayerNorm vision_norm_;
  nn::Tensor word_embedding_, type_embedding_, slopes_;
  nn::LayerNorm text_norm_;
  std::vector<JinaTextBlock> text_blocks_;
  nn::Linear visual_projection_, text_projection_;
  nn::Tensor logit_scale_;
};

// Returns ALiBi's slopes, [heads] float32: 2^(-8 i / heads) for i = 1 ... heads. If the count is not a power
// of two: those of the next lower one, then every other slope of the next higher one.
nn::Tensor alibi_slopes(int64_t heads);

}  // namespace saccade
