#include "saccade/model/families/jina_clip.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "saccade/nn/kernels/rotary.h"

namespace saccade {
namespace {

using nn::LayerNorm;
using nn::Linear;
using nn::Tensor;

constexpr double kInitStd = 0.02;  // these models are loaded, not trained here
constexpr double kRotaryBase = 10'000;

// Concatenates query, key and value. The biases are separate tensors, and zero for the keys.
Result<Linear> make_query_key_value(nn::ParameterSource& source, const std::string& prefix,
                                    const EvaShape& shape) {
  const int64_t width = shape.blocks.width;
  std::vector<Tensor> weights;
  if (shape.sub_norm) {
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      SACCADE_ASSIGN(weights.emplace_back(), source.take_stored(fmt::format("{}{}.weight", prefix, name),
                                                                {width, width}, {0, kInitStd}));
    }
  } else {
    SACCADE_ASSIGN(weights.emplace_back(),
                   source.take_stored(prefix + "qkv.weight", {3 * width, width}, {0, kInitStd}));
  }
  Tensor bias;
  if (shape.query_value_bias) {
    SACCADE_ASSIGN(const Tensor query, source.take(prefix + "q_bias", {width}, {}));
    SACCADE_ASSIGN(const Tensor value, source.take(prefix + "v_bias", {width}, {}));
    bias = nn::cat({query, Tensor::zeros({width}), value});
  }
  return Linear(std::move(weights), bias.defined() ? std::vector<Tensor>{bias} : std::vector<Tensor>{});
}

// Computes cosines and sines of the rotation angles, [side * side, head width] each. The first half of a head
// depends on the row, the second on the column, with one frequency per pair of values. Computed in float32
// step by step, like the reference.
EvaTurn rotary_angles(int64_t side, int64_t head_width, double positions) {
  const int64_t half = head_width / 2;
  EvaTurn turn{Tensor::empty({side * side, head_width}), Tensor::empty({side * side, head_width})};
  for (int64_t place = 0; place < side * side; ++place) {
    for (int64_t i = 0; i < head_width; ++i) {
      const int64_t at = i < half ? place / side : place % side;
      const float exponent = static_cast<float>(i % half / 2 * 2) / static_cast<float>(half);
      const float frequency = std::pow(static_cast<float>(kRotaryBase), -exponent);
      const float angle =
          static_cast<float>(at) / static_cast<float>(side) * static_cast<float>(positions) * frequency;
      turn.cos.data<float>()[place * head_width + i] = std::cos(angle);
      turn.sin.data<float>()[place * head_width + i] = std::sin(angle);
    }
  }
  return turn;
}

// Rotates queries and keys of all tokens but the first, in place. qkv: [n, tokens, 3 * width].
void turn_queries_and_keys(const Tensor& qkv, int64_t heads, const EvaTurn& turn) {
  const Tensor parts = qkv.view({qkv.size(0), qkv.size(1), 3, heads, qkv.size(2) / 3 / heads}).slice(1, 1);
  for (const int64_t which : {0, 1}) nn::turn_neighbours(parts.select(2, which), turn.cos, turn.sin);
}

// Computes the ALiBi bias, which decreases with distance: [1, heads, tokens, tokens].
Tensor alibi_bias(const Tensor& slopes, int64_t tokens) {
  const int64_t heads = slopes.numel();
  Tensor bias = Tensor::empty({1, heads, tokens, tokens});
  float* to = bias.data<float>();
  for (const float slope : slopes.floats()) {
    for (int64_t row = 0; row < tokens; ++row) {
      for (int64_t column = 0; column < tokens; ++column, ++to) {
        *to = -slope * static_cast<float>(std::abs(row - column));
      }
    }
  }
  return bias;
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
  const auto count = static_cast<int64_t>(slopes.size());
  return Tensor::of(slopes, {count});
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
    SACCADE_ASSIGN(block.mlp_gate_, Linear::make(source, prefix + "mlp.w1", width, inner, kInitStd));
    SACCADE_ASSIGN(block.mlp_in_, Linear::make(source, prefix + "mlp.w2", width, inner, kInitStd));
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

Tensor EvaBlock::forward(Tensor x, const EvaTurn& turn, DType dtype) const {
  const Tensor qkv = query_key_value_.forward(norm1_.forward(x, dtype));
  if (turn.cos.defined()) turn_queries_and_keys(qkv, heads_, turn);
  Tensor mixed = nn::attention(qkv, heads_, {});
  if (sub_norm_) mixed = attention_norm_.forward(mixed.to(DType::kF32), dtype);
  x = output_.add_to(std::move(x), mixed);
  const Tensor hidden = mlp(norm2_.forward(x, dtype), dtype);
  return mlp_out_.add_to(std::move(x), hidden);
}

Tensor EvaBlock::mlp(const Tensor& normed, DType dtype) const {
  Tensor hidden = gated_ ? mlp_gate_.forward(normed, nn::Activation::kSilu) * mlp_in_.forward(normed)
                         : mlp_in_.forward(normed, nn::Activation::kGelu);
  if (sub_norm_) hidden = mlp_norm_.forward(hidden.to(DType::kF32), dtype);
  return hidden;
}

Tensor EvaBlock::forward_traced(const Tensor& x, const EvaTurn& turn, DType dtype,
                                nn::BlockTrace& trace) const {
  trace.input = x;
  trace.qkv = query_key_value_.forward(norm1_.forward(x, dtype)).to(DType::kF32);
  if (turn.cos.defined()) turn_queries_and_keys(trace.qkv, heads_, turn);
  Tensor mixed = nn::attention(trace.qkv, heads_, {});
  if (sub_norm_) {
    trace.mixed = mixed;
    mixed = attention_norm_.forward(mixed, dtype);
  }
  trace.middle = output_.add_to(x.clone(), mixed);
  return mlp_out_.add_to(trace.middle.clone(), mlp(norm2_.forward(trace.middle, dtype), dtype));
}

nn::BlockGradient EvaBlock::backward_to_attention(const nn::BlockTrace& trace, const Tensor& gradient) const {
  const int64_t tokens = gradient.size(1);
  const Tensor middle = trace.middle.slice(1, 0, tokens).contiguous();
  const Tensor normed = norm2_.forward(middle, DType::kF32);
  const Tensor in = mlp_in_.forward(normed);
  const Tensor gate = gated_ ? mlp_gate_.forward(normed) : Tensor();
  Tensor change = mlp_out_.backward(gradient);
  if (sub_norm_) {
    const Tensor hidden =
        gated_ ? nn::activate(gate, nn::Activation::kSilu) * in : nn::activate(in, nn::Activation::kGelu);
    change = mlp_norm_.backward(hidden, change);
  }
  const Tensor to_norm =
      gated_ ? mlp_gate_.backward(nn::activation_backward(gate, nn::Activation::kSilu, change * in)) +
                   mlp_in_.backward(change * nn::activate(gate, nn::Activation::kSilu))
             : mlp_in_.backward(nn::activation_backward(in, nn::Activation::kGelu, change));
  nn::BlockGradient result;
  result.middle = gradient + norm2_.backward(middle, to_norm);
  result.mixed = output_.backward(result.middle);
  if (sub_norm_) {
    result.mixed = attention_norm_.backward(trace.mixed.slice(1, 0, tokens).contiguous(), result.mixed);
  }
  return result;
}

Tensor EvaBlock::backward_from_attention(const nn::BlockTrace& trace, const EvaTurn& turn,
                                         const nn::BlockGradient& gradient) const {
  const Tensor qkv = nn::attention_backward(trace.qkv, heads_, gradient.mixed);
  // Undo the rotation by the opposite angle.
  if (turn.cos.defined()) turn_queries_and_keys(qkv, heads_, {turn.cos, turn.sin * -1.0});
  return gradient.middle + norm1_.backward(trace.input, query_key_value_.backward(qkv));
}

void EvaBlock::pack(DType dtype) {
  for (Linear* layer : {&query_key_value_, &output_, &mlp_in_, &mlp_out_}) layer->pack(dtype);
  if (gated_) mlp_gate_.pack(dtype);
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
  SACCADE_ASSIGN(const Tensor gated, source.take_stored(prefix + "mlp.gated_layers.weight",
                                                        {2 * shape.mlp_width, shape.width}, {0, kInitStd}));
  block.gate_ = Linear(gated.slice(0, 0, shape.mlp_width));
  block.up_ = Linear(gated.slice(0, shape.mlp_width));
  SACCADE_ASSIGN(block.down_,
                 Linear::make(source, prefix + "mlp.wo", shape.mlp_width, shape.width, kInitStd));
  SACCADE_ASSIGN(block.norm2_, LayerNorm::make(source, prefix + "norm2", shape.width, shape.eps));
  return block;
}

Tensor JinaTextBlock::forward(Tensor x, const Tensor& bias, DType dtype) const {
  const Tensor mixed = nn::attention(query_key_value_.forward(x.to(dtype)), heads_, bias);
  x = norm1_.forward(output_.add_to(std::move(x), mixed), DType::kF32);
  const Tensor input = x.to(dtype);
  const Tensor hidden = gate_.forward(input, nn::Activation::kGelu) * up_.forward(input);
  return norm2_.forward(down_.add_to(std::move(x), hidden), DType::kF32);
}

void JinaTextBlock::pack(DType dtype) {
  for (Linear* layer : {&query_key_value_, &output_, &gate_, &up_, &down_}) layer->pack(dtype);
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
  model.patch_embedding_ = Linear(kernel.view({width, -1}), bias);
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

Tensor JinaClipModel::project_images(const Tensor& states) const {
  return config_.projection > 0 ? visual_projection_.forward(states) : states;
}

Tensor JinaClipModel::project_texts(const Tensor& states) const {
  return config_.projection > 0 ? text_projection_.forward(states) : states;
}

Tensor JinaClipModel::embed_images(const Tensor& pixels, DType dtype) const {
  const Tensor x =
      patch_embedding_.forward(nn::patches(pixels, config_.vision.patch_size).to(dtype)).to(DType::kF32);
  return nn::cat({class_token_.expand({pixels.size(0), 1, x.size(2)}), x}, 1) + positions_;
}

PictureTower JinaClipModel::picture_tower(DType dtype) const {
  PictureTower tower;
  tower.embed = [this, dtype](const Tensor& pixels) { return embed_images(pixels, dtype); };
  for (const EvaBlock& block : vision_blocks_) {
    CrossedBlock& crossed = tower.blocks.emplace_back();
    crossed.forward = [this, &block, dtype](const Tensor& x, nn::BlockTrace& trace) {
      return block.forward_traced(x, turn_, dtype, trace);
    };
    crossed.to_attention = [&block](const nn::BlockTrace& trace, const Tensor& gradient) {
      return block.backward_to_attention(trace, gradient);
    };
    crossed.from_attention = [this, &block](const nn::BlockTrace& trace, const nn::BlockGradient& gradient) {
      return block.backward_from_attention(trace, turn_, gradient);
    };
    crossed.heads = block.heads();
  }
  tower.pool = [this](const Tensor& tokens, const StateChange& change, PoolingWish) {
    return pool_first(vision_norm_, tokens, change);
  };
  if (config_.projection > 0) tower.projection = &visual_projection_;
  tower.rows = tower.columns = static_cast<int>(config_.vision.image_size / config_.vision.patch_size);
  return tower;
}

Tensor JinaClipModel::image_states(const Tensor& pixels, DType dtype, TowerTrace* trace) const {
  Tensor x = embed_images(pixels, dtype);
  for (size_t i = 0; i < vision_blocks_.size(); ++i) {
    x = vision_blocks_[i].forward(std::move(x), turn_, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  if (trace != nullptr) trace->last_hidden_state = x;
  return vision_norm_.forward(x.select(1, 0), DType::kF32);
}

Tensor JinaClipModel::text_states(const Tensor& ids, const Tensor& mask, DType dtype,
                                  TowerTrace* trace) const {
  const int64_t tokens = ids.size(1);
  Tensor bias = alibi_bias(slopes_, tokens);
  if (std::ranges::any_of(mask.integers(), [](int64_t kept) { return kept == 0; })) {
    bias = bias + nn::padding_mask(mask);
  }
  Tensor x = nn::embedding(word_embedding_, ids) + type_embedding_[0];
  x = text_norm_.forward(x, DType::kF32);
  for (size_t i = 0; i < text_blocks_.size(); ++i) {
    x = text_blocks_[i].forward(std::move(x), bias, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  if (trace != nullptr) trace->last_hidden_state = x;
  return nn::mean_of_kept(x, mask);
}

void JinaClipModel::pack(DType dtype) {
  patch_embedding_.pack(dtype);
  for (EvaBlock& block : vision_blocks_) block.pack(dtype);
  for (JinaTextBlock& block : text_blocks_) block.pack(dtype);
  if (config_.projection > 0) {
    visual_projection_.pack(DType::kF32);
    text_projection_.pack(DType::kF32);
  }
}

}  // namespace saccade
