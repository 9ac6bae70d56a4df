// SigLIP (Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training") and SigLIP 2 of fixed resolution.
// The image tower is a vision transformer with attention pooling. The text tower is a transformer that
// attends to all tokens, including padding, and is read at its last position.
//
// Parameters have their names in the Hugging Face layout; OpenCLIP's are renamed on loading.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/towers/picture_tower.h"
#include "saccade/nn/attention_pool.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct SiglipVisionConfig {
  nn::TransformerShape shape;
  int64_t image_size = 224;
  int64_t patch_size = 16;
};

struct SiglipConfig {
  SiglipVisionConfig vision;
  nn::TransformerShape text;
  int64_t vocabulary = 32000;
  int64_t positions = 64;
  int64_t projection = 768;  // width of the text's projection; must equal the vision tower's
};

// Reads config.json of the Hugging Face layout, with its defaults. Rejects impossible shapes by name.
Result<SiglipConfig> siglip_config_from_hugging_face(const Json& config);
// Reads the section of a single vision tower ("vision_config" of a larger model).
Result<SiglipVisionConfig> siglip_vision_config(const Json& section);
// Reads "model_cfg" of open_clip_config.json. Values implied by the name of a timm model are read from the
// tensors, under OpenCLIP's names. The head width is 64 or 72, as in timm's SigLIP towers.
Result<SiglipConfig> siglip_config_from_open_clip(const Json& model_cfg, const nn::TensorMap& tensors);
// Converts OpenCLIP's tensor names with a timm tower ("visual.trunk.", "text.") to Hugging Face's. Uses views
// where possible.
Result<nn::TensorMap> rename_siglip_to_hugging_face(const nn::TensorMap& tensors);

// Vision transformer without its pooling, used by other families too. Forward passes are thread-safe.
class SiglipVision {
 public:
  // Loads the parameters below `prefix`: "embeddings.", "encoder.layers.", "post_layernorm.".
  static Result<SiglipVision> make(const SiglipVisionConfig& config, nn::ParameterSource& source,
                                   const std::string& prefix);
  // Encodes pixels: [n, 3, image_size, image_size] float32 -> [n, patches, width] float32, normalized by the
  // last norm.
  [[nodiscard]] nn::Tensor forward(const nn::Tensor& pixels, DType dtype, TowerTrace* trace = nullptr) const;
  // Separate parts, for relevance maps: the input of the blocks, [n, patches, width] float32; the blocks; the
  // last norm.
  [[nodiscard]] nn::Tensor embed(const nn::Tensor& pixels, DType dtype) const;
  [[nodiscard]] const std::vector<nn::TransformerBlock>& blocks() const { return blocks_; }
  [[nodiscard]] const nn::LayerNorm& norm() const { return post_norm_; }
  [[nodiscard]] const SiglipVisionConfig& config() const { return config_; }
  [[nodiscard]] int64_t patches() const {
    const int64_t side = config_.image_size / config_.patch_size;
    return side * side;
  }
  // Packs the tower. Layers left in higher precision are added to `wide`.
  void pack(DType dtype, WideLayers& wide);

 private:
  SiglipVisionConfig config_;
  nn::Linear patch_embedding_;
  nn::Tensor positions_;
  std::vector<nn::TransformerBlock> blocks_;
  FirstReaders readers_;
  nn::LayerNorm post_norm_;
};

class SiglipModel {
 public:
  static Result<SiglipModel> make(const SiglipConfig& config, nn::ParameterSource& source);

  // Encodes pixels: [n, 3, image_size, image_size] float32 -> [n, width] float32, not normalized. The result
  // is the pooled state, without a projection.
  [[nodiscard]] nn::Tensor encode_images(const nn::Tensor& pixels, DType dtype,
                                         TowerTrace* trace = nullptr) const;
  // Encodes ids: [n, positions] int64, padded to that length -> [n, text width] float32. Every token is
  // attended to.
  [[nodiscard]] nn::Tensor text_states(const nn::Tensor& ids, DType dtype, TowerTrace* trace = nullptr) const;
  // Projects these to [n, projection], not normalized.
  [[nodiscard]] nn::Tensor project_texts(const nn::Tensor& states) const;

  // Returns the vision tower of this model for relevance maps. Packed models only.
  [[nodiscard]] PictureTower picture_tower(DType dtype) const;

  // Scalars of the logit: exp(logit_scale) * cosine + logit_bias.
  [[nodiscard]] const nn::Tensor& logit_scale() const { return logit_scale_; }
  [[nodiscard]] const nn::Tensor& logit_bias() const { return logit_bias_; }
  [[nodiscard]] const SiglipConfig& config() const { return config_; }
  void pack(DType dtype);
  // Returns the layers that pack() left in higher precision.
  [[nodiscard]] const WideLayers& wide_layers() const { return wide_layers_; }

 private:
  [[nodiscard]] Pooled explain_pooling(const nn::Tensor& tokens, const StateChange& change, PoolingWish wish,
                                       DType dtype) const;

  SiglipConfig config_;
  SiglipVision vision_;
  nn::AttentionPool pool_;
  nn::Tensor token_embedding_, text_positions_;
  std::vector<nn::TransformerBlock> text_blocks_;
  FirstReaders text_readers_;
  WideLayers wide_layers_;
  nn::LayerNorm final_norm_;
  nn::Linear text_head_;
  nn::Tensor logit_scale_, logit_bias_;
};

}  // namespace saccade
