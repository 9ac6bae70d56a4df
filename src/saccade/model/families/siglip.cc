#include "saccade/model/families/siglip.h"

#include <cmath>

namespace saccade {

using nn::Linear;
using nn::Tensor;

Result<SiglipVision> SiglipVision::make(const SiglipVisionConfig& config, nn::ParameterSource& source,
                                        const std::string& prefix) {
  SiglipVision vision;
  vision.config_ = config;
  const int64_t width = config.shape.width;
  const int64_t patch_values = 3 * config.patch_size * config.patch_size;
  SACCADE_ASSIGN(const Tensor kernel, source.take(prefix + ".embeddings.patch_embedding.weight",
                                                  {width, 3, config.patch_size, config.patch_size},
                                                  {0, 1 / std::sqrt(static_cast<double>(patch_values))}));
  SACCADE_ASSIGN(const Tensor bias, source.take(prefix + ".embeddings.patch_embedding.bias", {width}, {}));
  vision.patch_embedding_ = Linear(kernel.view({width, patch_values}), bias);
  SACCADE_ASSIGN(vision.positions_,
                 source.take(prefix + ".embeddings.position_embedding.weight", {vision.patches(), width},
                             {0, 1 / std::sqrt(static_cast<double>(width))}));
  SACCADE_ASSIGN(vision.blocks_, make_blocks(source, prefix, config.shape, &vision.readers_));
  SACCADE_ASSIGN(vision.post_norm_,
                 nn::LayerNorm::make(source, prefix + ".post_layernorm", width, config.shape.eps));
  return vision;
}

Tensor SiglipVision::embed(const Tensor& pixels, DType dtype) const {
  return patch_embedding_.forward(nn::patches(pixels, config_.patch_size).to(dtype)).to(DType::kF32) +
         positions_;
}

Tensor SiglipVision::forward(const Tensor& pixels, DType dtype, TowerTrace* trace) const {
  // x: [n, patches, width]
  Tensor x = run_blocks(blocks_, blocks_.size(), embed(pixels, dtype), {}, dtype, trace);
  x = post_norm_.forward(x, DType::kF32);
  if (trace != nullptr) trace->last_hidden_state = x;
  return x;
}

void SiglipVision::pack(DType dtype, WideLayers& wide) {
  pack_tower(blocks_, &patch_embedding_, readers_, dtype, wide);
}

Result<SiglipModel> SiglipModel::make(const SiglipConfig& config, nn::ParameterSource& source) {
  SiglipModel model;
  model.config_ = config;
  SACCADE_ASSIGN(model.vision_, SiglipVision::make(config.vision, source, "vision_model"));
  SACCADE_ASSIGN(model.pool_, nn::AttentionPool::make(source, "vision_model.head", config.vision.shape));
  const std::string text = "text_model";
  const int64_t width = config.text.width;
  const double std = 1 / std::sqrt(static_cast<double>(width));
  SACCADE_ASSIGN(model.token_embedding_, source.take(text + ".embeddings.token_embedding.weight",
                                                     {config.vocabulary, width}, {0, std}));
  SACCADE_ASSIGN(model.text_positions_, source.take(text + ".embeddings.position_embedding.weight",
                                                    {config.positions, width}, {0, std}));
  SACCADE_ASSIGN(model.text_blocks_, make_blocks(source, text, config.text, &model.text_readers_));
  SACCADE_ASSIGN(model.final_norm_,
                 nn::LayerNorm::make(source, text + ".final_layer_norm", width, config.text.eps));
  SACCADE_ASSIGN(model.text_head_, Linear::make(source, text + ".head", width, config.projection, std));
  // Initial values of the paper: log 10 and -10.
  SACCADE_ASSIGN(model.logit_scale_, source.take("logit_scale", {1}, {std::log(10.0), 0}));
  SACCADE_ASSIGN(model.logit_bias_, source.take("logit_bias", {1}, {-10, 0}));
  return model;
}

Tensor SiglipModel::encode_images(const Tensor& pixels, DType dtype, TowerTrace* trace) const {
  return pool_.forward(vision_.forward(pixels, dtype, trace), dtype);
}

Tensor SiglipModel::project_texts(const Tensor& states) const {
  return text_head_.forward(states);
}

Tensor SiglipModel::text_states(const Tensor& ids, DType dtype, TowerTrace* trace) const {
  // x: [n, positions, width]
  Tensor x = nn::embedding(token_embedding_, ids) + text_positions_;
  if (only_pooled(x, trace)) {
    const Tensor last = Tensor::full_integers({ids.size(0)}, config_.positions - 1);
    x = run_blocks_to(last, text_blocks_, std::move(x), {}, dtype);
    return final_norm_.forward(x, DType::kF32);
  }
  x = run_blocks(text_blocks_, text_blocks_.size(), std::move(x), {}, dtype, trace);
  x = final_norm_.forward(x, DType::kF32);
  if (trace != nullptr) trace->last_hidden_state = x;
  return x.select(1, config_.positions - 1).contiguous();
}

// With attention pooling, the score is traced to the pooling's own weights. Each block's states replace the
// last one's, through the last norm.
Pooled SiglipModel::explain_pooling(const Tensor& tokens, const StateChange& change, PoolingWish wish,
                                    DType dtype) const {
  nn::AttentionPool::Trace trace;
  const Tensor states = pool_.forward_traced(vision_.norm().forward(tokens, DType::kF32), dtype, trace);
  const Tensor mixed = pool_.backward_to_attention(trace, change(states));
  nn::RelevanceInput input = nn::AttentionPool::relevance_input(trace);
  input.gradient = mixed;
  input.weights = Tensor::full({tokens.size(0), 1}, 1);
  input.times_attention = wish.times_attention;
  Pooled pooled;
  pooled.relevance = nn::attention_relevance(input);
  if (wish.gradient) {
    pooled.gradient = vision_.norm().backward(tokens, pool_.backward_from_attention(trace, mixed));
  }
  return pooled;
}

PictureTower SiglipModel::picture_tower(DType dtype) const {
  PictureTower tower;
  tower.embed = [this, dtype](const Tensor& pixels) { return vision_.embed(pixels, dtype); };
  for (const nn::TransformerBlock& block : vision_.blocks()) tower.blocks.push_back(crossed(block, dtype));
  tower.pool = [this, dtype](const Tensor& tokens, const StateChange& change, PoolingWish wish) {
    return explain_pooling(tokens, change, wish, dtype);
  };
  tower.pools_by_attention = true;
  tower.class_tokens = 0;
  tower.rows = tower.columns = static_cast<int>(config_.vision.image_size / config_.vision.patch_size);
  return tower;
}

void SiglipModel::pack(DType dtype) {
  vision_.pack(dtype, wide_layers_);
  pool_.pack(dtype);
  pack_tower(text_blocks_, nullptr, text_readers_, dtype, wide_layers_);
  text_head_.pack(DType::kF32);  // one row a text: no time to win, and the last step stays exact
}

}  // namespace saccade
