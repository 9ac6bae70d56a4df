// The fast layers against slow, obvious ones.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saccade/nn/layers.h"
#include "saccade/nn/packed_linear.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {
namespace {

using torch::Tensor;

double max_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// One product at a time, in double.
Tensor slow_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor rows = x.reshape({-1, x.size(-1)}).to(at::kDouble);
  const Tensor w = weight.to(at::kDouble);
  Tensor out = torch::zeros({rows.size(0), w.size(0)}, at::kDouble);
  for (int64_t r = 0; r < rows.size(0); ++r) {
    for (int64_t o = 0; o < w.size(0); ++o) {
      double sum = bias.defined() ? bias[o].item<double>() : 0;
      for (int64_t i = 0; i < w.size(1); ++i) sum += rows[r][i].item<double>() * w[o][i].item<double>();
      out[r][o] = sum;
    }
  }
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = w.size(0);
  return out.view(shape);
}

double slow_activation(double x, Activation activation) {
  if (activation == Activation::kGelu) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (activation == Activation::kQuickGelu) return x / (1 + std::exp(-1.702 * x));
  return x;
}

Tensor slow_activate(const Tensor& x, Activation activation) {
  Tensor out = x.clone().contiguous();
  auto* values = out.data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) values[i] = slow_activation(values[i], activation);
  return out;
}

TEST(PackedLinear, MatchesTheSlowProduct) {
  torch::manual_seed(1);
  for (const auto activation : {Activation::kNone, Activation::kGelu, Activation::kQuickGelu}) {
    for (const int64_t rows : {1, 3, 17}) {
      const Tensor x = torch::randn({rows, 37});
      const Tensor weight = torch::randn({29, 37}) / 6;
      const Tensor bias = torch::randn({29});
      const Tensor expected = slow_activate(slow_linear(x, weight, bias), activation);
      const PackedLinear fp32(weight, bias, at::kFloat);
      EXPECT_LT(max_difference(fp32.forward(x, activation, at::kFloat), expected), 1e-5);
      EXPECT_LT(max_difference(activate(at::linear(x, weight, bias), activation), expected), 1e-5);
      const PackedLinear bf16(weight, bias, at::kBFloat16);
      const Tensor rough = bf16.forward(x.to(at::kBFloat16), activation, at::kFloat);
      EXPECT_LT(max_difference(rough, expected), 0.05);  // 37 products of 8-bit mantissas
    }
  }
}

TEST(PackedLinear, AddsToASum) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({2, 5, 16});
  const Tensor weight = torch::randn({8, 16});
  Tensor sum = torch::randn({2, 5, 8});
  const Tensor expected = sum.to(at::kDouble) + slow_linear(x, weight, {});
  PackedLinear(weight, {}, at::kFloat).add_to(sum, x);
  EXPECT_LT(max_difference(sum, expected), 1e-5);
}

TEST(PackedLinear, TakesNoRows) {
  const PackedLinear layer(torch::ones({4, 3}), {}, at::kFloat);
  EXPECT_EQ(layer.forward(torch::empty({0, 3}), Activation::kNone, at::kFloat).sizes().vec(),
            (std::vector<int64_t>{0, 4}));
}

TEST(Attention, MatchesTheDefinition) {
  torch::manual_seed(3);
  constexpr int64_t kBatch = 2, kTokens = 5, kHeads = 3, kHeadWidth = 4, kWidth = kHeads * kHeadWidth;
  const Tensor qkv = torch::randn({kBatch, kTokens, 3 * kWidth});
  const Tensor ours = attention(qkv, kHeads, causal_mask(kTokens));
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t t = 0; t < kTokens; ++t) {
        const auto part = [&](int64_t token, int64_t which, int64_t i) {
          return qkv[b][token][which * kWidth + h * kHeadWidth + i].item<double>();
        };
        std::vector<double> weights;
        double total = 0;
        for (int64_t s = 0; s <= t; ++s) {  // causal: up to itself
          double score = 0;
          for (int64_t i = 0; i < kHeadWidth; ++i) score += part(t, 0, i) * part(s, 1, i);
          weights.push_back(std::exp(score / std::sqrt(double{kHeadWidth})));
          total += weights.back();
        }
        for (int64_t i = 0; i < kHeadWidth; ++i) {
          double expected = 0;
          for (int64_t s = 0; s <= t; ++s) expected += weights[s] / total * part(s, 2, i);
          EXPECT_NEAR(ours[b][t][h * kHeadWidth + i].item<double>(), expected, 1e-5);
        }
      }
    }
  }
}

TEST(Patches, AreAConvolutionsWindows) {
  torch::manual_seed(4);
  const Tensor pixels = torch::randn({2, 3, 8, 12});
  const Tensor kernel = torch::randn({5, 3, 4, 4});
  const Tensor convolved = at::conv2d(pixels, kernel, {}, 4).flatten(2).transpose(1, 2);
  const Tensor ours = at::linear(patches(pixels, 4), kernel.view({5, 48}));
  EXPECT_LT(max_difference(ours, convolved), 1e-5);
}

TEST(TransformerBlock, PackedEqualsPlain) {
  InitializedParameters source(7);
  const TransformerShape shape{
      .width = 24, .layers = 2, .heads = 4, .mlp_width = 48, .activation = Activation::kQuickGelu, .eps = 1e-5};
  const BlockNames names{"n1", "q", "k", "v", "o", "n2", "up", "down"};
  auto block = TransformerBlock::make(source, "block.", names, shape);
  ASSERT_TRUE(block);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : source.parameters()) tensor.add_(torch::randn_like(tensor) * 0.1);
  const Tensor x = torch::randn({3, 6, 24});
  const Tensor plain = block->forward(x, causal_mask(6), at::kFloat);
  block->pack(at::kFloat);
  EXPECT_LT(max_difference(block->forward(x.clone(), causal_mask(6), at::kFloat), plain), 1e-5);
}

// Central differences in the direction of a few random vectors, against autograd.
TEST(TransformerBlock, GradientsMatchFiniteDifferences) {
  InitializedParameters source(8);
  const TransformerShape shape{
      .width = 8, .layers = 1, .heads = 2, .mlp_width = 16, .activation = Activation::kGelu, .eps = 1e-5};
  const BlockNames names{"n1", "q", "k", "v", "o", "n2", "up", "down"};
  auto block = TransformerBlock::make(source, "block.", names, shape);
  ASSERT_TRUE(block);
  torch::manual_seed(9);
  const Tensor x = torch::randn({2, 4, 8});
  const Tensor weighting = torch::randn({2, 4, 8});
  const auto loss = [&] { return (block->forward(x, {}, at::kFloat) * weighting).sum(); };
  loss().backward();
  for (const auto& [name, parameter] : source.parameters()) {
    const Tensor direction = torch::randn_like(parameter);
    const double predicted = (parameter.grad() * direction).sum().item<double>();
    constexpr double kStep = 1e-2;
    const torch::NoGradGuard no_grad;
    parameter.add_(direction, kStep);
    const double up = loss().item<double>();
    parameter.sub_(direction, 2 * kStep);
    const double down = loss().item<double>();
    parameter.add_(direction, kStep);
    EXPECT_NEAR((up - down) / (2 * kStep), predicted, 0.02 * (1 + std::abs(predicted))) << name;
  }
}

TEST(Parameters, SeedDecidesAll) {
  InitializedParameters a(5), b(5), c(6);
  const Tensor first = a.take("x", {10}, {0, 1}).value();
  EXPECT_TRUE(torch::equal(first, b.take("x", {10}, {0, 1}).value()));
  EXPECT_FALSE(torch::equal(first, c.take("x", {10}, {0, 1}).value()));
  EXPECT_FALSE(a.take("x", {10}, {0, 1}));  // the same name twice
}

}  // namespace
}  // namespace saccade::nn
