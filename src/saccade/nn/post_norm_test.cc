// Post-norm blocks against plain operations in double, written down step by step.
#include "saccade/nn/post_norm.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "saccade/nn/parameters.h"
#include "saccade/nn/test_tensors.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using torch::Tensor;

BlockNames names() {
  BlockNames result;
  result.query = "q";
  result.key = "k";
  result.value = "v";
  result.output = "o";
  result.norm1 = "n1";
  result.mlp_in = "up";
  result.mlp_out = "down";
  result.norm2 = "n2";
  return result;
}

TransformerShape shape() {
  return {
      .width = 24, .layers = 2, .heads = 4, .mlp_width = 40, .activation = Activation::kGelu, .eps = 1e-3};
}

// The block's parameters in double, none of them at a value that would hide it.
TensorMap randomized(const InitializedParameters& source) {
  const torch::NoGradGuard no_grad;
  TensorMap result;
  for (const auto& [name, tensor] : source.parameters()) {
    tensor.add_(torch::randn_like(tensor) * 0.2);
    result[name] = tensor.detach().to(at::kDouble);
  }
  return result;
}

struct Expected {
  Tensor states;   // [batch, tokens, width]
  Tensor weights;  // [batch, heads, tokens, tokens]
};

Expected slow_block(const TensorMap& p, const Tensor& x, const Tensor& mask) {
  const int64_t heads = shape().heads;
  const int64_t head_width = shape().width / heads;
  const auto linear = [&](const Tensor& in, const std::string& name) {
    return at::matmul(in, p.at("b." + name + ".weight").t()) + p.at("b." + name + ".bias");
  };
  const auto norm = [&](const Tensor& in, const std::string& name) {
    const Tensor centred = in - in.mean(-1, true);
    const Tensor variance = (centred * centred).mean(-1, true);
    return centred / (variance + shape().eps).sqrt() * p.at("b." + name + ".weight") +
           p.at("b." + name + ".bias");
  };
  const Tensor q = linear(x, "q"), k = linear(x, "k"), v = linear(x, "v");
  std::vector<Tensor> mixed, weights;
  for (int64_t h = 0; h < heads; ++h) {
    const auto part = [&](const Tensor& t) { return t.slice(2, h * head_width, (h + 1) * head_width); };
    Tensor scores = at::matmul(part(q), part(k).transpose(1, 2)) / std::sqrt(static_cast<double>(head_width));
    if (mask.defined()) scores = scores + mask.squeeze(1);
    weights.push_back(scores.exp() / scores.exp().sum(-1, true));
    mixed.push_back(at::matmul(weights.back(), part(v)));
  }
  const Tensor attended = norm(x + linear(torch::cat(mixed, -1), "o"), "n1");
  const Tensor hidden = linear(attended, "up");
  const Tensor activated = 0.5 * hidden * (1 + at::erf(hidden / std::sqrt(2.0)));
  return {norm(attended + linear(activated, "down"), "n2"), torch::stack(weights, 1)};
}

TEST(PostNormBlock, MatchesThePlainOperations) {
  torch::manual_seed(20);
  const Tensor x = torch::randn({3, 7, 24});
  Tensor attention_mask = torch::ones({3, 7}, at::kLong);
  attention_mask[1].slice(0, 4).fill_(0);  // the second entry ends after four tokens
  attention_mask[2][0] = 0;                // the third has a gap at its front
  const Tensor positions = torch::tensor({6, 0, 3});
  for (const bool packed : {false, true}) {
    for (const Tensor& mask : {Tensor(), padding_mask(attention_mask)}) {
      InitializedParameters source(20);
      auto block = PostNormBlock::make(source, "b.", names(), shape());
      ASSERT_TRUE(block) << block.error().message;
      const Expected expected = slow_block(randomized(source), x.to(at::kDouble), mask);
      if (packed) block->pack(at::kFloat);
      for (const bool gradients : {true, false}) {
        if (packed && gradients) continue;
        const torch::AutoGradMode mode(gradients);
        Tensor weights;
        EXPECT_LT(max_difference(block->forward(x.clone(), mask, at::kFloat, &weights), expected.states),
                  2e-5);
        EXPECT_LT(max_difference(weights, expected.weights), 1e-5);
        EXPECT_LT(max_difference(block->forward(x.clone(), mask, at::kFloat), expected.states), 2e-5);
        const Tensor before = x.clone();
        const Tensor rows = block->forward_at(x, mask, at::kFloat, positions);
        EXPECT_TRUE(torch::equal(x, before));
        for (int64_t i = 0; i < 3; ++i) {
          EXPECT_LT(max_difference(rows[i], expected.states[i][positions[i].item<int64_t>()]), 2e-5);
        }
        // 24 products of 8-bit mantissas, twice over, normalized to a size of about 1.
        if (packed) continue;
        EXPECT_LT(max_difference(block->forward(x.clone(), mask, at::kBFloat16), expected.states), 0.08);
      }
    }
  }
}

TEST(PostNormBlock, PackedInBf16StaysClose) {
  torch::manual_seed(21);
  InitializedParameters source(21);
  auto block = PostNormBlock::make(source, "b.", names(), shape());
  ASSERT_TRUE(block);
  const Tensor x = torch::randn({2, 9, 24});
  const Expected expected = slow_block(randomized(source), x.to(at::kDouble), {});
  block->pack(at::kBFloat16);
  const torch::NoGradGuard no_grad;
  const Tensor ours = block->forward(x.clone(), {}, at::kBFloat16);
  EXPECT_EQ(ours.scalar_type(), at::kFloat);
  EXPECT_LT(max_difference(ours, expected.states), 0.08);
}

TEST(PostNormBlock, GradientsMatchFiniteDifferences) {
  InitializedParameters source(22);
  TransformerShape small = shape();
  small.width = 8;
  small.heads = 2;
  small.mlp_width = 12;
  auto block = PostNormBlock::make(source, "b.", names(), small);
  ASSERT_TRUE(block);
  torch::manual_seed(22);
  (void)randomized(source);
  const Tensor x = torch::randn({2, 4, 8});
  const Tensor weighting = torch::randn({2, 4, 8});
  const auto loss = [&] { return (block->forward(x, {}, at::kFloat) * weighting).sum(); };
  test::expect_gradients_match_finite_differences(source, loss, 3e-3, 0.03);
}

TEST(PostNormCrossAttention, MatchesThePlainOperations) {
  torch::manual_seed(24);
  constexpr int64_t kMemoryWidth = 10;
  const Tensor x = torch::randn({3, 5, 24});
  const Tensor memory = torch::randn({3, 7, kMemoryWidth});
  InitializedParameters source(24);
  auto part = PostNormCrossAttention::make(source, "b.", names(), shape(), kMemoryWidth);
  ASSERT_TRUE(part) << part.error().message;
  const TensorMap p = randomized(source);
  const auto linear = [&](const Tensor& in, const std::string& name) {
    return at::matmul(in.to(at::kDouble), p.at("b." + name + ".weight").t()) + p.at("b." + name + ".bias");
  };
  const Tensor q = linear(x, "q"), k = linear(memory, "k"), v = linear(memory, "v");
  std::vector<Tensor> mixed;
  for (int64_t h = 0; h < 4; ++h) {
    const auto head = [&](const Tensor& t) { return t.slice(2, h * 6, (h + 1) * 6); };
    const Tensor exponents = (at::matmul(head(q), head(k).transpose(1, 2)) / std::sqrt(6.0)).exp();
    mixed.push_back(at::matmul(exponents / exponents.sum(-1, true), head(v)));
  }
  const Tensor sum = x + linear(torch::cat(mixed, -1), "o");
  const Tensor centred = sum - sum.mean(-1, true);
  const Tensor expected =
      centred / ((centred * centred).mean(-1, true) + shape().eps).sqrt() * p.at("b.n1.weight") +
      p.at("b.n1.bias");
  EXPECT_LT(max_difference(part->forward(x, memory, at::kFloat), expected), 2e-5);
  part->pack(at::kFloat);
  const torch::NoGradGuard no_grad;
  EXPECT_LT(max_difference(part->forward(x.clone(), memory, at::kFloat), expected), 2e-5);
  const Tensor repeated = part->forward(x.clone(), memory.slice(0, 1, 2).expand({3, 7, 10}), at::kFloat);
  EXPECT_LT(max_difference(part->forward(x.clone(), memory.slice(0, 1, 2), at::kFloat), repeated), 1e-6);
  EXPECT_LT(max_difference(repeated[1], expected[1]), 2e-5);
}

TEST(PostNormBlock, AsksForItsParametersByName) {
  InitializedParameters made(23);
  ASSERT_TRUE(PostNormBlock::make(made, "b.", names(), shape()));
  for (const auto& [left_out, ignored] : made.parameters()) {
    TensorMap tensors = made.parameters();
    tensors.erase(left_out);
    LoadedParameters source(std::move(tensors));
    const auto block = PostNormBlock::make(source, "b.", names(), shape());
    ASSERT_FALSE(block) << left_out;
    EXPECT_NE(block.error().message.find("tensor " + left_out + " of shape"), std::string::npos)
        << block.error().message;
  }
}

TEST(PaddingMask, IsZeroOrMinusInfinity) {
  const Tensor mask = padding_mask(torch::tensor({{1, 1, 0}, {1, 0, 0}}));
  EXPECT_EQ(mask.sizes().vec(), (std::vector<int64_t>{2, 1, 1, 3}));
  const float out = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(torch::equal(mask.flatten(), torch::tensor({0.0F, 0.0F, out, 0.0F, out, out})));
}

}  // namespace
}  // namespace saccade::nn
