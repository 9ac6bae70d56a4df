// T5's encoder against plain operations in double, written down step by step.
#include "saccade/model/towers/t5_encoder.h"

#include <cmath>

#include <gtest/gtest.h>

#include "saccade/nn/parameters.h"
#include "saccade/nn/torch.h"

namespace saccade {
namespace {

using torch::Tensor;

TEST(T5Distances, BucketsAreTheReferences) {
  // The first distance of every bucket, as transformers' T5Attention answers for 32 buckets up to 128 and 8
  // up to 20.
  const std::pair<std::pair<int64_t, int64_t>, std::vector<int64_t>> kAnswers[] = {
      {{32, 128}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}}, {{8, 20}, {0, 1, 2, 7}}};
  for (const auto& [sizes, firsts] : kAnswers) {
    const auto [buckets, max_distance] = sizes;
    const Tensor ours = t5_distance_buckets(200, buckets, max_distance);
    for (int64_t distance = 0; distance < 200; ++distance) {
      int64_t expected = 0;
      while (expected + 1 < static_cast<int64_t>(firsts.size()) && firsts[expected + 1] <= distance)
        ++expected;
      // What comes before a token is in the first half, what comes after it in the second.
      EXPECT_EQ(ours[distance][0].item<int64_t>(), expected) << buckets << ", " << distance << " before";
      EXPECT_EQ(ours[0][distance].item<int64_t>(), expected + (distance > 0 ? buckets / 2 : 0))
          << buckets << ", " << distance << " after";
    }
  }
}

double activated(double x, nn::Activation activation) {
  if (activation == nn::Activation::kRelu) return std::max(x, 0.0);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// One text without padding: [tokens, width].
Tensor slow_encoder(const T5Config& config, const nn::TensorMap& p, const Tensor& ids) {
  const auto at = [&](const std::string& name) { return p.at("t." + name).to(at::kDouble); };
  const auto norm = [&](const Tensor& x, const std::string& name) {
    return x / ((x * x).mean(-1, true) + config.eps).sqrt() * at(name + ".weight");
  };
  const auto linear = [&](const Tensor& x, const std::string& name) {
    return at::matmul(x, at(name + ".weight").t());
  };
  const Tensor bias = at("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  const Tensor buckets = t5_distance_buckets(ids.size(0), config.buckets, config.max_distance);
  Tensor x = at("shared.weight").index({ids});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string block = fmt::format("encoder.block.{}.", i);
    const std::string attention = block + "layer.0.SelfAttention.";
    const Tensor normed = norm(x, block + "layer.0.layer_norm");
    const Tensor q = linear(normed, attention + "q"), k = linear(normed, attention + "k"),
                 v = linear(normed, attention + "v");
    std::vector<Tensor> mixed;
    for (int64_t h = 0; h < config.heads; ++h) {
      const auto head = [&](const Tensor& t) {
        return t.slice(1, h * config.head_width, (h + 1) * config.head_width);
      };
      const Tensor scores = at::matmul(head(q), head(k).t()) + bias.select(1, h).index({buckets});
      mixed.push_back(at::matmul(scores.exp() / scores.exp().sum(-1, true), head(v)));
    }
    x = x + linear(torch::cat(mixed, 1), attention + "o");
    const std::string mlp = block + "layer.1.DenseReluDense.";
    const Tensor input = norm(x, block + "layer.1.layer_norm");
    Tensor hidden = linear(input, mlp + (config.gated ? "wi_0" : "wi")).contiguous();
    auto* values = hidden.data_ptr<double>();
    for (int64_t e = 0; e < hidden.numel(); ++e) values[e] = activated(values[e], config.activation);
    if (config.gated) hidden = hidden * linear(input, mlp + "wi_1");
    x = x + linear(hidden, mlp + "wo");
  }
  return norm(x, "encoder.final_layer_norm");
}

TEST(T5Encoder, MatchesThePlainOperations) {
  const torch::NoGradGuard no_grad;
  for (const bool gated : {false, true}) {
    T5Config config;
    config.vocabulary = 20;
    config.width = 12;
    config.layers = 2;
    config.heads = 3;
    config.head_width = 6;  // 18 in all: not the width
    config.mlp_width = 10;
    config.gated = gated;
    config.activation = gated ? nn::Activation::kGeluTanh : nn::Activation::kRelu;
    config.buckets = 8;
    config.max_distance = 20;
    nn::InitializedParameters source(31);
    auto encoder = T5Encoder::make(config, source, "t.");
    ASSERT_TRUE(encoder) << encoder.error().message;
    torch::manual_seed(31);
    for (const auto& [name, tensor] : source.parameters()) tensor.add_(torch::randn_like(tensor) * 0.1);
    const Tensor ids = torch::randint(20, {2, 11}, at::kLong);
    Tensor mask = torch::ones({2, 11}, at::kLong);
    mask[1].slice(0, 4).fill_(0);
    const Tensor first = slow_encoder(config, source.parameters(), ids[0]);
    const Tensor second = slow_encoder(config, source.parameters(), ids[1].slice(0, 0, 4));
    for (const bool packed : {false, true}) {
      if (packed) encoder->pack(at::kFloat);
      const Tensor ours = encoder->forward(ids, mask, at::kFloat);
      EXPECT_LT((ours[0] - first).abs().max().item<double>(), 1e-5) << gated << packed;
      EXPECT_LT((ours[1].slice(0, 0, 4) - second).abs().max().item<double>(), 1e-5) << gated << packed;
    }
  }
}

TEST(T5Config, ReadsBothKindsAndRefusesWhatCannotBe) {
  const Json plain = {{"model_type", "t5"}, {"d_model", 64}};
  const auto config = t5_config_from_hugging_face(plain);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->width, 64);
  EXPECT_EQ(config->activation, nn::Activation::kRelu);
  EXPECT_FALSE(config->gated);
  const auto with = [&](const char* key, const Json& value) {
    Json changed = plain;
    changed[key] = value;
    return t5_config_from_hugging_face(changed);
  };
  EXPECT_EQ(with("feed_forward_proj", "gated-gelu")->activation, nn::Activation::kGeluTanh);
  EXPECT_TRUE(with("feed_forward_proj", "gated-gelu")->gated);
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"d_kv", 0},
                                                           {"num_layers", -1},
                                                           {"num_heads", 70'000},
                                                           {"vocab_size", int64_t{1} << 40},
                                                           {"relative_attention_num_buckets", 2},
                                                           {"relative_attention_max_distance", 8},
                                                           {"layer_norm_epsilon", 0.0},
                                                           {"d_ff", "wide"},
                                                           {"feed_forward_proj", "gated-mish"}}) {
    const auto refused = with(key, value);
    ASSERT_FALSE(refused) << key;
    EXPECT_NE(refused.error().message.find(key), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace saccade
