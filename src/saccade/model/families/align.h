// ALIGN (Jia et al. 2021, "Scaling Up Visual and Vision-Language Representation Learning With Noisy Text
// Supervision"). The image embedding is the pooled output of an EfficientNet. The text embedding is the state
// of a BERT's first token, projected to the same width. A logit is the cosine divided by a learned
// temperature.
#pragma once

#include <cstdint>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/towers/bert.h"
#include "saccade/model/towers/efficientnet.h"
#include "saccade/model/towers/tower.h"

namespace saccade {

struct AlignConfig {
  EfficientNetConfig vision;
  BertConfig text;
  int64_t projection = 640;
  double temperature_init = 1;
};

// From config.json, with transformers' defaults; refuses impossible shapes by name.
Result<AlignConfig> align_config_from_hugging_face(const Json& config);

// Forward passes are thread-safe, pack() is not.
class AlignModel {
 public:
  static Result<AlignModel> make(const AlignConfig& config, nn::ParameterSource& source);
  // pixels: [n, 3, height, width] float32, of any size -> [n, projection] float32, not normalized: the pooled
  // state, which nothing projects.
  [[nodiscard]] nn::Tensor encode_images(const nn::Tensor& pixels, DType dtype,
                                         TowerTrace* trace = nullptr) const;
  // ids, mask: as BertModel takes them -> [n, text width] float32.
  [[nodiscard]] nn::Tensor text_states(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                                       TowerTrace* trace = nullptr) const;
  // These to [n, projection], not normalized.
  [[nodiscard]] nn::Tensor project_texts(const nn::Tensor& states) const;
  [[nodiscard]] const nn::Tensor& temperature() const { return temperature_; }
  [[nodiscard]] const AlignConfig& config() const { return config_; }
  void pack(DType dtype);

 private:
  AlignConfig config_;
  EfficientNet vision_;
  BertModel text_;
  nn::Linear text_projection_;
  nn::Tensor temperature_;
};

}  // namespace saccade
