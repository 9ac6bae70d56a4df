// The fast layers against slow, obvious ones.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"
#include "saccade/nn/gradients.h"
#include "saccade/nn/kernels.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/packed_linear.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/rms_norm.h"
#include "saccade/nn/test_tensors.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using torch::Tensor;

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
  // Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2: the approximation by tanh.
  if (activation == Activation::kGeluTanh) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  if (activation == Activation::kRelu) return std::max(x, 0.0);
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
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
  for (const auto activation : {Activation::kNone, Activation::kGelu, Activation::kQuickGelu,
                                Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
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

TEST(Activation, NamesAreThoseOfConfigs) {
  for (const char* name : {"gelu", "gelu_new", "quick_gelu", "relu", "silu"}) {
    const auto activation = activation_named(name);
    ASSERT_TRUE(activation) << name;
    EXPECT_EQ(activation_name(*activation), name);
  }
  EXPECT_EQ(activation_named("gelu_pytorch_tanh").value(), Activation::kGeluTanh);
  EXPECT_EQ(activation_named("swish").value(), Activation::kSilu);
  const auto unknown = activation_named("mish");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().message.find("\"mish\""), std::string::npos) << unknown.error().message;
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

// --- kernels against the layers' own definition ---------------------------------------------------------

NormTask norm_task(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& out) {
  NormTask task;
  task.width = x.size(-1);
  task.rows = x.numel() / task.width;
  task.x = x.data_ptr<float>();
  task.gain = gain.data_ptr<float>();
  task.bias = bias.data_ptr<float>();
  task.eps = 1e-5F;
  task.out_type = element_of(out.scalar_type());
  task.out = out.data_ptr();
  return task;
}

TEST(Kernels, NormalizeAsTheDefinition) {
  torch::manual_seed(11);
  for (const int64_t width : {1, 3, 16, 24, 100, 768}) {
    // A mean a thousand times the spread: sums of squares in float would lose it.
    const Tensor x = torch::randn({5, width}) + 1000 * torch::arange(5).view({5, 1});
    const Tensor gain = torch::randn({width});
    const Tensor bias = torch::randn({width});
    const Tensor wide = x.to(at::kDouble);
    const Tensor centred = wide - wide.mean(1, true);
    const Tensor expected = centred / (centred.square().mean(1, true) + 1e-5).sqrt() * gain + bias;
    for (const Kernels& kernel : kernels()) {
      SCOPED_TRACE(std::string(kernel.name) + ", width " + std::to_string(width));
      const Tensor out = torch::full({5, width}, 1e9);
      kernel.normalize(norm_task(x, gain, bias, out), 0, 4);
      EXPECT_LT(max_difference(out[0], expected[0]), 1e-5);
      // Values near 4000 are 2.4e-4 apart: what the mean cannot tell, no result can.
      EXPECT_LT(max_difference(out.slice(0, 0, 4), expected.slice(0, 0, 4)), 2e-3);
      EXPECT_EQ(out[4].min().item<float>(), 1e9F);  // a row that was not asked for
      const Tensor rough = torch::zeros({5, width}, at::kBFloat16);
      kernel.normalize(norm_task(x, gain, bias, rough), 0, 4);
      EXPECT_TRUE(torch::equal(rough.slice(0, 0, 4), out.slice(0, 0, 4).to(at::kBFloat16)));
    }
  }
}

Tensor run_attention(const Kernels& kernel, const Tensor& qkv, int64_t heads, const Tensor& mask) {
  AttentionTask task;
  task.batch = qkv.size(0);
  task.tokens = qkv.size(1);
  task.heads = heads;
  task.head_width = qkv.size(2) / 3 / heads;
  task.scale = 1 / std::sqrt(static_cast<float>(task.head_width));
  task.type = element_of(qkv.scalar_type());
  task.qkv = qkv.data_ptr();
  Tensor added;
  if (mask.defined()) {
    added = mask.expand({task.batch, heads, task.tokens, task.tokens}).contiguous();
    task.mask = added.data_ptr<float>();
    for (int i = 0; i < 3; ++i) task.mask_strides[i] = added.stride(i);
  }
  Tensor out = torch::full({task.batch, task.tokens, qkv.size(2) / 3}, 7, qkv.options());
  task.out = out.data_ptr();
  // What earlier heads leave in the scratch memory must not matter: not even NaN.
  std::vector<float> scratch(static_cast<size_t>(attention_scratch(task)), std::nanf(""));
  const int64_t pairs = task.batch * heads;
  kernel.attend(task, 0, pairs / 2, scratch.data());
  kernel.attend(task, pairs / 2, pairs, scratch.data());
  return out;
}

TEST(Kernels, AttendAsTheDefinition) {
  torch::manual_seed(12);
  constexpr int64_t kBatch = 2, kHeads = 3;
  for (const int64_t tokens : {1, 5, 6, 7, 16, 17, 50, 77}) {
    for (const int64_t head_width : {4, 20, 64}) {
      const Tensor qkv = 2 * torch::randn({kBatch, tokens, 3 * kHeads * head_width});
      Tensor left_out = torch::zeros({kBatch, 1, 1, tokens});  // the second entry without its last third
      left_out[1].slice(2, tokens - tokens / 3).fill_(-std::numeric_limits<float>::infinity());
      for (const Tensor& mask : {Tensor(), causal_mask(tokens), left_out + causal_mask(tokens)}) {
        // With gradients on, the plain operations run.
        const Tensor expected = attention(qkv.to(at::kDouble), kHeads, mask);
        for (const Kernels& kernel : kernels()) {
          SCOPED_TRACE(std::string(kernel.name) + ", " + std::to_string(tokens) + " tokens of " +
                       std::to_string(head_width));
          // Scores of some 30 are 2e-6 apart in float, and so are the weights' logarithms.
          EXPECT_LT(max_difference(run_attention(kernel, qkv, kHeads, mask), expected), 3e-5);
          const Tensor rough = run_attention(kernel, qkv.to(at::kBFloat16), kHeads, mask);
          EXPECT_LT(max_difference(rough, expected), 0.15);  // scores of some 30, of 8-bit mantissas
        }
      }
    }
  }
}

// Against autograd through the plain operations in double, which is what runs for double.
TEST(Gradients, AttentionAsAutograd) {
  torch::manual_seed(13);
  constexpr int64_t kBatch = 2, kHeads = 3;
  for (const int64_t tokens : {1, 5, 6, 7, 17, 33, 77}) {
    for (const int64_t head_width : {4, 20, 32}) {
      const Tensor start = torch::randn({kBatch, tokens, 3 * kHeads * head_width});
      const Tensor out_gradient = torch::randn({kBatch, tokens, kHeads * head_width});
      Tensor left_out = torch::zeros({kBatch, 1, 1, tokens});
      left_out[1].slice(2, tokens - tokens / 3).fill_(-std::numeric_limits<float>::infinity());
      for (const Tensor& mask : {Tensor(), causal_mask(tokens), left_out + causal_mask(tokens)}) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens of " + std::to_string(head_width));
        const auto gradient_of = [&](at::ScalarType type) {
          Tensor qkv = start.to(type).detach().requires_grad_();
          const Tensor out = attention(qkv, kHeads, mask);
          out.backward(out_gradient.to(type));
          return std::pair(out.detach(), qkv.grad());
        };
        const auto [expected_out, expected] = gradient_of(at::kDouble);
        const auto [out, gradient] = gradient_of(at::kFloat);
        EXPECT_LT(max_difference(out, expected_out), 1e-5);
        EXPECT_LT(max_difference(gradient, expected), 2e-5);
        EXPECT_LT(max_difference(gradient_of(at::kBFloat16).second, expected), 0.2);
        // Every kernel, in two parts, over scratch memory with whatever was in it.
        const Tensor input = start.contiguous();
        AttentionGradientTask task;
        Tensor added = mask;
        describe_attention(input, kHeads, 1 / std::sqrt(static_cast<double>(head_width)), added,
                           task.attention);
        for (const Kernels& kernel : kernels()) {
          Tensor to_qkv = torch::full_like(input, 7);
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
    const auto gradients_of = [&](at::ScalarType type) {
      std::vector<Tensor> leaves;
      for (const Tensor& tensor : {x.transpose(0, 1).contiguous().transpose(0, 1), weight, bias}) {
        leaves.push_back(tensor.defined() ? tensor.to(type).detach().requires_grad_() : tensor);
      }
      const Tensor out = type == at::kFloat ? linear_with_gradient(leaves[0], leaves[1], leaves[2])
                                            : at::linear(leaves[0], leaves[1], leaves[2]);
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

TEST(Kernels, ExtremeScoresStayFinite) {
  // One key far ahead of the others: weights of 1 and 0, though e^score would overflow.
  Tensor qkv = torch::zeros({1, 20, 3 * 4});
  qkv.slice(2, 0, 4).fill_(100);
  qkv[0][13].slice(0, 4, 8).fill_(100);
  qkv.slice(2, 8, 12).copy_(torch::arange(20).view({1, 20, 1}).expand({1, 20, 4}));
  for (const Kernels& kernel : kernels()) {
    const Tensor out = run_attention(kernel, qkv, 1, {});
    EXPECT_EQ(out.min().item<float>(), 13) << kernel.name;
    EXPECT_EQ(out.max().item<float>(), 13) << kernel.name;
  }
}

TEST(Kernels, NaNIsNotHidden) {
  torch::manual_seed(13);
  Tensor qkv = torch::randn({1, 9, 3 * 4});
  qkv[0][5][0] = std::nanf("");  // in one query
  const Tensor nothing_allowed = torch::full({9, 9}, -std::numeric_limits<float>::infinity());
  for (const Kernels& kernel : kernels()) {
    const Tensor out = run_attention(kernel, qkv, 1, {});
    EXPECT_TRUE(out[0][5].isnan().all().item<bool>()) << kernel.name;
    EXPECT_FALSE(out[0][4].isnan().any().item<bool>()) << kernel.name;
    EXPECT_TRUE(run_attention(kernel, qkv, 1, nothing_allowed).isnan().all().item<bool>()) << kernel.name;
  }
}

TEST(Attention, WithoutGradientsIsTheSame) {
  torch::manual_seed(14);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor qkv = torch::randn({3, 11, 3 * 24}).to(dtype);
    for (const Tensor& mask :
         {Tensor(), causal_mask(11), torch::randn({3, 1, 1, 11}), torch::randn({1, 4, 11, 1})}) {
      const Tensor expected = attention(qkv, 4, mask);
      const torch::NoGradGuard no_grad;
      const Tensor ours = attention(qkv, 4, mask);
      EXPECT_EQ(ours.scalar_type(), dtype);
      EXPECT_LT(max_difference(ours, expected), dtype == at::kFloat ? 1e-5 : 0.05);
      // An entry's answer does not depend on what it is computed beside, nor on the threads.
      const int threads = at::get_num_threads();
      at::set_num_threads(1);
      const Tensor alone_mask =
          mask.defined() && mask.dim() == 4 && mask.size(0) == 3 ? mask.slice(0, 2) : mask;
      EXPECT_TRUE(torch::equal(attention(qkv.slice(0, 2), 4, alone_mask)[0], ours[2]));
      at::set_num_threads(threads);
    }
  }
}

// T5's attention has no scale; one of 1/4 is what sixteen channels a head have by rule.
TEST(Attention, ScaleIsTheCallersWhereItIsGiven) {
  torch::manual_seed(16);
  const Tensor qkv = torch::randn({2, 7, 3 * 32});
  const Tensor by_rule = attention(qkv, 2, {});
  Tensor scaled = qkv.clone();
  scaled.slice(2, 0, 32).mul_(0.25);
  const Tensor unscaled = attention(scaled, 2, {}, 1.0);
  EXPECT_LT(max_difference(unscaled, by_rule), 1e-5);
  EXPECT_GT(max_difference(attention(qkv, 2, {}, 1.0), by_rule), 0.1);
  const torch::NoGradGuard no_grad;
  EXPECT_LT(max_difference(attention(scaled, 2, {}, 1.0), by_rule), 1e-5);
}

TEST(LayerNorm, WithoutGradientsIsTheSame) {
  InitializedParameters source(15);
  const auto layer = LayerNorm::make(source, "norm", 40, 1e-5);
  ASSERT_TRUE(layer);
  torch::manual_seed(15);
  const Tensor x = torch::randn({700, 40}).t().contiguous().t();  // rows that are not contiguous
  const Tensor expected = layer->forward(x, at::kFloat);
  const torch::NoGradGuard no_grad;
  EXPECT_LT(max_difference(layer->forward(x, at::kFloat), expected), 1e-5);
  EXPECT_EQ(layer->forward(x, at::kBFloat16).scalar_type(), at::kBFloat16);
  EXPECT_LT(max_difference(layer->forward(x, at::kBFloat16), expected), 0.02);
}

TEST(RmsNorm, IsTheDefinition) {
  torch::manual_seed(19);
  const Tensor gain = torch::randn({10});
  LoadedParameters source({{"norm.weight", gain}});
  const auto layer = RmsNorm::make(source, "norm", 10, 1e-2);
  ASSERT_TRUE(layer);
  const Tensor x = torch::randn({3, 4, 10}) * 0.1 + 0.05;
  const Tensor ours = layer->forward(x, at::kFloat);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t t = 0; t < 4; ++t) {
      double squares = 0;
      for (int64_t c = 0; c < 10; ++c) squares += std::pow(x[i][t][c].item<double>(), 2);
      for (int64_t c = 0; c < 10; ++c) {
        EXPECT_NEAR(ours[i][t][c].item<double>(),
                    x[i][t][c].item<double>() / std::sqrt(squares / 10 + 1e-2) * gain[c].item<double>(),
                    1e-6);
      }
    }
  }
  EXPECT_EQ(layer->forward(x, at::kBFloat16).scalar_type(), at::kBFloat16);
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
  const TransformerShape shape{.width = 24,
                               .layers = 2,
                               .heads = 4,
                               .mlp_width = 48,
                               .activation = Activation::kQuickGelu,
                               .eps = 1e-5};
  const BlockNames names{"n1", "q", "k", "v", "o", "n2", "up", "down"};
  auto block = TransformerBlock::make(source, "block.", names, shape);
  ASSERT_TRUE(block);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : source.parameters()) tensor.add_(torch::randn_like(tensor) * 0.1);
  const Tensor x = torch::randn({3, 6, 24});
  const Tensor plain = block->forward(x, causal_mask(6), at::kFloat);
  const Tensor positions = torch::tensor({4, 0, 5});
  const Tensor chosen = torch::stack({plain[0][4], plain[1][0], plain[2][5]});
  EXPECT_LT(max_difference(block->forward_at(x, causal_mask(6), at::kFloat, positions), chosen), 1e-5);
  block->pack(at::kFloat);
  EXPECT_LT(max_difference(block->forward(x.clone(), causal_mask(6), at::kFloat), plain), 1e-5);
  const Tensor before = x.clone();
  EXPECT_LT(max_difference(block->forward_at(x, causal_mask(6), at::kFloat, positions), chosen), 1e-5);
  EXPECT_TRUE(torch::equal(x, before));
}

// Query, key and value as three layers or as one, with biases or without: the same block.
TEST(TransformerBlock, JointAttentionInputEqualsThreeLayers) {
  torch::manual_seed(17);
  for (const bool bias : {true, false}) {
    const TransformerShape shape{
        .width = 8, .layers = 1, .heads = 2, .mlp_width = 16, .eps = 1e-5, .attention_bias = bias};
    InitializedParameters random(18);
    ASSERT_TRUE(TransformerBlock::make(random, "", {"n1", "q", "k", "v", "o", "n2", "up", "down"}, shape));
    EXPECT_EQ(random.parameters().contains("q.bias"), bias);
    const torch::NoGradGuard no_grad;
    TensorMap three = random.parameters();
    for (auto& [name, tensor] : three) tensor = tensor.detach() + torch::randn_like(tensor) * 0.1;
    TensorMap one = three;
    for (const char* kind : {".weight", ".bias"}) {
      const auto part = [&](const char* name) { return three.at(std::string(name) + kind); };
      if (three.contains(std::string("q") + kind)) {
        one[std::string("qkv") + kind] = torch::cat({part("q"), part("k"), part("v")});
      }
      for (const char* name : {"q", "k", "v"}) one.erase(std::string(name) + kind);
    }
    LoadedParameters three_source(three);
    LoadedParameters one_source(one);
    const auto a =
        TransformerBlock::make(three_source, "", {"n1", "q", "k", "v", "o", "n2", "up", "down"}, shape);
    const auto b =
        TransformerBlock::make(one_source, "", {"n1", "qkv", "", "", "o", "n2", "up", "down"}, shape);
    ASSERT_TRUE(a && b);
    EXPECT_TRUE(one_source.unused().empty());
    const Tensor x = torch::randn({2, 5, 8});
    EXPECT_LT(max_difference(b->forward(x, {}, at::kFloat), a->forward(x, {}, at::kFloat)), 1e-6);
  }
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
  test::expect_gradients_match_finite_differences(source, loss, 1e-2, 0.02);
}

TEST(Patches, AreWhatAConvolutionSees) {
  torch::manual_seed(18);
  for (const int64_t side : {12, 13, 15}) {  // the last columns and rows of 13 and 15 are left over
    const Tensor pixels = torch::randn({2, 3, side, side + 4});
    const Tensor kernel = torch::randn({5, 3, 4, 4});
    const Tensor expected = at::conv2d(pixels, kernel, {}, 4).flatten(2).transpose(1, 2);
    EXPECT_LT(max_difference(at::linear(patches(pixels, 4), kernel.view({5, 48})), expected), 1e-4) << side;
  }
}

// Of file-backed memory resident, in bytes.
int64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kibibytes = 0;
    if (key == "RssFile:" && status >> kibibytes) return kibibytes * 1024;
  }
  return -1;
}

// Every dtype of the format is a tensor or an error that names it.
TEST(Parameters, DtypesThatTorchLacksAreNamed) {
  const test::TestFolder folder;
  const std::filesystem::path path = folder / "weights.safetensors";
  const std::vector<int64_t> eight(1);
  for (int i = 0; i <= static_cast<int>(DType::kF64); ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto bytes = std::as_bytes(std::span(eight)).first(static_cast<size_t>(dtype_size(dtype)));
    ASSERT_TRUE(write_safetensors(path, std::vector<NamedTensor>{{"layer.scales", {dtype, {1}, bytes}}}));
    const SafeTensors file = SafeTensors::open(path).value();
    const auto tensors = borrow_tensors(file);
    const std::string name(dtype_name(dtype));
    if (name == "U16" || name == "U32" || name == "U64") {
      ASSERT_FALSE(tensors) << name;
      EXPECT_EQ(tensors.error().code, ErrorCode::kUnsupported);
      EXPECT_NE(tensors.error().message.find("tensor layer.scales has dtype " + name), std::string::npos);
    } else {
      ASSERT_TRUE(tensors) << name << ": " << tensors.error().message;
      EXPECT_EQ(view_of(tensors->at("layer.scales")).dtype, dtype) << name;
    }
  }
}

TEST(Parameters, PackingGivesMappedMemoryBack) {
  // On a disk, which the folder for temporary files need not be: files in memory do not count as files.
  const test::TestFolder folder("/var/tmp");
  const std::filesystem::path path = folder / "weights.safetensors";
  torch::manual_seed(17);
  const Tensor weight = torch::randn({2048, 2048});  // 16 MiB
  ASSERT_TRUE(write_safetensors(path, std::vector<NamedTensor>{{"layer.weight", view_of(weight)},
                                                               {"another.weight", view_of(weight)}}));
  {
    const SafeTensors file = SafeTensors::open(path).value();
    LoadedParameters source(borrow_tensors(file).value());
    Linear layer = Linear::make(source, "layer", 2048, 2048, 0, true).value();
    const Tensor borrowed = source.take("layer.weight", {2048, 2048}, {}).value();
    EXPECT_TRUE(torch::equal(borrowed, weight));  // all of it has been read
    // oneDNN's own code, a file as well, is in memory before anything is measured.
    Linear another = Linear::make(source, "another", 2048, 2048, 0, true).value();
    another.pack(at::kFloat);
    EXPECT_EQ(another.forward(torch::randn({3, 2048})).size(0), 3);
    const int64_t before = resident_file_bytes();
    layer.pack(at::kFloat);
    EXPECT_LT(resident_file_bytes(), before - (12 << 20));
    const Tensor x = torch::randn({3, 2048});
    EXPECT_LT(max_difference(layer.forward(x), at::linear(x, weight)), 1e-3);
    EXPECT_TRUE(torch::equal(borrowed, weight));  // and is read again from the file
  }

  // Memory of our own is never given back: it would be lost.
  const Tensor own = weight.clone();
  release_borrowed(own);
  EXPECT_TRUE(torch::equal(own, weight));
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
