#include "saccade/model/families/jina_clip.h"

#include <bit>
#include <cmath>
#include <limits>

#include "saccade/nn/post_norm.h"

namespace saccade {
namespace {

using nn::LayerNorm;
using nn::Linear;
using torch::Tensor;

constexpr double kInitStd = 0.02;  // these models are loaded, not trained here
constexpr double kRotaryBase = 10'000;

// Query, key and value side by side, whose biases are tensors of their own and zero for the keys.
Result<Linear> make_query_key_value(nn::ParameterSource& source, const std::string& prefix,
                                    const EvaShape& shape) {
  const int64_t width = shape.blocks.width;
  std::vector<Tensor> weights;
  if (shape.sub_norm) {
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      SACCADE_ASSIGN(weights.emplace_back(),
                     source.take(fmt::format("{}{}.weight", prefix, name), {width, width}, {0, kInitStd}));
    }
  } else {
    SACCADE_ASSIGN(weights.emplace_back(),
                   source.take(prefix + "qkv.weight", {3 * width, width}, {0, kInitStd}));
  }
  Tensor bias;
  if (shape.query_value_bias) {
    SACCADE_ASSIGN(const Tensor query, source.take(prefix + "q_bias", {width}, {}));
    SACCADE_ASSIGN(const Tensor value, source.take(prefix + "v_bias", {width}, {}));
    bias = torch::cat({query, torch::zeros_like(query), value});
  }
  return Linear(torch::cat(weights), bias);
}

// Cosines and sines of the angles by which pairs of numbers are turned, [2, side * side, head width]: the
// first half of a head by the row, the second by the column, each pair by one frequency.
Tensor rotary_angles(int64_t side, int64_t head_width, double positions) {
  const int64_t half = head_width / 2;
  const Tensor exponents = torch::arange(0, half, 2, at::kFloat) / static_cast<double>(half);
  const Tensor frequencies = torch::pow(kRotaryBase, -exponents);
  const Tensor places = torch::arange(side, at::kFloat) / static_cast<double>(side) * positions;
  const Tensor along = at::outer(places, frequencies).repeat_interleave(2, 1);  // [side, half]
  const Tensor rows = along.unsqueeze(1).expand({side, side, half});
  const Tensor columns = along.unsqueeze(0).expand({side, side, half});
  const Tensor angles = torch::cat({rows, columns}, 2).view({side * side, head_width});
  return torch::stack({angles.cos(), angles.sin()});
}

// Turns queries and keys of all tokens but the first, in place. qkv: [n, tokens, 3 * width].
void turn_queries_and_keys(Tensor& qkv, int64_t heads, const Tensor& turn) {
  const int64_t head_width = qkv.size(2) / 3 / heads;
  Tensor part = qkv.view({qkv.size(0), qkv.size(1), 3, heads, head_width}).slice(1, 1).slice(2, 0, 2);
  const Tensor x = part.to(at::kFloat);  // x: [n, places, 2, heads, head_width]
  const Tensor pairs = x.reshape({x.size(0), x.size(1), 2, heads, head_width / 2, 2});
  const Tensor quarter = torch::stack({-pairs.select(5, 1), pairs.select(5, 0)}, 5).view_as(x);
  const auto broadcast = [&](int64_t which) { return turn[which].view({-1, 1, 1, head_width}); };
  part.copy_(x * broadcast(0) + quarter * broadcast(1));
}

}  // namespace

Tensor alibi_slopes(int64_t heads) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  for (int64_t i = 1; i <= power; ++i) {
    slopes.push_back(
        static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power))));
  }
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2) {
    slopes.push_back(
        static_cast<float>(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(power))));
  }
  return torch::tensor(slopes);
}

Result<EvaBlock> EvaBlock::make(nn::ParameterSource& source, const std::string& prefix,
                                const EvaShape& shape) {
  const int64_t width = shape.blocks.width;
  const int64_t inner = shape.blocks.mlp_width;
  const double eps = shape.blocks.eps;
  EvaBlock block;
  block.heads_ = shape.blocks.heads;
  block.sub_norm_ = shape.sub_norm;
  block.gated_ = shape.gated;
  SACCADE_ASSIGN(block.norm1_, LayerNorm::make(source, prefix + "norm1", width, eps));
  SACCADE_ASSIGN(block.query_key_value_, make_query_key_value(source, prefix + "attn.", shape));
  SACCADE_ASSIGN(block.output_, Linear::make(source, prefix + "attn.proj", width, width, kInitStd));
  SACCADE_ASSIGN(block.norm2_, LayerNorm::make(source, prefix + "norm2", width, eps));
  if (shape.gated) {
    SACCADE_ASSIGN(block.mlp_in_, Linear::make_joint(source, {prefix + "mlp.w1", prefix + "mlp.w2"}, width,
                                                     inner, kInitStd));
    SACCADE_ASSIGN(block.mlp_out_, Linear::make(source, prefix + "mlp.w3", inner, width, kInitStd));
  } else {
    SACCADE_ASSIGN(block.mlp_in_, Linear::make(source, prefix + "mlp.fc1", width, inner, kInitStd));
    SACCADE_ASSIGN(block.mlp_out_, Linear::make(source, prefix + "mlp.fc2", inner, width, kInitStd));
  }
  if (shape.sub_norm) {
    SACCADE_ASSIGN(block.attention_norm_, LayerNorm::make(source, prefix + "attn.inner_attn_ln", width, eps));
    SACCADE_ASSIGN(block.mlp_norm_, LayerNorm::make(source, prefix + "mlp.ffn_ln", inner, eps));
  }
  return block;
}

Tensor EvaBlock::forward(Tensor x, const Tensor& turn, at::ScalarType dtype) const {
  Tensor qkv = query_key_value_.forward(norm1_.forward(x, dtype));
  if (turn.defined()) turn_queries_and_keys(qkv, heads_, turn);
  Tensor mixed = nn::attention(qkv, heads_, {});
  if (sub_norm_) mixed = attention_norm_.forward(mixed.to(at::kFloat), dtype);
  x = output_.add_to(std::move(x), mixed);

  Tensor hidden =
      mlp_in_.forward(norm2_.forward(x, dtype), gated_ ? nn::Activation::kNone : nn::Activation::kGelu);
  if (gated_) {
    const std::vector<Tensor> halves = hidden.to(at::kFloat).chunk(2, -1);
    hidden = at::silu(halves[0]) * halves[1];
  }
  hidden = sub_norm_ ? mlp_norm_.forward(hidden.to(at::kFloat), dtype) : hidden.to(dtype);
  return mlp_out_.add_to(std::move(x), hidden);
}

void EvaBlock::pack(at::ScalarType dtype) {
  for (Linear* layer : {&query_key_value_, &output_, &mlp_in_, &mlp_out_}) layer->pack(dtype);
}

Result<JinaTextBlock> JinaTextBlock::make(nn::ParameterSource& source, const std::string& prefix,
                                          const nn::TransformerShape& shape) {
  JinaTextBlock block;
  block.heads_ = shape.heads;
  SACCADE_ASSIGN(block.query_key_value_,
                 Linear::make(source, prefix + "mixer.Wqkv", shape.width, 3 * shape.width, kInitStd));
  SACCADE_ASSIGN(block.output_,
                 Linear::make(source, prefix + "mixer.out_proj", shape.width, shape.width, kInitStd));
  SACCADE_ASSIGN(block.norm1_, LayerNorm::make(source, prefix + "norm1", shape.width, shape.eps));
  SACCADE_ASSIGN(block.gate_up_, Linear::make(source, prefix + "mlp.gated_layers", shape.width,
                                              2 * shape.mlp_width, kInitStd, true));
  SACCADE_ASSIGN(block.down_,
                 Linear::make(source, prefix + "mlp.wo", shape.mlp_width, shape.width, kInitStd));
  SACCADE_ASSIGN(block.norm2_, LayerNorm::make(source, prefix + "norm2", shape.width, shape.eps));
  return block;
}

Tensor JinaTextBlock::forward(Tensor x, const Tensor& bias, at::ScalarType dtype) const {
  const Tensor mixed = nn::attention(query_key_value_.forward(x.to(dtype)), heads_, bias);
  x = norm1_.forward(output_.add_to(std::move(x), mixed), at::kFloat);
  const std::vector<Tensor> halves = gate_up_.forward(x.to(dtype)).to(at::kFloat).chunk(2, -1);
  const Tensor hidden = (at::gelu(halves[0]) * halves[1]).to(dtype);
  return norm2_.forward(down_.add_to(std::move(x), hidden), at::kFloat);
}

void JinaTextBlock::pack(at::ScalarType dtype) {
  for (Linear* layer : {&query_key_value_, &output_, &gate_up_, &down_}) layer->pack(dtype);
}

Result<JinaClipModel> JinaClipModel::make(const JinaClipConfig& config, nn::ParameterSource& source) {
  JinaClipModel model;
  model.config_ = config;
  const EvaShape& vision = config.vision;
  const int64_t width = vision.blocks.width;
  const int64_t side = vision.image_size / vision.patch_size;
  const std::string eva = "vision_model.";
  SACCADE_ASSIGN(const Tensor kernel,
                 source.take(eva + "patch_embed.proj.weight",
                             {width, 3, vision.patch_size, vision.patch_size}, {0, kInitStd}));
  SACCADE_ASSIGN(const Tensor bias, source.take(eva + "patch_embed.proj.bias", {width}, {}));
  model.patch_embedding_ = Linear(kernel.reshape({width, -1}), bias);
  SACCADE_ASSIGN(model.class_token_, source.take(eva + "cls_token", {1, 1, width}, {0, kInitStd}));
  SACCADE_ASSIGN(model.positions_,
                 source.take(eva + "pos_embed", {1, side * side + 1, width}, {0, kInitStd}));
  for (int64_t i = 0; i < vision.blocks.layers; ++i) {
    SACCADE_ASSIGN(model.vision_blocks_.emplace_back(),
                   EvaBlock::make(source, fmt::format("{}blocks.{}.", eva, i), vision));
  }
  SACCADE_ASSIGN(model.vision_norm_, LayerNorm::make(source, eva + "norm", width, vision.blocks.eps));
  if (vision.rotary) {
    model.turn_ = rotary_angles(side, width / vision.blocks.heads, vision.rotary_positions);
  }

  const nn::TransformerShape& text = config.text.blocks;
  const std::string bert = "text_model.transformer.";
  SACCADE_ASSIGN(model.word_embedding_, source.take(bert + "embeddings.word_embeddings.weight",
                                                    {config.text.vocabulary, text.width}, {0, kInitStd}));
  SACCADE_ASSIGN(model.type_embedding_, source.take(bert + "embeddings.token_type_embeddings.weight",
                                                    {config.text.token_types, text.width}, {0, kInitStd}));
  SACCADE_ASSIGN(model.text_norm_, LayerNorm::make(source, bert + "emb_ln", text.width, text.eps));
  for (int64_t i = 0; i < text.layers; ++i) {
    SACCADE_ASSIGN(model.text_blocks_.emplace_back(),
                   JinaTextBlock::make(source, fmt::format("{}encoder.layers.{}.", bert, i), text));
  }
  model.slopes_ = alibi_slopes(text.heads);
  if (config.projection > 0) {
    SACCADE_ASSIGN(model.visual_projection_, Linear::make(source, "visual_projection", config.width,
                                                          config.projection, kInitStd, true));
    SACCADE_ASSIGN(model.text_projection_,
                   Linear::make(source, "text_projection", config.width, config.projection, kInitStd, true));
  }
  SACCADE_ASSIGN(model.logit_scale_, source.take("logit_scale", {}, {2.6592, 0}));
  return model;
}

Tensor JinaClipModel::encode_images(const Tensor& pixels, at::ScalarType dtype, TowerTrace* trace) const {
  const int64_t n = pixels.size(0);
  Tensor x =
      patch_embedding_.forward(nn::patches(pixels, config_.vision.patch_size).to(dtype)).to(at::kFloat);
  x = torch::cat({class_token_.expand({n, 1, x.size(2)}), x}, 1) + positions_;
  for (size_t i = 0; i < vision_blocks_.size(); ++i) {
    x = vision_blocks_[i].forward(std::move(x), turn_, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  if (trace != nullptr) trace->last_hidden_state = x;
  x = vision_norm_.forward(x.select(1, 0), at::kFloat);
  return config_.projection > 0 ? visual_projection_.forward(x) : x;
}

Tensor JinaClipModel::encode_texts(const Tensor& ids, const Tensor& mask, at::ScalarType dtype,
                                   TowerTrace* trace) const {
  const int64_t tokens = ids.size(1);
  const Tensor places = torch::arange(tokens, at::kFloat);
  const Tensor distance = (places.unsqueeze(1) - places.unsqueeze(0)).abs();
  Tensor bias = (-slopes_.view({-1, 1, 1}) * distance).unsqueeze(0);  // [1, heads, tokens, tokens]
  if (at::eq(mask, 0).any().item<bool>()) bias = bias + nn::padding_mask(mask);
  Tensor x = at::embedding(word_embedding_, ids) + type_embedding_[0];
  x = text_norm_.forward(x, at::kFloat);
  for (size_t i = 0; i < text_blocks_.size(); ++i) {
    x = text_blocks_[i].forward(std::move(x), bias, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  if (trace != nullptr) trace->last_hidden_state = x;
  const Tensor own = mask.to(at::kFloat).unsqueeze(2);
  x = (x * own).sum(1) / own.sum(1);
  return config_.projection > 0 ? text_projection_.forward(x) : x;
}

void JinaClipModel::pack(at::ScalarType dtype) {
  patch_embedding_.pack(dtype);
  for (EvaBlock& block : vision_blocks_) block.pack(dtype);
  for (JinaTextBlock& block : text_blocks_) block.pack(dtype);
  if (config_.projection > 0) {
    visual_projection_.pack(at::kFloat);
    text_projection_.pack(at::kFloat);
  }
}

}  // namespace saccade
