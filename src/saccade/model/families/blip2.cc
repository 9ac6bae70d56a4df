#include "saccade/model/families/blip2.h"

#include <cmath>

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

// `part`: "attention" or "crossattention".
BlockNames attention_names(const std::string& part) {
  return {part + ".output.LayerNorm",
          part + ".attention.query",
          part + ".attention.key",
          part + ".attention.value",
          part + ".output.dense",
          "",
          "",
          ""};
}

// `suffix`: "_query" for the queries' own.
BlockNames mlp_names(const std::string& suffix) {
  BlockNames names;
  names.mlp_in = "intermediate" + suffix + ".dense";
  names.mlp_out = "output" + suffix + ".dense";
  names.norm2 = "output" + suffix + ".LayerNorm";
  return names;
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

Tensor Blip2Vision::forward(const Tensor& pixels, DType dtype) const {
  // x: [n, tokens, width]
  Tensor x = patch_embedding_.forward(nn::patches(pixels, config_.patch_size).to(dtype)).to(DType::kF32);
  x = nn::cat({class_embedding_.expand({pixels.size(0), 1, x.size(2)}), x}, 1) + positions_;
  for (const nn::TransformerBlock& block : blocks_) x = block.forward(std::move(x), {}, dtype);
  return post_norm_.forward(x, DType::kF32);
}

void Blip2Vision::pack(DType dtype) {
  patch_embedding_.pack(dtype);
  for (nn::TransformerBlock& block : blocks_) block.pack(dtype);
}

Result<QFormer::Block> QFormer::make_block(const QFormerConfig& config, int64_t index,
                                           nn::ParameterSource& source) {
  const std::string prefix = fmt::format("qformer.encoder.layer.{}.", index);
  Block block;
  SACCADE_ASSIGN(block.attention,
                 nn::PostNormAttention::make(source, prefix, attention_names("attention"), config.shape));
  if (index % config.cross_attention_frequency == 0) {
    SACCADE_ASSIGN(block.cross_attention,
                   nn::PostNormCrossAttention::make(source, prefix, attention_names("crossattention"),
                                                    config.shape, config.memory_width));
  }
  SACCADE_ASSIGN(block.query_mlp, nn::PostNormMlp::make(source, prefix, mlp_names("_query"), config.shape));
  if (config.text_input) {
    SACCADE_ASSIGN(block.text_mlp, nn::PostNormMlp::make(source, prefix, mlp_names(""), config.shape));
  }
  return block;
}

Result<QFormer> QFormer::make(const QFormerConfig& config, int64_t queries, nn::ParameterSource& source) {
  QFormer qformer;
  const int64_t width = config.shape.width;
  SACCADE_ASSIGN(qformer.query_tokens_, source.take("query_tokens", {1, queries, width}, {0, kInitStd}));
  if (config.text_input) {
    SACCADE_ASSIGN(qformer.word_embedding_, source.take("embeddings.word_embeddings.weight",
                                                        {config.vocabulary, width}, {0, kInitStd}));
    SACCADE_ASSIGN(qformer.position_embedding_, source.take("embeddings.position_embeddings.weight",
                                                            {config.positions, width}, {0, kInitStd}));
  }
  SACCADE_ASSIGN(qformer.norm_, nn::LayerNorm::make(source, "qformer.layernorm", width, config.shape.eps));
  for (int64_t i = 0; i < config.shape.layers; ++i) {
    SACCADE_ASSIGN(qformer.blocks_.emplace_back(), make_block(config, i, source));
  }
  return qformer;
}

Tensor QFormer::embed(const Tensor& ids) const {
  return nn::embedding(word_embedding_, ids) + position_embedding_.slice(0, 0, ids.size(1));
}

Tensor QFormer::finish_queries(const Block& block, Tensor x, const Tensor& memory, DType dtype) {
  if (block.cross_attention) x = block.cross_attention->forward(std::move(x), memory, dtype);
  return block.query_mlp.forward(std::move(x), dtype);
}

Tensor QFormer::ask(const Tensor& memory, DType dtype) const {
  Tensor x =
      norm_.forward(query_tokens_.in(memory.workspace()).expand({memory.size(0), -1, -1}), DType::kF32);
  for (const Block& block : blocks_) {
    x = finish_queries(block, block.attention.forward(std::move(x), {}, dtype), memory, dtype);
  }
  return x;
}

Tensor QFormer::read(const Tensor& ids, const Tensor& attention_mask, DType dtype) const {
  const Tensor mask = nn::padding_mask(attention_mask);
  Tensor x = norm_.forward(embed(ids), DType::kF32);
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) {
    x = blocks_[i].text_mlp->forward(blocks_[i].attention.forward(std::move(x), mask, dtype), dtype);
  }
  // Of the last block, nothing but the first token's state is read.
  const Tensor first = Tensor::zeros({ids.size(0)}, DType::kI64);
  return blocks_.back().text_mlp->forward(blocks_.back().attention.forward_at(x, mask, dtype, first), dtype);
}

Tensor QFormer::compare(const Tensor& memory, const Tensor& ids, const Tensor& attention_mask,
                        DType dtype) const {
  const int64_t n = ids.size(0);
  const int64_t queries = query_tokens_.size(1);
  const Tensor all = nn::cat({Tensor::full_integers({n, queries}, 1), attention_mask}, 1);
  const Tensor mask = nn::padding_mask(all);
  // x: [n, queries + tokens, width]
  Tensor x = norm_.forward(nn::cat({query_tokens_.expand({n, -1, -1}), embed(ids)}, 1), DType::kF32);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    x = block.attention.forward(std::move(x), mask, dtype);
    const Tensor asked = finish_queries(block, x.slice(1, 0, queries).contiguous(), memory, dtype);
    if (i + 1 == blocks_.size()) return asked;  // of the text's states, none is read any more
    x = nn::cat({asked, block.text_mlp->forward(x.slice(1, queries).contiguous(), dtype)}, 1);
  }
  return x;
}

void QFormer::pack(DType dtype) {
  for (Block& block : blocks_) {
    block.attention.pack(dtype);
    if (block.cross_attention) block.cross_attention->pack(dtype);
    block.query_mlp.pack(dtype);
    if (block.text_mlp) block.text_mlp->pack(dtype);
  }
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

Tensor Blip2Retrieval::match_logits(const Tensor& memory, const Tensor& ids, const Tensor& attention_mask,
                                    DType dtype) const {
  return nn::mean(match_head.forward(qformer.compare(memory, ids, attention_mask, dtype)), 1);
}

void Blip2Retrieval::pack(DType dtype) {
  vision.pack(dtype);
  qformer.pack(dtype);
  // A few rows a picture: no time to win, and the last step stays exact.
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
