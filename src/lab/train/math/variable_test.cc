// Tests of our own gradients against libtorch's, in double, and against finite differences. They also check
// that the architectures give the same results with gradients as without.
#include "lab/train/math/variable.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lab/train/math/adamw.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/test_gradients.h"
#include "lab/train/math/test_graph.h"
#include "saccade/nn/kernels/kernels.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/operations.h"

namespace saccade::lab {
namespace {

using torch::Tensor;

double max_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Compares with autograd through the plain operations in double, which is what runs for double.
TEST(Gradients, AttentionAsAutograd) {
  torch::manual_seed(13);
  constexpr int64_t kBatch = 2, kHeads = 3;
  for (const int64_t tokens : {1, 5, 6, 7, 17, 33, 77}) {
    for (const int64_t head_width : {4, 20, 32}) {
      const Tensor start = torch::randn({kBatch, tokens, 3 * kHeads * head_width});
      const Tensor out_gradient = torch::randn({kBatch, tokens, kHeads * head_width});
      const nn::Tensor left_out = nn::Tensor::zeros({kBatch, 1, 1, tokens});
      left_out[1].slice(2, tokens - tokens / 3).fill(-std::numeric_limits<float>::infinity());
      const nn::Tensor causal = nn::causal_mask(tokens);
      for (const nn::Tensor& mask : {nn::Tensor(), causal, left_out + causal}) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens of " + std::to_string(head_width));
        const auto gradient_of = [&](at::ScalarType type) {
          const Tensor qkv = start.to(type).detach().requires_grad_();
          const Tensor out = attention(Variable(qkv), kHeads, mask).tensor();
          out.backward(out_gradient.to(type));
          return std::pair(out.detach(), qkv.grad());
        };
        const auto [expected_out, expected] = gradient_of(at::kDouble);
        const auto [out, gradient] = gradient_of(at::kFloat);
        EXPECT_LT(max_difference(out, expected_out), 1e-5);
        EXPECT_LT(max_difference(gradient, expected), 2e-5);
        EXPECT_LT(max_difference(gradient_of(at::kBFloat16).second, expected), 0.2);
        // Tests every kernel, in two parts, over scratch memory with arbitrary contents.
        nn::AttentionGradientTask task;
        task.attention.set_joint(start.data_ptr(), kBatch, tokens, kHeads, head_width, DType::kF32);
        task.attention.scale = 1 / std::sqrt(static_cast<float>(head_width));
        nn::Tensor added;
        if (mask.defined()) {
          added = mask.expand({kBatch, kHeads, tokens, tokens}).clone();
          task.attention.mask = added.data<float>();
          for (int i = 0; i < 3; ++i) task.attention.mask_strides[i] = added.stride(i);
        }
        for (const nn::Kernels& kernel : nn::kernels()) {
          Tensor to_qkv = torch::full_like(start, 7);
          task.out_gradient = out_gradient.data_ptr();
          task.qkv_gradient = to_qkv.data_ptr();
          std::vector<float> scratch(static_cast<size_t>(attention_gradient_scratch(task.attention)),
                                     std::nanf(""));
          kernel.attend_back(task, 0, 2, scratch.data());
          kernel.attend_back(task, 2, kBatch * kHeads, scratch.data());
          EXPECT_LT(max_difference(to_qkv, expected), 2e-5) << kernel.name;
        }
      }
    }
  }
}

TEST(Gradients, LinearAsAutograd) {
  torch::manual_seed(14);
  for (const bool with_bias : {true, false}) {
    const Tensor x = torch::randn({3, 7, 20});
    const Tensor weight = torch::randn({11, 20});
    const Tensor bias = with_bias ? torch::randn({11}) : Tensor();
    const Tensor out_gradient = torch::randn({3, 7, 11});
    const auto gradients_of = [&](at::ScalarType type) {  // for double, libtorch's own layer runs
      std::vector<Tensor> leaves;
      for (const Tensor& tensor : {x.transpose(0, 1).contiguous().transpose(0, 1), weight, bias}) {
        leaves.push_back(tensor.defined() ? tensor.to(type).detach().requires_grad_() : tensor);
      }
      std::vector<Variable> biases;
      if (with_bias) biases.emplace_back(leaves[2]);
      const Tensor out =
          linear(Variable(leaves[0]), {Variable(leaves[1])}, biases, nn::Activation::kNone).tensor();
      out.backward(out_gradient.to(type));
      std::vector<Tensor> result = {out.detach()};
      for (const Tensor& leaf : leaves) {
        if (leaf.defined()) result.push_back(leaf.grad());
      }
      return result;
    };
    const std::vector<Tensor> expected = gradients_of(at::kDouble);
    const std::vector<Tensor> actual = gradients_of(at::kFloat);
    ASSERT_EQ(actual.size(), with_bias ? 4U : 3U);
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_LT(max_difference(actual[i], expected[i]), 1e-4) << i;
  }
}

// Mixed precision: products in bf16; weights and their gradients stay float32. GPUs use the same operations.
TEST(Gradients, ProductsInBf16KeepTheWeightsInFp32) {
  torch::manual_seed(15);
  const Tensor x = torch::randn({6, 20});
  const Tensor weight = torch::randn({11, 20}).requires_grad_(true);
  const Tensor bias = torch::randn({11}).requires_grad_(true);
  const Tensor out =
      linear(Variable(x).to(DType::kBF16), {Variable(weight)}, {Variable(bias)}, nn::Activation::kNone)
          .tensor();
  EXPECT_TRUE(out.scalar_type() == at::kBFloat16);
  EXPECT_LT(max_difference(out.detach(), at::linear(x, weight, bias).detach()), 0.2);
  out.to(at::kFloat).sum().backward();
  for (const Tensor& leaf : {weight, bias}) {
    ASSERT_TRUE(leaf.grad().defined());
    EXPECT_TRUE(leaf.grad().scalar_type() == at::kFloat);
  }
  EXPECT_LT(max_difference(weight.grad(), x.sum(0).expand({11, 20})), 0.1);
  EXPECT_LT(max_difference(bias.grad(), torch::full({11}, 6.0)), 1e-6);
}

// Compares central differences in the direction of one random vector per parameter with autograd.
TEST(Gradients, ABlocksMatchFiniteDifferences) {
  InitializedParameters source(8);
  const nn::TransformerShape shape{
      .width = 8, .layers = 1, .heads = 2, .mlp_width = 16, .activation = nn::Activation::kGelu, .eps = 1e-5};
  const nn::BlockNames names{"n1", "q", "k", "v", "o", "n2", "up", "down"};
  const auto block = nn::TransformerBlockOf<Variable>::make(source, "block.", names, shape);
  ASSERT_TRUE(block);
  torch::manual_seed(9);
  const Tensor x = torch::randn({2, 4, 8});
  const Tensor weighting = torch::randn({2, 4, 8});
  const auto loss = [&] { return (block->forward(Variable(x), {}, DType::kF32).tensor() * weighting).sum(); };
  loss().backward();
  for (const auto& [name, parameter] : source.parameters()) {
    const Tensor direction = torch::randn_like(parameter);
    const double predicted = (parameter.grad() * direction).sum().item<double>();
    const torch::NoGradGuard no_grad;
    const double slope =
        test::derivative_along(direction, parameter, 1e-2, [&] { return loss().item<double>(); });
    EXPECT_NEAR(slope, predicted, 0.02 * (1 + std::abs(predicted))) << name;
  }
}

// One architecture with both kinds of tensors: training and search run the same model.
TEST(TrainedClip, GivesWhatTheEncoderGives) {
  ClipConfig config;
  config.vision = {.width = 24, .layers = 2, .heads = 3, .mlp_width = 40};
  config.text = {
      .width = 16, .layers = 2, .heads = 2, .mlp_width = 32, .activation = nn::Activation::kQuickGelu};
  config.image_size = 32;
  config.patch_size = 8;
  config.vocabulary = 50;
  config.positions = 12;
  config.projection = 10;
  InitializedParameters source(3);
  const TrainedClip trained = TrainedClip::make(config, source).value();
  nn::TensorMap tensors;
  for (const auto& [name, tensor] : source.parameters()) tensors[name] = borrow_torch(tensor);
  nn::LoadedParameters loaded(tensors);
  ClipModel model = ClipModel::make(config, loaded).value();
  model.pack(DType::kF32);
  torch::manual_seed(4);
  const Tensor pixels = torch::randn({3, 3, 32, 32});
  const Tensor ids = torch::randint(50, {3, 9}, at::kLong);
  for (const bool with_gradients : {true, false}) {
    const at::AutoGradMode mode(with_gradients);
    const Tensor images = clip_images(trained, pixels, at::kFloat);
    const Tensor texts = clip_texts(trained, ids, at::kFloat);
    EXPECT_EQ(images.requires_grad(), with_gradients);
    EXPECT_LT(max_difference(images, torch_over(model.encode_images(borrow_torch(pixels), DType::kF32))),
              1e-5);
    EXPECT_LT(max_difference(texts, torch_over(model.encode_texts(borrow_torch(ids), DType::kF32))), 1e-5);
  }
  // Some of each image's patches.
  const Tensor keep = torch::randint(16, {3, 5}, at::kLong);
  const nn::Tensor kept = model.encode_images(borrow_torch(pixels), DType::kF32, nullptr, borrow_torch(keep));
  EXPECT_LT(max_difference(clip_images(trained, pixels, at::kFloat, keep), torch_over(kept)), 1e-5);
}

// Computed twice, first without gradients; those of the input and of a parameter are as without it.
TEST(Recomputed, GivesTheSameGradients) {
  torch::manual_seed(21);
  const Tensor start = torch::randn({3, 4});
  const Tensor weight = torch::randn({5, 4});
  const Tensor weighting = torch::randn({3, 5});
  struct Outcome {
    Tensor out, to_x, to_weight;
  };
  std::vector<bool> with_gradients;  // of each call
  const auto run = [&](bool again) {
    const Tensor x = start.clone().requires_grad_(true);
    const Tensor w = weight.clone().requires_grad_(true);
    const auto compute = [&with_gradients, w](const Variable& input) {
      with_gradients.push_back(at::GradMode::is_enabled());
      return tanh(linear(input, {Variable(w)}, {}, nn::Activation::kGelu));
    };
    const Tensor doubled = x * 2;
    const Variable out = again ? recomputed(Variable(doubled), compute) : compute(Variable(doubled));
    (out.tensor() * weighting).sum().backward();
    return Outcome{out.tensor().detach(), x.grad(), w.grad()};
  };
  const Outcome plain = run(false);
  EXPECT_EQ(with_gradients, (std::vector<bool>{true}));
  with_gradients.clear();
  const Outcome again = run(true);
  EXPECT_EQ(with_gradients, (std::vector<bool>{false, true}));
  EXPECT_EQ(max_difference(again.out, plain.out), 0);
  ASSERT_TRUE(again.to_x.defined());
  ASSERT_TRUE(again.to_weight.defined());
  EXPECT_LT(max_difference(again.to_x, plain.to_x), 1e-6);
  EXPECT_LT(max_difference(again.to_weight, plain.to_weight), 1e-6);

  // Without gradients it is computed once; an input without one leaves that of the parameter.
  with_gradients.clear();
  const Tensor w = weight.clone().requires_grad_(true);
  const auto compute = [&with_gradients, w](const Variable& input) {
    with_gradients.push_back(at::GradMode::is_enabled());
    return linear(input, {Variable(w)}, {}, nn::Activation::kNone);
  };
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(recomputed(Variable(start), compute).tensor().requires_grad());
  }
  EXPECT_EQ(with_gradients.size(), 1U);
  (recomputed(Variable(start), compute).tensor() * weighting).sum().backward();
  ASSERT_TRUE(w.grad().defined());
  EXPECT_LT(max_difference(w.grad(), weighting.t().matmul(start)), 1e-5);
}

TEST(TrainedClip, CheckpointedActivationsGiveTheSameGradients) {
  ClipConfig config;
  config.vision = {.width = 24, .layers = 3, .heads = 3, .mlp_width = 40};
  config.text = {.width = 16, .layers = 3, .heads = 2, .mlp_width = 32};
  config.image_size = 32;
  config.patch_size = 8;
  config.vocabulary = 50;
  config.positions = 12;
  config.projection = 10;
  torch::manual_seed(6);
  const Tensor pixels = torch::randn({4, 3, 32, 32});
  const Tensor ids = torch::randint(50, {4, 9}, at::kLong);
  struct Outcome {
    double loss;
    size_t nodes;
    TorchMap parameters;
  };
  const auto run = [&](bool checkpointed) {
    InitializedParameters source(3);
    TrainedClip model = TrainedClip::make(config, source).value();
    if (checkpointed) model.checkpoint_activations();
    const Tensor loss =
        info_nce(normalize_rows(clip_images(model, pixels, at::kFloat)),
                 normalize_rows(clip_texts(model, ids, at::kFloat)), model.logit_scale().tensor());
    const size_t nodes = test::graph_size(loss);
    loss.backward();
    return Outcome{loss.item<double>(), nodes, source.parameters()};
  };
  const Outcome plain = run(false);
  const Outcome checkpointed = run(true);
  EXPECT_NEAR(checkpointed.loss, plain.loss, 1e-6);
  EXPECT_LT(checkpointed.nodes, plain.nodes / 2);  // the blocks' operations are not kept
  for (const auto& [name, parameter] : plain.parameters) {
    const Tensor& other = checkpointed.parameters.at(name);
    ASSERT_TRUE(parameter.grad().defined()) << name;
    ASSERT_TRUE(other.grad().defined()) << name;
    const double largest = parameter.grad().abs().max().item<double>();
    EXPECT_LT(max_difference(other.grad(), parameter.grad()), 1e-5 * std::max(1.0, largest)) << name;
  }
}

// Inputs of a backward pass live until it runs, though the caller's ids are gone. Gradients of a table go to
// the rows that were looked up.
TEST(Gradients, IdsStayForTheWayBack) {
  const Tensor table = torch::zeros({5, 3}).requires_grad_();
  Tensor rows;
  {
    const Tensor ids = torch::full({1000}, 2, at::kLong);
    rows = embedding(Variable(table), borrow_torch(ids)).tensor();
  }
  const Tensor others = torch::full({1000}, 4, at::kLong);  // reuses the ids' memory, if it was released
  rows.sum().backward();
  EXPECT_EQ(table.grad()[2].sum().item<float>(), 3000);
  EXPECT_EQ(table.grad().sum().item<float>(), 3000);
  EXPECT_EQ(others[0].item<int64_t>(), 4);
}

// Cross-attention over a memory equals joint attention if the memory is the queries themselves.
TEST(Gradients, CrossAttentionAsTheJointOne) {
  torch::manual_seed(3);
  constexpr int64_t kBatch = 2, kTokens = 5, kHeads = 3, kHeadWidth = 4;
  const Tensor start = torch::randn({kBatch, kTokens, 3 * kHeads * kHeadWidth});
  const Tensor weight = torch::randn({kBatch, kTokens, kHeads * kHeadWidth});
  const nn::Tensor mask = nn::causal_mask(kTokens);
  const auto run = [&](bool joint) {
    const Tensor qkv = start.clone().requires_grad_(true);
    const Tensor parts = qkv.view({kBatch, kTokens, 3, kHeads, kHeadWidth});
    const Variable out = joint ? attention(Variable(qkv), kHeads, mask)
                               : attention(Variable(parts.select(2, 0)), Variable(parts.select(2, 1)),
                                           Variable(parts.select(2, 2)), mask);
    (out.tensor() * weight).sum().backward();
    return std::pair(out.tensor().detach(), qkv.grad());
  };
  const auto [one, one_gradient] = run(true);
  const auto [other, other_gradient] = run(false);
  EXPECT_LT(max_difference(one, other), 1e-5);
  EXPECT_LT(max_difference(one_gradient, other_gradient), 1e-5);
}

TEST(AdamW, ParametersHaveRatesOfTheirOwn) {
  const auto leaf = [] { return torch::ones({2, 3}).requires_grad_(true); };
  const TorchMap parameters = {{"fast", leaf()}, {"slow", leaf()}};
  AdamW optimizer(parameters, {.weight_decay = 0.5, .rates = {{"slow", 0.1}}});
  for (const auto& [name, parameter] : parameters) (parameter * parameter).sum().backward();
  optimizer.step(0.01);
  const double fast = 1 - parameters.at("fast").mean().item<double>();
  const double slow = 1 - parameters.at("slow").mean().item<double>();
  EXPECT_NEAR(fast, 0.01 + 0.01 * 0.5, 1e-5);  // a first step of Adam is the rate's, whatever the gradient
  EXPECT_NEAR(slow, 0.1 * fast, 1e-6);
}

TEST(InitializedParameters, SeedDecidesAll) {
  InitializedParameters a(5), b(5), c(6);
  const Tensor first = a.take("x", {10}, {0, 1}).value().tensor();
  EXPECT_TRUE(torch::equal(first, b.take("x", {10}, {0, 1}).value().tensor()));
  EXPECT_FALSE(torch::equal(first, c.take("x", {10}, {0, 1}).value().tensor()));
  EXPECT_FALSE(a.take("x", {10}, {0, 1}));  // the same name twice
}

}  // namespace
}  // namespace saccade::lab
