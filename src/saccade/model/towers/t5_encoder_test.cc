// Tests of T5's encoder against plain operations in double.
#include "saccade/model/towers/t5_encoder.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/test_tensors.h"

namespace saccade {
namespace {

using nn::Tensor;

TEST(T5Distances, BucketsAreTheReferences) {
  // First distance of every bucket, according to transformers' T5Attention, for 32 buckets up to 128 and 8 up
  // to 20.
  const std::pair<std::pair<int64_t, int64_t>, std::vector<int64_t>> kAnswers[] = {
      {{32, 128}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}}, {{8, 20}, {0, 1, 2, 7}}};
  for (const auto& [sizes, firsts] : kAnswers) {
    const auto [buckets, max_distance] = sizes;
    const Tensor ours = t5_distance_buckets(200, buckets, max_distance);
    for (int64_t distance = 0; distance < 200; ++distance) {
      int64_t expected = 0;
      while (expected + 1 < static_cast<int64_t>(firsts.size()) && firsts[expected + 1] <= distance)
        ++expected;
      // Earlier positions are in the first half, later ones in the second.
      EXPECT_EQ(static_cast<int64_t>(ours.at({distance, 0})), expected)
          << buckets << ", " << distance << " before";
      EXPECT_EQ(static_cast<int64_t>(ours.at({0, distance})), expected + (distance > 0 ? buckets / 2 : 0))
          << buckets << ", " << distance << " after";
    }
  }
}

double activated(double x, nn::Activation activation) {
  if (activation == nn::Activation::kRelu) return std::max(x, 0.0);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

// A matrix in double, written out.
struct Rows {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  Rows(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  double& at(int64_t r, int64_t c) { return values[static_cast<size_t>(r * columns + c)]; }
  [[nodiscard]] double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
};

// One text without padding: [tokens, width].
Rows slow_encoder(const T5Config& config, const nn::TensorMap& p, const Tensor& ids) {
  const auto weight = [&](const std::string& name) { return p.at("t." + name); };
  const auto norm = [&](const Rows& x, const std::string& name) {
    Rows out = x;
    for (int64_t r = 0; r < x.rows; ++r) {
      double square = 0;
      for (int64_t c = 0; c < x.columns; ++c) square += x.at(r, c) * x.at(r, c);
      const double scale = 1 / std::sqrt(square / static_cast<double>(x.columns) + config.eps);
      for (int64_t c = 0; c < x.columns; ++c) out.at(r, c) *= scale * weight(name + ".weight").at({c});
    }
    return out;
  };
  const auto linear = [&](const Rows& x, const std::string& name) {
    const Tensor w = weight(name + ".weight");
    Rows out(x.rows, w.size(0));
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t o = 0; o < w.size(0); ++o) {
        for (int64_t c = 0; c < x.columns; ++c) out.at(r, o) += x.at(r, c) * w.at({o, c});
      }
    }
    return out;
  };
  const auto add = [](Rows& x, const Rows& y) {
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += y.values[i];
  };
  const Tensor bias = weight("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  const int64_t tokens = ids.numel();
  const Tensor buckets = t5_distance_buckets(tokens, config.buckets, config.max_distance);
  Rows x(tokens, config.width);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < config.width; ++c) {
      x.at(t, c) = weight("shared.weight").at({static_cast<int64_t>(ids.at({t})), c});
    }
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string block = fmt::format("encoder.block.{}.", i);
    const std::string attention = block + "layer.0.SelfAttention.";
    const Rows normed = norm(x, block + "layer.0.layer_norm");
    const Rows q = linear(normed, attention + "q");
    const Rows k = linear(normed, attention + "k");
    const Rows v = linear(normed, attention + "v");
    Rows mixed(tokens, q.columns);
    for (int64_t h = 0; h < config.heads; ++h) {
      for (int64_t from = 0; from < tokens; ++from) {
        double total = 0;
        std::vector<double> shares;
        for (int64_t to = 0; to < tokens; ++to) {
          double score = bias.at({static_cast<int64_t>(buckets.at({from, to})), h});
          for (int64_t c = h * config.head_width; c < (h + 1) * config.head_width; ++c) {
            score += q.at(from, c) * k.at(to, c);
          }
          shares.push_back(std::exp(score));
          total += shares.back();
        }
        for (int64_t c = h * config.head_width; c < (h + 1) * config.head_width; ++c) {
          for (int64_t to = 0; to < tokens; ++to) {
            mixed.at(from, c) += shares[static_cast<size_t>(to)] / total * v.at(to, c);
          }
        }
      }
    }
    add(x, linear(mixed, attention + "o"));
    const std::string mlp = block + "layer.1.DenseReluDense.";
    const Rows input = norm(x, block + "layer.1.layer_norm");
    Rows hidden = linear(input, mlp + (config.gated ? "wi_0" : "wi"));
    for (double& value : hidden.values) value = activated(value, config.activation);
    if (config.gated) {
      const Rows gate = linear(input, mlp + "wi_1");
      for (size_t e = 0; e < hidden.values.size(); ++e) hidden.values[e] *= gate.values[e];
    }
    add(x, linear(hidden, mlp + "wo"));
  }
  return norm(x, "encoder.final_layer_norm");
}

// Returns the largest difference from an encoder's states for a text's first tokens.
double largest_difference(const Tensor& ours, const Rows& expected) {
  double largest = 0;
  for (int64_t r = 0; r < expected.rows; ++r) {
    for (int64_t c = 0; c < expected.columns; ++c) {
      largest = std::max(largest, std::abs(ours.at({r, c}) - expected.at(r, c)));
    }
  }
  return largest;
}

TEST(T5Encoder, MatchesThePlainOperations) {
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
    test::RandomParameters source(31);
    auto encoder = T5Encoder::make(config, source, "t.");
    ASSERT_TRUE(encoder) << encoder.error().message;
    encoder->pack(DType::kF32);
    Tensor ids = Tensor::full_integers({2, 11}, 0);
    for (int64_t i = 0; i < 22; ++i) ids.integers()[static_cast<size_t>(i)] = i * 7 % 20;
    Tensor mask = Tensor::full_integers({2, 11}, 1);
    std::ranges::fill(mask[1].slice(0, 4).integers(), 0);
    const Rows first = slow_encoder(config, source.parameters(), ids[0]);
    const Rows second = slow_encoder(config, source.parameters(), ids[1].slice(0, 0, 4));
    const Tensor ours = encoder->forward(ids, mask, DType::kF32);
    EXPECT_LT(largest_difference(ours[0], first), 1e-5) << gated;
    EXPECT_LT(largest_difference(ours[1], second), 1e-5) << gated;
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
