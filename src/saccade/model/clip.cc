#include "saccade/model/clip.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

using nn::BlockNames;
using nn::Linear;
using nn::TransformerBlock;
using torch::Tensor;

const BlockNames& hugging_face_names() {
  static const BlockNames kNames{
      "layer_norm1",        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
      "self_attn.out_proj", "layer_norm2",      "mlp.fc1",          "mlp.fc2"};
  return kNames;
}

Result<std::vector<TransformerBlock>> make_blocks(nn::ParameterSource& source, const std::string& tower,
                                                  const nn::TransformerShape& shape) {
  std::vector<TransformerBlock> blocks;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = fmt::format("{}.encoder.layers.{}.", tower, i);
    SACCADE_ASSIGN(blocks.emplace_back(),
                   TransformerBlock::make(source, prefix, hugging_face_names(), shape));
  }
  return blocks;
}

// The first `count` blocks.
Tensor run_blocks(const std::vector<TransformerBlock>& blocks, size_t count, Tensor x, const Tensor& mask,
                  at::ScalarType dtype, TowerTrace* trace) {
  for (size_t i = 0; i < count; ++i) {
    x = blocks[i].forward(std::move(x), mask, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  return x;
}

// All blocks, of the last one only the states at one position an entry: [batch, width]. For inference;
// training runs whole blocks, as the reference does.
Tensor run_blocks_to(const Tensor& positions, const std::vector<TransformerBlock>& blocks, Tensor x,
                     const Tensor& mask, at::ScalarType dtype) {
  x = run_blocks(blocks, blocks.size() - 1, std::move(x), mask, dtype, nullptr);
  return blocks.back().forward_at(x, mask, dtype, positions);
}

// True where one state an entry is all that will be read.
bool only_pooled(const TowerTrace* trace) {
  return trace == nullptr && !at::GradMode::is_enabled();
}

}  // namespace

Result<ClipModel> ClipModel::make(const ClipConfig& config, nn::ParameterSource& source) {
  ClipModel model;
  model.config_ = config;
  const auto vision_width = static_cast<double>(config.vision.width);
  const auto text_width = static_cast<double>(config.text.width);
  const double vision_std = 1 / std::sqrt(vision_width);
  const int64_t side = config.image_size / config.patch_size;
  const int64_t patch_values = config.channels * config.patch_size * config.patch_size;

  const std::string vision = "vision_model";
  SACCADE_ASSIGN(model.class_embedding_,
                 source.take(vision + ".embeddings.class_embedding", {config.vision.width}, {0, vision_std}));
  SACCADE_ASSIGN(const Tensor kernel,
                 source.take(vision + ".embeddings.patch_embedding.weight",
                             {config.vision.width, config.channels, config.patch_size, config.patch_size},
                             {0, 1 / std::sqrt(static_cast<double>(patch_values))}));
  model.patch_embedding_ = Linear(kernel.view({config.vision.width, patch_values}));
  SACCADE_ASSIGN(model.vision_positions_,
                 source.take(vision + ".embeddings.position_embedding.weight",
                             {side * side + 1, config.vision.width}, {0, vision_std}));
  // "pre_layrnorm" is how the published checkpoints spell it.
  SACCADE_ASSIGN(model.pre_norm_, nn::LayerNorm::make(source, vision + ".pre_layrnorm", config.vision.width,
                                                      config.vision.eps));
  SACCADE_ASSIGN(model.vision_blocks_, make_blocks(source, vision, config.vision));
  SACCADE_ASSIGN(model.post_norm_, nn::LayerNorm::make(source, vision + ".post_layernorm",
                                                       config.vision.width, config.vision.eps));
  SACCADE_ASSIGN(model.visual_projection_, Linear::make(source, "visual_projection", config.vision.width,
                                                        config.projection, vision_std, true));

  const std::string text = "text_model";
  SACCADE_ASSIGN(model.token_embedding_, source.take(text + ".embeddings.token_embedding.weight",
                                                     {config.vocabulary, config.text.width}, {0, 0.02}));
  SACCADE_ASSIGN(model.text_positions_, source.take(text + ".embeddings.position_embedding.weight",
                                                    {config.positions, config.text.width}, {0, 0.01}));
  SACCADE_ASSIGN(model.text_blocks_, make_blocks(source, text, config.text));
  SACCADE_ASSIGN(model.final_norm_,
                 nn::LayerNorm::make(source, text + ".final_layer_norm", config.text.width, config.text.eps));
  SACCADE_ASSIGN(model.text_projection_, Linear::make(source, "text_projection", config.text.width,
                                                      config.projection, 1 / std::sqrt(text_width), true));
  SACCADE_ASSIGN(model.logit_scale_, source.take("logit_scale", {}, {config.logit_scale_init, 0}));
  return model;
}

Tensor ClipModel::encode_images(const Tensor& pixels, at::ScalarType dtype, TowerTrace* trace,
                                const Tensor& keep) const {
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
  // argmax gives the first of equals only by accident of implementation; counting down from the front does
  // surely.
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
  patch_embedding_.pack(dtype);
  for (auto* blocks : {&vision_blocks_, &text_blocks_}) {
    for (TransformerBlock& block : *blocks) block.pack(dtype);
  }
  visual_projection_.pack(at::kFloat);  // one row a picture: no time to win, and the last step stays exact
  text_projection_.pack(at::kFloat);
}

}  // namespace saccade
