// CLIP (Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision"): a
// vision transformer (or a ResNet, clip_resnet.h) and a causal text transformer, each projected into one
// space. Covers OpenAI's checkpoints and all that keep their structure: OpenCLIP's LAION and DataComp models,
// MetaCLIP, DFN, Long-CLIP.
//
// Parameters go by their names in the Hugging Face layout;
// other layouts are renamed when they are read (checkpoint.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/towers/clip_resnet.h"
#include "saccade/model/towers/tower.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct ClipConfig {
  nn::TransformerShape vision;  // nothing where there is a ResNet
  std::optional<ResNetShape> resnet;
  nn::TransformerShape text;
  int64_t image_size = 224;
  int64_t patch_size = 32;
  int64_t channels = 3;
  int64_t vocabulary = 49408;
  int64_t positions = 77;
  // The token whose state stands for the text: the first one with this id; none: the first of the highest id.
  std::optional<int64_t> end_id;
  int64_t projection = 512;
  double logit_scale_init = 2.6592;  // log(1 / 0.07)
};

// From config.json of the Hugging Face layout, with its defaults; refuses impossible shapes by name.
Result<ClipConfig> clip_config_from_hugging_face(const Json& config);
// An end id of 2 marks configs written before the field meant anything: there the highest id is the end.
constexpr int32_t kLegacyEndId = 2;
// What such a config says of its text tower, with the defaults.
Result<Json> clip_text_section(const Json& config);
// From "model_cfg" of open_clip_config.json. Where it has no "mlp_ratio" the MLPs are as wide as their
// tensors (under OpenAI's names), or four times the tower's width.
Result<ClipConfig> clip_config_from_open_clip(const Json& model_cfg, const nn::TensorMap& tensors = {});
// Where a checkpoint in OpenAI's names has no config: from the tensors' shapes, as OpenAI's own code does,
// with heads of 64 and QuickGELU.
Result<ClipConfig> clip_config_from_tensors(const nn::TensorMap& tensors);
// config.json for a trained model, as transformers reads it.
Json clip_config_to_hugging_face(const ClipConfig& config, int64_t start_id, int64_t end_id, int64_t pad_id);

// Not thread-safe while training or packing; forward passes alone are.
class ClipModel {
 public:
  static Result<ClipModel> make(const ClipConfig& config, nn::ParameterSource& source);

  // pixels: [n, channels, image_size, image_size] float32 -> [n, projection] float32, not normalized.
  // keep: undefined, or [n, kept] int64: the patches to look at, for training on a part of each picture.
  [[nodiscard]] torch::Tensor encode_images(const torch::Tensor& pixels, at::ScalarType dtype,
                                            TowerTrace* trace = nullptr,
                                            const torch::Tensor& keep = {}) const;
  // ids: [n, tokens] int64, tokens <= positions; attention_mask:
  // undefined or [n, tokens], 0 leaves a token out.
  // -> [n, projection] float32, not normalized. Text is causal: what follows the end token changes nothing.
  [[nodiscard]] torch::Tensor encode_texts(const torch::Tensor& ids, at::ScalarType dtype,
                                           const torch::Tensor& attention_mask = {},
                                           TowerTrace* trace = nullptr) const;

  // log of the inverse temperature, a scalar parameter.
  [[nodiscard]] const torch::Tensor& logit_scale() const { return logit_scale_; }
  [[nodiscard]] const ClipConfig& config() const { return config_; }
  // Where each text's state is read: [n] int64.
  [[nodiscard]] torch::Tensor end_positions(const torch::Tensor& ids) const;

  // Repacks the linear layers for inference in `dtype` (kFloat or kBFloat16).
  void pack(at::ScalarType dtype);

 private:
  Status make_vision(nn::ParameterSource& source);
  Status make_text(nn::ParameterSource& source);

  ClipConfig config_;
  // vision
  std::optional<ResNetTower> resnet_;  // in the place of all that follows up to the text
  nn::Linear patch_embedding_;
  torch::Tensor class_embedding_, vision_positions_;
  nn::LayerNorm pre_norm_, post_norm_;
  std::vector<nn::TransformerBlock> vision_blocks_;
  nn::Linear visual_projection_;
  // text
  torch::Tensor token_embedding_, text_positions_;
  std::vector<nn::TransformerBlock> text_blocks_;
  nn::LayerNorm final_norm_;
  nn::Linear text_projection_;
  torch::Tensor logit_scale_;
};

}  // namespace saccade
