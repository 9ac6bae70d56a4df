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

// Reads config.json, with transformers' defaults. Rejects impossible shapes by name.
Result<AlignConfig> align_config_from_hugging_face(const Json& config);

// ALIGN model. Forward passes are thread-safe, pack() is not.
class AlignModel {
 public:
  static Result<AlignModel> make(const AlignConfig& config, nn::ParameterSource& source);
  // Encodes pixels: [n, 3, height, width] float32, of any size -> [n, projection] float32, not normalized.
  // The result is the pooled state, without a projection.
  [[nodiscard]] nn::Tensor encode_images(const nn::Tensor& pixels, DType dtype,
                                         TowerTrace* trace = nullptr) const;
  // Encodes ids and mask, as in BertModel -> [n, text width] float32.
  [[nodiscard]] nn::Tensor text_states(const nn::Tensor& ids, const nn::Tensor& mask, DType dtype,
                                       TowerTrace* trace = nullptr) const;
  // Projects these to [n, projection], not normalized.
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
