// CLIP (Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision"): a
// vision transformer (or a ResNet, clip_resnet.h) and a causal text transformer, each projected into a shared
// space. Covers OpenAI's checkpoints and others of the same structure: OpenCLIP's LAION and DataComp models,
// MetaCLIP, DFN, Long-CLIP.
//
// Parameters have their names in the Hugging Face layout; other layouts are renamed on loading
// (checkpoint.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/towers/begun_alike.h"
#include "saccade/model/towers/clip_resnet.h"
#include "saccade/model/towers/tower.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct PictureTower;  // towers/picture_tower.h

struct ClipConfig {
  nn::TransformerShape vision;  // unused with a ResNet
  std::optional<ResNetShape> resnet;
  nn::TransformerShape text;
  int64_t image_size = 224;
  int64_t patch_size = 32;
  int64_t channels = 3;
  int64_t vocabulary = 49408;
  int64_t positions = 77;
  // Id of the token whose state represents the text: its first occurrence. Without a value, the first token
  // with the highest id.
  std::optional<int64_t> end_id;
  int64_t projection = 512;
  double logit_scale_init = 2.6592;  // log(1 / 0.07)
};

// Reads config.json of the Hugging Face layout, with its defaults. Rejects impossible shapes by name.
Result<ClipConfig> clip_config_from_hugging_face(const Json& config);
// End id of configs written before the field was used; in these the highest id is the end.
constexpr int32_t kLegacyEndId = 2;
// Returns the text tower's section of such a config, with the defaults.
Result<Json> clip_text_section(const Json& config);
// Reads "model_cfg" of open_clip_config.json. Without "mlp_ratio", the MLPs are as wide as their tensors
// (under OpenAI's names), or four times the tower's width.
Result<ClipConfig> clip_config_from_open_clip(const Json& model_cfg, const nn::TensorMap& tensors = {});
// Derives the config from the tensors' shapes, for checkpoints in OpenAI's names without a config. Like
// OpenAI's own code, assumes heads of 64 and QuickGELU.
Result<ClipConfig> clip_config_from_tensors(const nn::TensorMap& tensors);
// Returns the config.json of a trained model, in transformers' format.
Json clip_config_to_hugging_face(const ClipConfig& config, int64_t start_id, int64_t end_id, int64_t pad_id);

// Returns the position of the first end_id in each of ids [n, tokens] int64, or of the first highest id
// without a value: [n] int64.
nn::Tensor clip_end_positions(const nn::Tensor& ids, std::optional<int64_t> end_id);

// CLIP model. T: nn::Tensor for inference, Variable (lab/train/math/variable.h) for training. Forward passes
// alone are thread-safe; training and packing are not.
template <typename T>
class ClipModelOf {
 public:
  // Makes the model; kUnsupported for training a ResNet.
  static Result<ClipModelOf> make(const ClipConfig& config, nn::ParameterSourceOf<T>& source);

  // Encodes pixels: [n, channels, image_size, image_size] float32 -> [n, projection] float32, not normalized.
  // keep: undefined, or [n, kept] int64, the patches to use when training on a part of each image.
  [[nodiscard]] T encode_images(const T& pixels, DType dtype, TowerTraceOf<T>* trace = nullptr,
                                const nn::Tensor& keep = {}) const {
    return project_images(image_states(pixels, dtype, trace, keep));
  }
  // Encodes ids: [n, tokens] int64, tokens <= positions -> [n, projection] float32, not normalized.
  // attention_mask: undefined or [n, tokens], 0 excludes a token. Text is causal: tokens after the end token
  // have no effect.
  [[nodiscard]] T encode_texts(const nn::Tensor& ids, DType dtype, const nn::Tensor& attention_mask = {},
                               TowerTraceOf<T>* trace = nullptr) const {
    return project_texts(text_states(ids, dtype, attention_mask, trace));
  }
  // Compute the same in two steps: the states to project, [n, the tower's width] float32, and their
  // projection. A ResNet's pooling is its projection, so its states are already [n, projection].
  [[nodiscard]] T image_states(const T& pixels, DType dtype, TowerTraceOf<T>* trace = nullptr,
                               const nn::Tensor& keep = {}) const;
  [[nodiscard]] T text_states(const nn::Tensor& ids, DType dtype, const nn::Tensor& attention_mask = {},
                              TowerTraceOf<T>* trace = nullptr) const;
  [[nodiscard]] T project_images(const T& states) const {
    return resnet_ ? states : visual_projection_.forward(states);
  }
  [[nodiscard]] T project_texts(const T& states) const { return text_projection_.forward(states); }

  // Returns every token's state after the tower's last norm and projection, as for the pooled one: [n,
  // tokens, projection] float32, not normalized. An image's first token is the class token. Not available
  // with a ResNet.
  [[nodiscard]] T image_tokens(const T& pixels, DType dtype) const;
  [[nodiscard]] T text_tokens(const nn::Tensor& ids, DType dtype) const;
  // Computes text_states with the embeddings of tokens places[i] of text i replaced by words[i]: places [n]
  // or [n, k] int64, -1 for none; words [n, width] float32.
  [[nodiscard]] T text_states_with(const nn::Tensor& ids, const nn::Tensor& places, const T& words,
                                   DType dtype) const;

  // Returns the vision transformer of this model for relevance maps. Inference only, packed. Not available
  // with a ResNet.
  [[nodiscard]] PictureTower picture_tower(DType dtype) const;

  // Returns the log of the inverse temperature, a scalar parameter.
  [[nodiscard]] const T& logit_scale() const { return logit_scale_; }
  [[nodiscard]] const ClipConfig& config() const { return config_; }
  // Returns the position of each text's pooled state: [n] int64.
  [[nodiscard]] nn::Tensor end_positions(const nn::Tensor& ids) const {
    return clip_end_positions(ids, config_.end_id);
  }

  // Makes every block of both towers keep its input alone for the backward pass, which computes the rest
  // again (nn/layers.h). Training only.
  void checkpoint_activations() {
    for (auto* blocks : {&vision_blocks_, &text_blocks_}) {
      for (nn::TransformerBlockOf<T>& block : *blocks) block.checkpoint_activations();
    }
  }

  // Repacks the linear layers for inference in `dtype` (kF32, kBF16 or kI8).
  void pack(DType dtype);
  // Returns the layers that pack() left in higher precision.
  [[nodiscard]] const WideLayers& wide_layers() const { return wide_layers_; }

 private:
  static constexpr bool kTrains = !std::is_same_v<T, nn::Tensor>;

  Status make_vision(nn::ParameterSourceOf<T>& source);
  Status make_text(nn::ParameterSourceOf<T>& source);
  // Computes the input of the vision transformer's blocks: [n, 1 + patches, width] float32.
  [[nodiscard]] T embed_images(const T& pixels, DType dtype, const nn::Tensor& keep) const;

  ClipConfig config_;
  // vision
  std::optional<ResNetTower> resnet_;  // in the place of all that follows up to the text
  nn::LinearOf<T> patch_embedding_;
  T class_embedding_, vision_positions_;
  nn::LayerNormOf<T> pre_norm_, post_norm_;
  std::vector<nn::TransformerBlockOf<T>> vision_blocks_;
  nn::LinearOf<T> visual_projection_;
  // text
  T token_embedding_, text_positions_;
  std::vector<nn::TransformerBlockOf<T>> text_blocks_;
  FirstReadersOf<T> vision_readers_, text_readers_;
  WideLayers wide_layers_;
  nn::LayerNormOf<T> final_norm_;
  nn::LinearOf<T> text_projection_;
  T logit_scale_;
};
using ClipModel = ClipModelOf<nn::Tensor>;

// --- definitions ----------------------------------------------------------------------------------------

template <typename T>
Result<ClipModelOf<T>> ClipModelOf<T>::make(const ClipConfig& config, nn::ParameterSourceOf<T>& source) {
  ClipModelOf model;
  model.config_ = config;
  if (!config.resnet) {
    SACCADE_TRY(model.make_vision(source));
  } else if constexpr (kTrains) {
    return fail(ErrorCode::kUnsupported, "an image tower of convolutions (ResNet) is not trained here");
  } else {
    SACCADE_ASSIGN(model.resnet_,
                   ResNetTower::make(source, *config.resnet, config.image_size, config.projection));
  }
  SACCADE_TRY(model.make_text(source));
  SACCADE_ASSIGN(model.logit_scale_, source.take("logit_scale", {}, {config.logit_scale_init, 0}));
  return model;
}

template <typename T>
Status ClipModelOf<T>::make_vision(nn::ParameterSourceOf<T>& source) {
  const auto vision_width = static_cast<double>(config_.vision.width);
  const double vision_std = 1 / std::sqrt(vision_width);
  const int64_t side = config_.image_size / config_.patch_size;
  const int64_t patch_values = config_.channels * config_.patch_size * config_.patch_size;

  const std::string vision = "vision_model";
  SACCADE_ASSIGN(class_embedding_, source.take(vision + ".embeddings.class_embedding", {config_.vision.width},
                                               {0, vision_std}));
  SACCADE_ASSIGN(const T kernel,
                 source.take(vision + ".embeddings.patch_embedding.weight",
                             {config_.vision.width, config_.channels, config_.patch_size, config_.patch_size},
                             {0, 1 / std::sqrt(static_cast<double>(patch_values))}));
  patch_embedding_ = nn::LinearOf<T>(kernel.view({config_.vision.width, patch_values}));
  SACCADE_ASSIGN(vision_positions_, source.take(vision + ".embeddings.position_embedding.weight",
                                                {side * side + 1, config_.vision.width}, {0, vision_std}));
  // The published checkpoints spell it "pre_layrnorm".
  SACCADE_ASSIGN(pre_norm_, nn::LayerNormOf<T>::make(source, vision + ".pre_layrnorm", config_.vision.width,
                                                     config_.vision.eps));
  SACCADE_ASSIGN(vision_blocks_,
                 make_blocks(source, vision, config_.vision, kTrains ? nullptr : &vision_readers_));
  SACCADE_ASSIGN(post_norm_, nn::LayerNormOf<T>::make(source, vision + ".post_layernorm",
                                                      config_.vision.width, config_.vision.eps));
  SACCADE_ASSIGN(visual_projection_, nn::LinearOf<T>::make(source, "visual_projection", config_.vision.width,
                                                           config_.projection, vision_std, true));
  return {};
}

template <typename T>
Status ClipModelOf<T>::make_text(nn::ParameterSourceOf<T>& source) {
  const auto text_width = static_cast<double>(config_.text.width);
  const std::string text = "text_model";
  SACCADE_ASSIGN(token_embedding_, source.take(text + ".embeddings.token_embedding.weight",
                                               {config_.vocabulary, config_.text.width}, {0, 0.02}));
  SACCADE_ASSIGN(text_positions_, source.take(text + ".embeddings.position_embedding.weight",
                                              {config_.positions, config_.text.width}, {0, 0.01}));
  SACCADE_ASSIGN(text_blocks_, make_blocks(source, text, config_.text, kTrains ? nullptr : &text_readers_));
  SACCADE_ASSIGN(final_norm_, nn::LayerNormOf<T>::make(source, text + ".final_layer_norm", config_.text.width,
                                                       config_.text.eps));
  SACCADE_ASSIGN(text_projection_,
                 nn::LinearOf<T>::make(source, "text_projection", config_.text.width, config_.projection,
                                       1 / std::sqrt(text_width), true));
  return {};
}

template <typename T>
T ClipModelOf<T>::embed_images(const T& pixels, DType dtype, const nn::Tensor& keep) const {
  // x: [n, patches, width]
  T x = patch_embedding_.forward(patches(pixels, config_.patch_size).to(dtype)).to(DType::kF32);
  x = x + vision_positions_.slice(0, 1);
  if (keep.defined()) x = gather_rows(x, keep);
  const T first = (class_embedding_ + vision_positions_[0]).expand({pixels.size(0), 1, config_.vision.width});
  return pre_norm_.forward(cat(std::vector<T>{first, x}, 1), DType::kF32);
}

template <typename T>
T ClipModelOf<T>::image_states(const T& pixels, DType dtype, TowerTraceOf<T>* trace,
                               const nn::Tensor& keep) const {
  if constexpr (!kTrains) {
    if (resnet_) {
      std::pair<T, T> stages;
      T rows = resnet_->forward(pixels, dtype, trace == nullptr ? nullptr : &stages);
      if (trace != nullptr) std::tie(trace->hidden_1, trace->last_hidden_state) = stages;
      return rows;
    }
  }
  T x = embed_images(pixels, dtype, keep);
  if (only_pooled(x, trace)) {
    x = run_blocks_to(nn::Tensor::zeros({pixels.size(0)}, DType::kI64), vision_blocks_, std::move(x), {},
                      dtype);
  } else {
    x = run_blocks(vision_blocks_, vision_blocks_.size(), std::move(x), {}, dtype, trace);
    if (trace != nullptr) trace->last_hidden_state = x;
    x = x.select(1, 0);
  }
  return post_norm_.forward(x, DType::kF32);
}

template <typename T>
T ClipModelOf<T>::text_states(const nn::Tensor& ids, DType dtype, const nn::Tensor& attention_mask,
                              TowerTraceOf<T>* trace) const {
  const int64_t tokens = ids.size(1);
  const nn::Tensor ends = end_positions(ids);
  nn::Tensor mask = nn::causal_mask(tokens);
  if constexpr (!kTrains) {
    if (trace == nullptr && keeps_up_to_end(attention_mask, ends)) {
      const BegunAlike texts = begun_alike(ids, ends);
      T x = embedding(token_embedding_, texts.ids) + embedding(text_positions_, texts.positions);
      x = run_blocks_to(texts.ends, text_blocks_, std::move(x), mask, dtype, &texts.shared);
      return final_norm_.forward(x, DType::kF32);
    }
  }
  if (attention_mask.defined()) mask = mask + nn::padding_mask(attention_mask);
  // x: [n, tokens, width]
  T x = embedding(token_embedding_, ids) + text_positions_.slice(0, 0, tokens);
  if (only_pooled(x, trace)) {
    x = run_blocks_to(ends, text_blocks_, std::move(x), mask, dtype);
    return final_norm_.forward(x, DType::kF32);
  }
  x = run_blocks(text_blocks_, text_blocks_.size(), std::move(x), mask, dtype, trace);
  if (trace == nullptr) return final_norm_.forward(take_rows(x, ends), DType::kF32);
  trace->last_hidden_state = final_norm_.forward(x, DType::kF32);
  return take_rows(trace->last_hidden_state, ends);
}

template <typename T>
T ClipModelOf<T>::image_tokens(const T& pixels, DType dtype) const {
  T x = embed_images(pixels, dtype, {});
  x = run_blocks<T>(vision_blocks_, vision_blocks_.size(), std::move(x), {}, dtype, nullptr);
  return visual_projection_.forward(post_norm_.forward(x, DType::kF32));
}

template <typename T>
T ClipModelOf<T>::text_tokens(const nn::Tensor& ids, DType dtype) const {
  const int64_t tokens = ids.size(1);
  T x = embedding(token_embedding_, ids) + text_positions_.slice(0, 0, tokens);
  x = run_blocks<T>(text_blocks_, text_blocks_.size(), std::move(x), nn::causal_mask(tokens), dtype, nullptr);
  return text_projection_.forward(final_norm_.forward(x, DType::kF32));
}

template <typename T>
T ClipModelOf<T>::text_states_with(const nn::Tensor& ids, const nn::Tensor& places, const T& words,
                                   DType dtype) const {
  const int64_t n = ids.size(0);
  const int64_t tokens = ids.size(1);
  // The words are appended to the texts' own embeddings, and are read where they replace one.
  const nn::Tensor which = nn::Tensor::empty({n, tokens}, DType::kI64);
  const int64_t each = n > 0 ? places.numel() / n : 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t* row = which.data<int64_t>() + i * tokens;
    for (int64_t t = 0; t < tokens; ++t) row[t] = t;
    for (int64_t k = 0; k < each; ++k) {
      if (const int64_t place = places.data<int64_t>()[i * each + k]; place >= 0) row[place] = tokens;
    }
  }
  const T own = embedding(token_embedding_, ids);
  T x = gather_rows(cat(std::vector<T>{own, words.view({n, 1, config_.text.width})}, 1), which) +
        text_positions_.slice(0, 0, tokens);
  x = run_blocks<T>(text_blocks_, text_blocks_.size(), std::move(x), nn::causal_mask(tokens), dtype, nullptr);
  return final_norm_.forward(take_rows(x, end_positions(ids)), DType::kF32);
}

template <typename T>
void ClipModelOf<T>::pack(DType dtype) {
  if constexpr (!kTrains) {
    if (!resnet_) pack_tower(vision_blocks_, &patch_embedding_, vision_readers_, dtype, wide_layers_);
    pack_tower(text_blocks_, nullptr, text_readers_, dtype, wide_layers_);
  }
  if (resnet_) {
    resnet_->pack(dtype);
  } else {
    visual_projection_.pack(DType::kF32);  // one row per image, so lower precision saves no time
  }
  text_projection_.pack(DType::kF32);
}

template <>
PictureTower ClipModelOf<nn::Tensor>::picture_tower(DType dtype) const;

extern template class ClipModelOf<nn::Tensor>;

}  // namespace saccade
