#include "saccade/model/families/blip2.h"

namespace saccade {
namespace {

using nn::BlockNames;
using nn::Linear;
using nn::Tensor;

constexpr double kInitStd = 0.02;

const BlockNames& vision_names() {
  static const BlockNames kNames{"layer_norm1",          "self_attn.qkv", "",        "",
                                 "self_attn.projection", "layer_norm2",   "mlp.fc1", "mlp.fc2"};
  return kNames;
}

}  // namespace

Result<Blip2Vision> Blip2Vision::make(const Blip2VisionConfig& config, nn::ParameterSource& source) {
  Blip2Vision vision;
  vision.config_ = config;
  const int64_t width = config.shape.width;
  const std::string prefix = "vision_model.embeddings.";
  SACCADE_ASSIGN(vision.class_embedding_,
                 source.take(prefix + "class_embedding", {1, 1, width}, {0, kInitStd}));
  SACCADE_ASSIGN(const Tensor kernel,
                 source.take(prefix + "patch_embedding.weight",
                             {width, 3, config.patch_size, config.patch_size}, {0, kInitStd}));
  SACCADE_ASSIGN(const Tensor bias, source.take(prefix + "patch_embedding.bias", {width}, {}));
  vision.patch_embedding_ = Linear(kernel.view({width, 3 * config.patch_size * config.patch_size}), bias);
  SACCADE_ASSIGN(vision.positions_,
                 source.take(prefix + "position_embedding", {1, config.tokens(), width}, {0, kInitStd}));
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    SACCADE_ASSIGN(vision.blocks_.emplace_back(),
                   nn::TransformerBlock::make(source, fmt::format("vision_model.encoder.layers.{}.", i),
                                              vision_names(), config.shape));
  }
  SACCADE_ASSIGN(vision.post_norm_,
                 nn::LayerNorm::make(source, "vision_model.post_layernorm", width, config.shape.eps));
  return vision;
}

Tensor Blip2Vision::embed(const Tensor& pixels, DType dtype) const {
  const Tensor x =
      patch_embedding_.forward(nn::patches(pixels, config_.patch_size).to(dtype)).to(DType::kF32);
  return nn::cat({class_embedding_.expand({pixels.size(0), 1, x.size(2)}), x}, 1) + positions_;
}

Tensor Blip2Vision::forward(const Tensor& pixels, DType dtype) const {
  Tensor x = embed(pixels, dtype);  // [n, tokens, width]
  for (const nn::TransformerBlock& block : blocks_) x = block.forward(std::move(x), {}, dtype);
  return post_norm_.forward(x, DType::kF32);
}

void Blip2Vision::pack(DType dtype) {
  patch_embedding_.pack(dtype);
  for (nn::TransformerBlock& block : blocks_) block.pack(dtype);
}

Result<Blip2Retrieval> Blip2Retrieval::make(const Blip2Config& config, nn::ParameterSource& source) {
  Blip2Retrieval model;
  const int64_t width = config.qformer.shape.width;
  SACCADE_ASSIGN(model.vision, Blip2Vision::make(config.vision, source));
  SACCADE_ASSIGN(model.qformer, QFormer::make(config.qformer, config.queries, source));
  SACCADE_ASSIGN(model.image_projection,
                 Linear::make(source, "vision_projection", width, config.projection, kInitStd));
  SACCADE_ASSIGN(model.text_projection,
                 Linear::make(source, "text_projection", width, config.projection, kInitStd));
  SACCADE_ASSIGN(model.match_head, Linear::make(source, "itm_head", width, 2, kInitStd));
  return model;
}

Tensor Blip2Retrieval::image_rows(const Tensor& memory, DType dtype) const {
  return nn::normalize_rows(image_projection.forward(qformer.ask(memory, dtype)));
}

Tensor Blip2Retrieval::text_rows(const Tensor& ids, const Tensor& attention_mask, DType dtype) const {
  return nn::normalize_rows(text_projection.forward(qformer.read(ids, attention_mask, dtype)));
}

Tensor Blip2Retrieval::prompted_rows(const Tensor& memory, const Tensor& ids, const Tensor& attention_mask,
                                     DType dtype) const {
  const Tensor prompt = qformer.compare(memory, ids, attention_mask, dtype);
  return nn::normalize_rows(text_projection.forward(
      qformer.read_prompted(prompt, QFormer::PromptPlace::kBefore, ids, attention_mask, dtype)));
}

Tensor Blip2Retrieval::match_logits(const Tensor& memory, const Tensor& ids, const Tensor& attention_mask,
                                    DType dtype) const {
  return nn::mean(match_head.forward(qformer.compare(memory, ids, attention_mask, dtype)), 1);
}

void Blip2Retrieval::pack(DType dtype) {
  vision.pack(dtype);
  qformer.pack(dtype);
  // These layers run on a few rows per image, so lower precision would save no time; they stay exact.
  for (Linear* layer : {&image_projection, &text_projection, &match_head}) layer->pack(DType::kF32);
}

Result<Blip2T5> Blip2T5::make(const Blip2Config& config, nn::ParameterSource& source) {
  Blip2T5 model;
  SACCADE_ASSIGN(model.vision, Blip2Vision::make(config.vision, source));
  SACCADE_ASSIGN(model.qformer, QFormer::make(config.qformer, config.queries, source));
  SACCADE_ASSIGN(
      model.language_projection,
      Linear::make(source, "language_projection", config.qformer.shape.width, config.text.width, kInitStd));
  SACCADE_ASSIGN(model.text, T5Encoder::make(config.text, source, "language_model."));
  return model;
}

void Blip2T5::pack(DType dtype) {
  vision.pack(dtype);
  qformer.pack(dtype);
  language_projection.pack(DType::kF32);
  text.pack(dtype);
}

}  // namespace saccade
