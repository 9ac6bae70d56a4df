#include "saccade/model/towers/t5_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "saccade/model/checkpoints/config_fields.h"

namespace saccade {
namespace {

using nn::Linear;
using nn::Tensor;

Status check(const T5Config& config) {
  constexpr int64_t kMaxSide = 65'536;
  SACCADE_TRY(in_range("\"vocab_size\"", config.vocabulary, 3, 10'000'000));
  SACCADE_TRY(in_range("\"d_model\"", config.width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"d_kv\"", config.head_width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"d_ff\"", config.mlp_width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_layers\"", config.layers, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_heads\"", config.heads, 1, kMaxSide));
  SACCADE_TRY(in_range("\"num_heads\" times \"d_kv\"", config.heads * config.head_width, 1, kMaxSide));
  SACCADE_TRY(in_range("\"relative_attention_num_buckets\"", config.buckets, 4, kMaxSide));
  // Below it the buckets' widths would not grow.
  SACCADE_TRY(
      in_range("\"relative_attention_max_distance\"", config.max_distance, config.buckets / 4 + 1, 1 << 20));
  SACCADE_TRY(in_range("\"pad_token_id\"", config.pad_id, 0, config.vocabulary - 1));
  SACCADE_TRY(in_range("\"n_positions\"", config.trained_tokens, 2, kMaxSide));
  if (config.eps > 0 && config.eps < 1) return {};
  return fail(ErrorCode::kBadData, "\"layer_norm_epsilon\" is {}, expected above 0 and below 1", config.eps);
}

}  // namespace

Result<T5Config> t5_config_from_hugging_face(const Json& section) {
  T5Config config;
  const auto read = [&](const char* key, int64_t& value) -> Status {
    SACCADE_ASSIGN(value, json_field_or<int64_t>(section, key, value));
    return {};
  };
  SACCADE_TRY(read("vocab_size", config.vocabulary));
  SACCADE_TRY(read("d_model", config.width));
  SACCADE_TRY(read("d_kv", config.head_width));
  SACCADE_TRY(read("d_ff", config.mlp_width));
  SACCADE_TRY(read("num_layers", config.layers));
  SACCADE_TRY(read("num_heads", config.heads));
  SACCADE_TRY(read("relative_attention_num_buckets", config.buckets));
  SACCADE_TRY(read("relative_attention_max_distance", config.max_distance));
  SACCADE_TRY(read("pad_token_id", config.pad_id));
  SACCADE_TRY(read("n_positions", config.trained_tokens));
  SACCADE_ASSIGN(config.eps, json_field_or<double>(section, "layer_norm_epsilon", config.eps));
  SACCADE_ASSIGN(std::string activation,
                 json_field_or<std::string>(section, "feed_forward_proj", std::string("relu")));
  // The prefix "gated-" precedes the activation's name; "gated-gelu" means the tanh approximation.
  constexpr std::string_view kGated = "gated-";
  config.gated = activation.starts_with(kGated);
  if (config.gated) activation.erase(0, kGated.size());
  if (config.gated && activation == "gelu") activation = "gelu_new";
  SACCADE_ASSIGN(config.activation, nn::activation_named(activation).in("\"feed_forward_proj\""));
  SACCADE_TRY(check(config));
  return config;
}

Tensor t5_distance_buckets(int64_t tokens, int64_t buckets, int64_t max_distance) {
  const int64_t half = buckets / 2;
  const int64_t single = half / 2;
  // Computed in float32 and in this order: if a power is an exact integer, rounding determines the bucket,
  // and the weights were trained with this rounding.
  const auto spread =
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(single)));
  const auto bucket_of = [&](int64_t steps) {
    if (steps < single) return steps;
    const float power = std::log(static_cast<float>(steps) / static_cast<float>(single)) / spread *
                        static_cast<float>(half - single);
    return std::min(single + static_cast<int64_t>(power), half - 1);
  };
  Tensor rows = Tensor::empty({tokens, tokens}, DType::kI64);
  for (int64_t from = 0; from < tokens; ++from) {
    for (int64_t to = 0; to < tokens; ++to) {
      rows.data<int64_t>()[from * tokens + to] = (to > from ? half : 0) + bucket_of(std::abs(to - from));
    }
  }
  return rows;
}

Result<T5Encoder::Block> T5Encoder::make_block(const T5Config& config, nn::ParameterSource& source,
                                               const std::string& prefix) {
  // T5's initialization (mesh_tensorflow), by the width that a layer reads.
  const auto std_of = [](int64_t fan_in) { return 1 / std::sqrt(static_cast<double>(fan_in)); };
  const std::string attention = prefix + "layer.0.SelfAttention.";
  const std::string mlp = prefix + "layer.1.DenseReluDense.";
  const int64_t inner = config.heads * config.head_width;
  Block block;
  SACCADE_ASSIGN(block.attention_norm,
                 nn::RmsNorm::make(source, prefix + "layer.0.layer_norm", config.width, config.eps));
  SACCADE_ASSIGN(block.query_key_value,
                 Linear::make_joint(source, {attention + "q", attention + "k", attention + "v"}, config.width,
                                    inner, std_of(config.width), true));
  SACCADE_ASSIGN(block.output,
                 Linear::make(source, attention + "o", inner, config.width, std_of(inner), true));
  SACCADE_ASSIGN(block.mlp_norm,
                 nn::RmsNorm::make(source, prefix + "layer.1.layer_norm", config.width, config.eps));
  SACCADE_ASSIGN(block.mlp_in, Linear::make(source, mlp + (config.gated ? "wi_0" : "wi"), config.width,
                                            config.mlp_width, std_of(config.width), true));
  if (config.gated) {
    SACCADE_ASSIGN(block.mlp_gated, Linear::make(source, mlp + "wi_1", config.width, config.mlp_width,
                                                 std_of(config.width), true));
  }
  SACCADE_ASSIGN(block.mlp_out, Linear::make(source, mlp + "wo", config.mlp_width, config.width,
                                             std_of(config.mlp_width), true));
  return block;
}

Result<T5Encoder> T5Encoder::make(const T5Config& config, nn::ParameterSource& source,
                                  const std::string& prefix) {
  T5Encoder encoder;
  encoder.config_ = config;
  SACCADE_ASSIGN(encoder.token_embedding_,
                 source.take(prefix + "shared.weight", {config.vocabulary, config.width}, {0, 1}));
  const std::string first = prefix + "encoder.block.0.layer.0.SelfAttention.";
  SACCADE_ASSIGN(encoder.distance_bias_,
                 source.take(first + "relative_attention_bias.weight", {config.buckets, config.heads},
                             {0, 1 / std::sqrt(static_cast<double>(config.width))}));
  for (int64_t i = 0; i < config.layers; ++i) {
    SACCADE_ASSIGN(encoder.blocks_.emplace_back(),
                   make_block(config, source, fmt::format("{}encoder.block.{}.", prefix, i)));
  }
  SACCADE_ASSIGN(encoder.final_norm_,
                 nn::RmsNorm::make(source, prefix + "encoder.final_layer_norm", config.width, config.eps));
  return encoder;
}

Tensor T5Encoder::forward(const Tensor& ids, const Tensor& attention_mask, DType dtype) const {
  const Tensor buckets = t5_distance_buckets(ids.size(1), config_.buckets, config_.max_distance);
  // [1, heads, tokens, tokens], plus the mask
  const Tensor bias = nn::embedding(distance_bias_, buckets).permute({2, 0, 1}).unsqueeze(0);
  const Tensor mask = bias + nn::padding_mask(attention_mask);
  Tensor x = nn::embedding(token_embedding_, ids);  // [n, tokens, width]
  for (const Block& block : blocks_) {
    const Tensor mixed = nn::attention(block.query_key_value.forward(block.attention_norm.forward(x, dtype)),
                                       config_.heads, mask, 1.0);
    x = block.output.add_to(std::move(x), mixed);
    const Tensor input = block.mlp_norm.forward(x, dtype);
    Tensor hidden = block.mlp_in.forward(input, config_.activation);
    if (config_.gated) hidden = hidden * block.mlp_gated.forward(input);
    x = block.mlp_out.add_to(std::move(x), hidden);
  }
  return final_norm_.forward(x, DType::kF32);
}

void T5Encoder::pack(DType dtype) {
  for (Block& block : blocks_) {
    for (Linear* layer : {&block.query_key_value, &block.output, &block.mlp_in, &block.mlp_out}) {
      layer->pack(dtype);
    }
    if (config_.gated) block.mlp_gated.pack(dtype);
  }
}

}  // namespace saccade
