#include "saccade/model/families/clip.h"

#include <algorithm>
#include <cmath>

namespace saccade {

using nn::Linear;
using nn::TransformerBlock;
using torch::Tensor;

Result<ClipModel> ClipModel::make(const ClipConfig& config, nn::ParameterSource& source) {
  ClipModel model;
  model.config_ = config;
  if (config.resnet) {
    SACCADE_ASSIGN(model.resnet_,
                   ResNetTower::make(source, *config.resnet, config.image_size, config.projection));
  } else {
    SACCADE_TRY(model.make_vision(source));
  }
  SACCADE_TRY(model.make_text(source));
  SACCADE_ASSIGN(model.logit_scale_, source.take("logit_scale", {}, {config.logit_scale_init, 0}));
  return model;
}

Status ClipModel::make_vision(nn::ParameterSource& source) {
  const auto vision_width = static_cast<double>(config_.vision.width);
  const double vision_std = 1 / std::sqrt(vision_width);
  const int64_t side = config_.image_size / config_.patch_size;
  const int64_t patch_values = config_.channels * config_.patch_size * config_.patch_size;

  const std::string vision = "vision_model";
  SACCADE_ASSIGN(class_embedding_, source.take(vision + ".embeddings.class_embedding", {config_.vision.width},
                                               {0, vision_std}));
  SACCADE_ASSIGN(const Tensor kernel,
                 source.take(vision + ".embeddings.patch_embedding.weight",
                             {config_.vision.width, config_.channels, config_.patch_size, config_.patch_size},
                             {0, 1 / std::sqrt(static_cast<double>(patch_values))}));
  patch_embedding_ = Linear(kernel.view({config_.vision.width, patch_values}));
  SACCADE_ASSIGN(vision_positions_, source.take(vision + ".embeddings.position_embedding.weight",
                                                {side * side + 1, config_.vision.width}, {0, vision_std}));
  // "pre_layrnorm" is how the published checkpoints spell it.
  SACCADE_ASSIGN(pre_norm_, nn::LayerNorm::make(source, vision + ".pre_layrnorm", config_.vision.width,
                                                config_.vision.eps));
  SACCADE_ASSIGN(vision_blocks_, make_blocks(source, vision, config_.vision));
  SACCADE_ASSIGN(post_norm_, nn::LayerNorm::make(source, vision + ".post_layernorm", config_.vision.width,
                                                 config_.vision.eps));
  SACCADE_ASSIGN(visual_projection_, Linear::make(source, "visual_projection", config_.vision.width,
                                                  config_.projection, vision_std, true));
  return {};
}

Status ClipModel::make_text(nn::ParameterSource& source) {
  const auto text_width = static_cast<double>(config_.text.width);
  const std::string text = "text_model";
  SACCADE_ASSIGN(token_embedding_, source.take(text + ".embeddings.token_embedding.weight",
                                               {config_.vocabulary, config_.text.width}, {0, 0.02}));
  SACCADE_ASSIGN(text_positions_, source.take(text + ".embeddings.position_embedding.weight",
                                              {config_.positions, config_.text.width}, {0, 0.01}));
  SACCADE_ASSIGN(text_blocks_, make_blocks(source, text, config_.text));
  SACCADE_ASSIGN(final_norm_, nn::LayerNorm::make(source, text + ".final_layer_norm", config_.text.width,
                                                  config_.text.eps));
  SACCADE_ASSIGN(text_projection_, Linear::make(source, "text_projection", config_.text.width,
                                                config_.projection, 1 / std::sqrt(text_width), true));
  return {};
}

Tensor ClipModel::encode_images(const Tensor& pixels, at::ScalarType dtype, TowerTrace* trace,
                                const Tensor& keep) const {
  if (resnet_) {
    std::pair<Tensor, Tensor> stages;
    Tensor rows = resnet_->forward(pixels, dtype, trace == nullptr ? nullptr : &stages);
    if (trace != nullptr) std::tie(trace->hidden_1, trace->last_hidden_state) = stages;
    return rows;
  }
  const int64_t n = pixels.size(0);
  const int64_t width = config_.vision.width;
  // x: [n, patches, width]
  Tensor x = patch_embedding_.forward(nn::patches(pixels, config_.patch_size).to(dtype)).to(at::kFloat);
  x = x + vision_positions_.slice(0, 1);
  if (keep.defined()) x = x.gather(1, keep.unsqueeze(2).expand({n, keep.size(1), width}));
  const Tensor first = (class_embedding_ + vision_positions_[0]).expand({n, 1, width});
  x = pre_norm_.forward(torch::cat({first, x}, 1), at::kFloat);
  if (only_pooled(trace)) {
    x = run_blocks_to(torch::zeros({n}, pixels.options().dtype(at::kLong)), vision_blocks_, std::move(x), {},
                      dtype);
  } else {
    x = run_blocks(vision_blocks_, vision_blocks_.size(), std::move(x), {}, dtype, trace);
    if (trace != nullptr) trace->last_hidden_state = x;
    x = x.select(1, 0);
  }
  return visual_projection_.forward(post_norm_.forward(x, at::kFloat));
}

Tensor ClipModel::end_positions(const Tensor& ids) const {
  // argmax gives the first of equals only by accident of
  // implementation; counting down from the front does surely.
  const Tensor hit = config_.end_id ? ids == *config_.end_id : ids == std::get<0>(ids.max(1, true));
  const Tensor countdown = torch::arange(ids.size(1), 0, -1, ids.options());
  return (hit.to(at::kLong) * countdown).argmax(1);
}

Tensor ClipModel::encode_texts(const Tensor& ids, at::ScalarType dtype, const Tensor& attention_mask,
                               TowerTrace* trace) const {
  const int64_t n = ids.size(0);
  const int64_t tokens = ids.size(1);
  Tensor mask = nn::causal_mask(tokens).to(ids.device());
  if (attention_mask.defined()) {
    const Tensor left_out = attention_mask.view({n, 1, 1, tokens}) == 0;
    mask = torch::where(left_out, torch::full({}, -std::numeric_limits<float>::infinity(), mask.options()),
                        mask);
  }
  // x: [n, tokens, width]
  Tensor x = at::embedding(token_embedding_, ids) + text_positions_.slice(0, 0, tokens);
  if (only_pooled(trace)) {
    x = run_blocks_to(end_positions(ids), text_blocks_, std::move(x), mask, dtype);
    return text_projection_.forward(final_norm_.forward(x, at::kFloat));
  }
  x = run_blocks(text_blocks_, text_blocks_.size(), std::move(x), mask, dtype, trace);
  const Tensor rows = torch::arange(n, ids.options());
  if (trace == nullptr) {
    x = final_norm_.forward(x.index({rows, end_positions(ids)}), at::kFloat);
    return text_projection_.forward(x);
  }
  trace->last_hidden_state = final_norm_.forward(x, at::kFloat);
  return text_projection_.forward(trace->last_hidden_state.index({rows, end_positions(ids)}));
}

void ClipModel::pack(at::ScalarType dtype) {
  for (auto* blocks : {&vision_blocks_, &text_blocks_}) {
    for (TransformerBlock& block : *blocks) block.pack(dtype);
  }
  if (resnet_) {
    resnet_->pack(dtype);
  } else {
    patch_embedding_.pack(dtype);
    visual_projection_.pack(at::kFloat);  // one row a picture: no time to win, and the last step stays exact
  }
  text_projection_.pack(at::kFloat);
}

}  // namespace saccade
