#include "saccade/model/towers/gemma.h"

#include <cmath>
#include <utility>

#include "saccade/model/checkpoints/config_fields.h"

namespace saccade {

using nn::Linear;
using nn::Tensor;

namespace {

Status check(const GemmaConfig& config) {
  constexpr int64_t kMaxSide = 65'536;
  SACCADE_TRY(in_range("\"vocab_size\"", config.vocabulary, 3, 10'000'000));
  SACCADE_TRY(in_range("\"hidden_size\"", config.width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_hidden_layers\"", config.layers, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_attention_heads\"", config.heads, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_key_value_heads\"", config.key_heads, 1, config.heads));
  SACCADE_TRY(in_range("\"head_dim\"", config.head_width, 2, kMaxSide));
  SACCADE_TRY(in_range("\"num_attention_heads\" times \"head_dim\"", config.heads * config.head_width, 1,
                       4 * kMaxSide));
  SACCADE_TRY(in_range("\"intermediate_size\"", config.mlp_width, 1, 4 * kMaxSide));
  SACCADE_TRY(in_range("\"max_position_embeddings\"", config.positions, 2, 1 << 20));
  if (config.heads % config.key_heads != 0) {
    return fail(ErrorCode::kBadData,
                "\"num_attention_heads\" is {}, not a multiple of the {} \"num_key_value_heads\"",
                config.heads, config.key_heads);
  }
  if (config.head_width % 2 != 0) {
    return fail(ErrorCode::kBadData, "\"head_dim\" is {}: rotary positions turn pairs", config.head_width);
  }
  if (!(config.eps > 0 && config.eps < 1)) {
    return fail(ErrorCode::kBadData, "\"rms_norm_eps\" is {}, expected above 0 and below 1", config.eps);
  }
  if (!(config.theta > 1 && config.theta < 1e12)) {
    return fail(ErrorCode::kBadData, "\"rope_theta\" is {}, expected above 1 and below 1e12", config.theta);
  }
  return {};
}

// Reads "rope_theta", which is among the other fields or, in newer files, in "rope_parameters". Positions
// stretched for longer texts ("rope_scaling", another "rope_type") are not supported.
Result<double> read_theta(const Json& section, double theta) {
  SACCADE_ASSIGN(theta, json_field_or<double>(section, "rope_theta", theta));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = section.find(key);
    if (found == section.end() || found->is_null()) continue;
    if (!found->is_object()) {
      return fail(ErrorCode::kBadData, "\"{}\" is {}, not an object", key, json_kind(*found));
    }
    SACCADE_ASSIGN(const auto type,
                   json_field_or<std::string>(*found, "rope_type", std::string("default")).in(key));
    if (type != "default" || found->contains("type") || found->contains("factor")) {
      return fail(ErrorCode::kUnsupported, "\"{}\" is {}; known is \"rope_type\": \"default\"", key,
                  dump_json(*found));
    }
    SACCADE_ASSIGN(theta, json_field_or<double>(*found, "rope_theta", theta).in(key));
  }
  return theta;
}

}  // namespace

Result<GemmaConfig> gemma_config_from_hugging_face(const Json& section) {
  GemmaConfig config;
  SACCADE_ASSIGN(const auto type, json_field_or<std::string>(section, "model_type", std::string("gemma")));
  if (type != "gemma") {
    return fail(ErrorCode::kUnsupported, "\"model_type\" is \"{}\", known is gemma", type.substr(0, 80));
  }
  const std::pair<const char*, int64_t*> sizes[] = {
      {"vocab_size", &config.vocabulary},         {"hidden_size", &config.width},
      {"num_hidden_layers", &config.layers},      {"num_attention_heads", &config.heads},
      {"num_key_value_heads", &config.key_heads}, {"head_dim", &config.head_width},
      {"intermediate_size", &config.mlp_width},   {"max_position_embeddings", &config.positions}};
  for (const auto& [key, value] : sizes) {
    SACCADE_ASSIGN(*value, json_field_or<int64_t>(section, key, *value));
  }
  SACCADE_ASSIGN(config.eps, json_field_or<double>(section, "rms_norm_eps", config.eps));
  SACCADE_ASSIGN(config.theta, read_theta(section, config.theta));
  // "hidden_activation" was added because files named "gelu" for models trained with its tanh approximation.
  // It is null if "hidden_act" applies.
  std::string activation = "gelu_pytorch_tanh";
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    if (!section.contains(key) || section[key].is_null()) continue;
    SACCADE_ASSIGN(activation, json_field<std::string>(section, key));
  }
  SACCADE_ASSIGN(config.activation, nn::activation_named(activation));
  SACCADE_ASSIGN(const bool bias, json_field_or<bool>(section, "attention_bias", false));
  if (bias) {
    return fail(ErrorCode::kUnsupported, "\"attention_bias\" is true; known is false");
  }
  SACCADE_TRY(check(config));
  return config;
}

Result<Gemma::Block> Gemma::make_block(const GemmaConfig& config, nn::ParameterSource& source,
                                       const std::string& prefix) {
  constexpr double kInitStd = 0.02;  // the reference's "initializer_range"
  const int64_t width = config.width;
  const int64_t inner = config.heads * config.head_width;
  const std::string attention = prefix + "self_attn.";
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    return Linear::make(source, name, in, out, kInitStd, true);
  };
  // Gains are stored relative to 1.
  const auto norm = [&](const char* name) {
    return nn::RmsNorm::make(source, prefix + name, width, config.eps, 1);
  };
  Block block;
  SACCADE_ASSIGN(block.norm1, norm("input_layernorm"));
  SACCADE_ASSIGN(block.query, linear(attention + "q_proj", width, inner));
  SACCADE_ASSIGN(block.key_value,
                 Linear::make_joint(source, {attention + "k_proj", attention + "v_proj"}, width,
                                    config.key_heads * config.head_width, kInitStd, true));
  SACCADE_ASSIGN(block.output, linear(attention + "o_proj", inner, width));
  SACCADE_ASSIGN(block.norm2, norm("post_attention_layernorm"));
  SACCADE_ASSIGN(block.gate, linear(prefix + "mlp.gate_proj", width, config.mlp_width));
  SACCADE_ASSIGN(block.up, linear(prefix + "mlp.up_proj", width, config.mlp_width));
  SACCADE_ASSIGN(block.down, linear(prefix + "mlp.down_proj", config.mlp_width, width));
  return block;
}

Result<Gemma> Gemma::make(const GemmaConfig& config, nn::ParameterSource& source, const std::string& prefix) {
  Gemma model;
  model.config_ = config;
  SACCADE_ASSIGN(model.token_embedding_, source.take_stored(prefix + "embed_tokens.weight",
                                                            {config.vocabulary, config.width}, {0, 0.02}));
  model.rotary_ = nn::Rotary(config.head_width, config.theta);
  for (int64_t i = 0; i < config.layers; ++i) {
    SACCADE_ASSIGN(model.blocks_.emplace_back(),
                   make_block(config, source, fmt::format("{}layers.{}.", prefix, i)));
  }
  SACCADE_ASSIGN(model.norm_, nn::RmsNorm::make(source, prefix + "norm", config.width, config.eps, 1));
  return model;
}

Tensor Gemma::embed(const Tensor& ids) const {
  return nn::embedding(token_embedding_, ids) * std::sqrt(static_cast<double>(config_.width));
}

// x: normalized, of the products' dtype. [n, tokens, heads * head_width]
Tensor Gemma::mix(const Block& block, const Tensor& x, const nn::Rotary::Angles& angles,
                  const Tensor& mask) const {
  const int64_t n = x.size(0);
  const int64_t tokens = x.size(1);
  const Tensor query = block.query.forward(x).view({n, tokens, config_.heads, config_.head_width});
  const Tensor key_value =
      block.key_value.forward(x).view({n, tokens, 2, config_.key_heads, config_.head_width});
  const Tensor key = key_value.select(2, 0);
  nn::Rotary::turn(query, angles);
  nn::Rotary::turn(key, angles);
  return nn::attention(query, key, key_value.select(2, 1), mask);
}

Tensor Gemma::forward(Tensor x, const Tensor& mask, DType dtype) const {
  const nn::Rotary::Angles angles = rotary_.angles(1, x.size(1));
  for (const Block& block : blocks_) {
    // Apart from the call, because the order in which arguments are evaluated differs between processors.
    const Tensor mixed = mix(block, block.norm1.forward(x, dtype), angles, mask);
    x = block.output.add_to(std::move(x), mixed);
    const Tensor normed = block.norm2.forward(x, dtype);
    const Tensor hidden = block.gate.forward(normed, config_.activation) * block.up.forward(normed);
    x = block.down.add_to(std::move(x), hidden);
  }
  return norm_.forward(x, DType::kF32);
}

void Gemma::pack(DType dtype) {
  for (Block& block : blocks_) {
    for (Linear* layer :
         {&block.query, &block.key_value, &block.output, &block.gate, &block.up, &block.down}) {
      layer->pack(dtype);
    }
  }
}

}  // namespace saccade
