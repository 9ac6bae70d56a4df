// Tests of layers against slow, simple sums in double, with and without threads.
#include "saccade/nn/layers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "saccade/core/cpu.h"
#include "saccade/core/test_folder.h"
#include "saccade/nn/attention_pool.h"
#include "saccade/nn/convolution.h"
#include "saccade/nn/kernels/bf16_product_kernels.h"
#include "saccade/nn/kernels/post_norm.h"
#include "saccade/nn/kernels/rms_norm.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::random_tensor;
using test::RandomParameters;
using test::slow_activation;

// In float32, summed in double.
Tensor slow_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Activation activation = Activation::kNone) {
  const Tensor rows = x.to(DType::kF32).reshape({-1, x.size(-1)});
  Shape shape = x.sizes();
  shape.back() = weight.size(0);
  Tensor out = Tensor::empty(shape);
  const Tensor to = out.view({-1, weight.size(0)});
  for (int64_t r = 0; r < rows.size(0); ++r) {
    for (int64_t o = 0; o < weight.size(0); ++o) {
      double sum = bias.defined() ? bias.at({o}) : 0;
      for (int64_t i = 0; i < weight.size(1); ++i) sum += rows.at({r, i}) * weight.at({o, i});
      to[r].floats()[static_cast<size_t>(o)] = static_cast<float>(slow_activation(sum, activation));
    }
  }
  return out;
}

Tensor joint(const TensorMap& parameters, const std::vector<std::string>& names) {
  std::vector<Tensor> parts;
  for (const std::string& name : names) parts.push_back(parameters.at(name));
  return cat(parts);
}

TEST(PackedLinear, MatchesTheSlowProduct) {
  Workspace workspace(3);
  for (const auto activation : {Activation::kNone, Activation::kGelu, Activation::kQuickGelu,
                                Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
    for (const int64_t rows : {1, 3, 17, 130}) {
      const Tensor x = random_tensor({rows, 37}, 1);
      const Tensor weight = random_tensor({29, 37}, 2, 1 / 6.F);
      const Tensor bias = random_tensor({29}, 3);
      const Tensor expected = slow_linear(x, weight, bias, activation);
      const PackedLinear fp32(weight, bias, DType::kF32);
      for (Workspace* where : {static_cast<Workspace*>(nullptr), &workspace}) {
        EXPECT_LT(max_difference(fp32.forward(x.in(where), activation, DType::kF32), expected), 1e-5);
        if (!multiplies(DType::kBF16)) continue;
        const PackedLinear bf16(weight, bias, DType::kBF16);
        const Tensor rough = bf16.forward(x.in(where).to(DType::kBF16), activation, DType::kF32);
        EXPECT_LT(max_difference(rough, expected), 0.05);  // 37 products of 8-bit mantissas
      }
    }
  }
}

TEST(PackedLinear, AddsToASum) {
  Workspace workspace(2);
  const Tensor x = random_tensor({2, 25, 16}, 4);
  const Tensor weight = random_tensor({8, 16}, 5);
  const Tensor sum = random_tensor({2, 25, 8}, 6).in(&workspace);
  const Tensor expected = sum + slow_linear(x, weight, {});
  PackedLinear(weight, {}, DType::kF32).add_to(sum, x);
  EXPECT_LT(max_difference(sum, expected), 1e-5);
}

TEST(PackedLinear, TakesNoRows) {
  const PackedLinear layer(Tensor::full({4, 3}, 1), {}, DType::kF32);
  EXPECT_EQ(layer.forward(Tensor::empty({0, 3}), Activation::kNone, DType::kF32).sizes(), (Shape{0, 4}));
}

// Rows shared out among threads in parts of all sizes.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A product of a new shape is compiled: without memory for its code that is an exception, not the process's end.
TEST(PackedLinearDeathTest, ANewShapeWithoutMemoryIsAnException) {
  const Tensor weight = random_tensor({256, 192}, 1);
  const PackedLinear linear(weight, Tensor(), DType::kF32);
  const Tensor x = random_tensor({37, 192}, 2);
  const auto without_memory = [&] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t now = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE));
    const struct rlimit limit = {now + (128 << 10), now + (128 << 10)};  // less than a kernel's code takes
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      (void)linear.forward(x, Activation::kNone, DType::kF32);
    } catch (const std::bad_alloc&) {
      ::_exit(0);
    }
    ::_exit(1);
  };
  EXPECT_EXIT(without_memory(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(linear.forward(x, Activation::kNone, DType::kF32).size(0), 37);
}
#endif

TEST(PackedLinear, RowsDoNotDependOnWhoComputesThem) {
  const Tensor weight = random_tensor({48, 64}, 7);
  const PackedLinear layer(weight, {}, DType::kF32);
  Workspace one(1);
  Workspace four(4);
  for (int64_t rows = 1; rows < 200; rows += 1 + rows / 4) {
    const Tensor x = random_tensor({rows, 64}, static_cast<uint32_t>(rows));
    const Tensor alone = layer.forward(x.in(&one), Activation::kGelu, DType::kF32);
    EXPECT_LT(max_difference(layer.forward(x.in(&four), Activation::kGelu, DType::kF32), alone), 1e-5)
        << rows;
  }
}

// Products of few rows are split by outputs: whole blocks of the packed layout, and a remainder.
TEST(PackedLinear, FewRowsOfManyOutputs) {
  Workspace one(1);
  Workspace two(2);  // 1,100 outputs: panels of one block, where the others have two
  Workspace three(3);
  for (const int64_t out : {65, 128, 200, 1100}) {
    const int64_t in = out == 200 ? 96 : 37;
    const Tensor weight = random_tensor({out, in}, 11, 0.1F);
    const Tensor bias = random_tensor({out}, 12);
    const PackedLinear fp32(weight, bias, DType::kF32);
    const Tensor all = random_tensor({128, in}, 13);
    const Tensor plain = slow_linear(all, weight, bias);
    for (const int64_t rows : {1, 2, 12, 50, 127, 128}) {
      const Tensor x = all.slice(0, 0, rows);
      const Tensor expected = plain.slice(0, 0, rows).clone();
      const Tensor ours = fp32.forward(x.in(&three), Activation::kNone, DType::kF32);
      EXPECT_LT(max_difference(ours, expected), 1e-5) << rows << " x " << in << " x " << out;
      // Without AVX-512, oneDNN's sums depend on how many rows and outputs a product has.
      for (Workspace* workspace : {&one, &two}) {
        EXPECT_LE(max_difference(ours, fp32.forward(x.in(workspace), Activation::kNone, DType::kF32)),
                  multiplies(DType::kBF16) ? 0 : 1e-5)
            << rows << ": the number of threads shows";
      }
      const Tensor sum = all.slice(1, 0, 1).slice(0, 0, rows).expand({rows, out}).clone().in(&three);
      const Tensor whole = sum + expected;
      fp32.add_to(sum, x);
      EXPECT_LT(max_difference(sum, whole), 2e-5);
      if (!multiplies(DType::kBF16)) continue;
      const PackedLinear bf16(weight, bias, DType::kBF16);
      const Tensor rough = bf16.forward(x.in(&three).to(DType::kBF16), Activation::kNone, DType::kBF16);
      EXPECT_LT(max_difference(rough.to(DType::kF32), expected), 0.1);
    }
  }
}

// Products of weights that exceed a core's cache are split by rows and by outputs: into parts of blocks (1,100
// inputs), or panels of two blocks with all rows (520 inputs, two threads).
TEST(PackedLinear, LargeWeightsGiveTheSameBitsOnAnyThreads) {
  Workspace one(1);
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{1100, 130}, {520, 1100}}) {
    const Tensor weight = random_tensor({out, in}, 14, 0.03F);
    const Tensor bias = random_tensor({out}, 15);
    const Tensor all = random_tensor({400, in}, 16);
    const Tensor sums = random_tensor({400, out}, 17);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      if (!multiplies(dtype)) continue;
      const PackedLinear layer(weight, bias, dtype);
      // Without AVX-512, and by AMX, oneDNN's sums depend on how many rows and outputs a product has. Those of our tiles do not.
      const bool tiles = dtype == DType::kBF16 && cpu_has(CpuLevel::kAmx) && bf16_kernel() == nullptr;
      const double tolerance = tiles ? 0.05 : multiplies(DType::kBF16) ? 0 : 1e-5;
      for (const int64_t rows : {128, 257, 400}) {
        const auto results = [&](Workspace& workspace) {
          const Tensor x = all.slice(0, 0, rows).clone().in(&workspace).to(dtype);
          const Tensor sum = sums.slice(0, 0, rows).clone().in(&workspace);
          layer.add_to(sum, x);
          return std::pair(layer.forward(x, Activation::kGelu, dtype).to(DType::kF32), sum);
        };
        const auto [alone, alone_sum] = results(one);
        for (const int threads : {2, 3, 8}) {
          Workspace several(threads);
          const auto [ours, sum] = results(several);
          EXPECT_LE(max_difference(ours, alone), tolerance) << rows << " x " << in << " on " << threads;
          EXPECT_LE(max_difference(sum, alone_sum), tolerance) << rows << " x " << in << " on " << threads;
        }
      }
    }
  }
}

// Weights are repacked in bands by whichever threads there are, and layers that read the same input as one.
TEST(PackedOnDemand, PacksPartsOfAllSizes) {
  constexpr int64_t kIn = 33;
  const Tensor x = random_tensor({3, kIn}, 1);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{600}, {256, 256, 256}, {320, 64, 64}, {100, 29, 300}, {5}, {1, 1, 1}}) {
    std::vector<Tensor> weights;
    std::vector<Tensor> biases;
    for (const int64_t size : sizes) {
      const auto seed = static_cast<uint32_t>(weights.size());
      weights.push_back(random_tensor({size, kIn}, 10 + seed, 1 / 8.F));
      biases.push_back(random_tensor({size}, 20 + seed));
    }
    const Tensor expected = slow_linear(x, cat(weights), cat(biases));
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      if (!multiplies(dtype)) continue;
      for (const int threads : {0, 1, 3}) {  // 0: without a workspace
        const auto workspace = threads == 0 ? nullptr : std::make_unique<Workspace>(threads);
        PackedOnDemand layer(weights, biases, dtype);
        const Tensor y = layer.get(workspace.get())
                             .forward(x.in(workspace.get()).to(dtype), Activation::kNone, DType::kF32);
        EXPECT_LT(max_difference(y, expected), dtype == DType::kF32 ? 1e-5 : 0.05)
            << sizes[0] << " " << threads;
      }
    }
  }
}

// An unused layer costs nothing: weights are read at the first use only.
TEST(PackedOnDemand, ReadsItsWeightsAtTheFirstUse) {
  const Tensor weight = Tensor::full({4, 3}, 1);
  PackedOnDemand layer({weight}, {}, DType::kF32);
  const Tensor x = Tensor::full({1, 3}, 1);
  weight.fill(2);
  EXPECT_EQ(layer.get(nullptr).forward(x, Activation::kNone, DType::kF32).floats()[0], 6);
  weight.fill(3);
  EXPECT_EQ(layer.get(nullptr).forward(x, Activation::kNone, DType::kF32).floats()[0], 6);
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

const TransformerShape kShape{
    .width = 24, .layers = 2, .heads = 3, .mlp_width = 40, .activation = Activation::kGelu, .eps = 1e-5};
const BlockNames kNames{"n1", "q", "k", "v", "o", "n2", "up", "down"};

Tensor norm(const TensorMap& p, const std::string& name, const Tensor& x) {
  return layer_norm(x, p.at(name + ".weight"), p.at(name + ".bias"), 1e-5, DType::kF32);
}
Tensor layer(const TensorMap& p, const std::string& name, const Tensor& x,
             Activation activation = Activation::kNone) {
  return slow_linear(x, p.at(name + ".weight"), p.at(name + ".bias"), activation);
}
Tensor mixed(const TensorMap& p, const std::string& prefix, const Tensor& x, const Tensor& mask) {
  const Tensor qkv = slow_linear(x, joint(p, {prefix + "q.weight", prefix + "k.weight", prefix + "v.weight"}),
                                 joint(p, {prefix + "q.bias", prefix + "k.bias", prefix + "v.bias"}));
  return layer(p, prefix + "o", attention(qkv, kShape.heads, mask));
}

TEST(TransformerBlock, MatchesThePlainOperations) {
  RandomParameters source(8);
  auto block = TransformerBlock::make(source, "b.", kNames, kShape).value();
  block.pack(DType::kF32);
  const TensorMap& p = source.parameters();
  Workspace workspace(3);
  const Tensor x = random_tensor({2, 7, 24}, 90);
  for (const Tensor& mask : {Tensor(), causal_mask(7)}) {
    Tensor expected = x + mixed(p, "b.", norm(p, "b.n1", x), mask);
    expected = expected + layer(p, "b.down", layer(p, "b.up", norm(p, "b.n2", expected), Activation::kGelu));
    const Tensor ours = block.forward(x.clone().in(&workspace), mask, DType::kF32);
    EXPECT_LT(max_difference(ours, expected), 2e-5);
    const Tensor at = Tensor::of(std::vector<int64_t>{3, 6}, {2});
    EXPECT_LT(max_difference(block.forward_at(x, mask, DType::kF32, at), take_rows(expected, at)), 2e-5);
  }
  if (!multiplies(DType::kBF16)) return;
  RandomParameters again(8);
  auto rough = TransformerBlock::make(again, "b.", kNames, kShape).value();
  rough.pack(DType::kBF16);
  EXPECT_LT(
      max_difference(rough.forward(x.clone(), {}, DType::kBF16), block.forward(x.clone(), {}, DType::kF32)),
      0.1);
}

TEST(TransformerBlock, JointAttentionInputEqualsThreeLayers) {
  RandomParameters source(9);
  auto three = TransformerBlock::make(source, "b.", kNames, kShape).value();
  TensorMap tensors = source.parameters();
  for (const char* kind : {"weight", "bias"}) {
    const std::string end = std::string(".") + kind;
    tensors["b.qkv" + end] = joint(tensors, {"b.q" + end, "b.k" + end, "b.v" + end});
    for (const char* part : {"b.q", "b.k", "b.v"}) tensors.erase(part + end);
  }
  LoadedParameters loaded(tensors);
  const BlockNames names{"n1", "qkv", "", "", "o", "n2", "up", "down"};
  auto one = TransformerBlock::make(loaded, "b.", names, kShape).value();
  EXPECT_TRUE(loaded.unused().empty());
  three.pack(DType::kF32);
  one.pack(DType::kF32);
  const Tensor x = random_tensor({2, 5, 24}, 91);
  EXPECT_EQ(
      max_difference(one.forward(x.clone(), {}, DType::kF32), three.forward(x.clone(), {}, DType::kF32)), 0);
}

TEST(PostNormBlock, MatchesThePlainOperations) {
  RandomParameters source(10);
  auto block = PostNormBlock::make(source, "b.", kNames, kShape).value();
  block.pack(DType::kF32);
  const TensorMap& p = source.parameters();
  const Tensor x = random_tensor({2, 7, 24}, 92);
  const Tensor mask =
      padding_mask(Tensor::of(std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, {2, 7}));
  Tensor expected = norm(p, "b.n1", x + mixed(p, "b.", x, mask));
  expected = norm(p, "b.n2", expected + layer(p, "b.down", layer(p, "b.up", expected, Activation::kGelu)));
  Tensor weights;
  EXPECT_LT(max_difference(block.forward(x.clone(), mask, DType::kF32, &weights), expected), 2e-5);
  EXPECT_EQ(weights.sizes(), (Shape{2, 3, 7, 7}));
  const Tensor at = Tensor::of(std::vector<int64_t>{0, 2}, {2});
  EXPECT_LT(max_difference(block.forward_at(x, mask, DType::kF32, at), take_rows(expected, at)), 2e-5);
}

TEST(PostNormCrossAttention, MatchesThePlainOperations) {
  RandomParameters source(11);
  auto part = PostNormCrossAttention::make(source, "b.", kNames, kShape, 10).value();
  part.pack(DType::kF32);
  const TensorMap& p = source.parameters();
  const Tensor x = random_tensor({2, 4, 24}, 93);
  const Tensor memory = random_tensor({2, 6, 10}, 94);
  const auto heads = [](const Tensor& t) { return t.view({t.size(0), t.size(1), 3, 8}); };
  const Tensor mix = attention(heads(layer(p, "b.q", x)), heads(layer(p, "b.k", memory)),
                               heads(layer(p, "b.v", memory)), {});
  const Tensor expected = norm(p, "b.n1", x + layer(p, "b.o", mix));
  EXPECT_LT(max_difference(part.forward(x.clone(), memory, DType::kF32), expected), 2e-5);
  // One memory for all.
  const Tensor first = memory.slice(0, 0, 1);
  const Tensor shared = part.forward(x.clone(), first, DType::kF32);
  EXPECT_LT(max_difference(shared, part.forward(x.clone(), cat({first, first}), DType::kF32)), 1e-6);
}

TEST(AttentionPool, MatchesThePlainOperations) {
  RandomParameters source(12);
  auto pool = AttentionPool::make(source, "h", kShape).value();
  pool.pack(DType::kF32);
  const TensorMap& p = source.parameters();
  const Tensor x = random_tensor({2, 9, 24}, 95);
  const Tensor weight = p.at("h.attention.in_proj_weight");
  const Tensor bias = p.at("h.attention.in_proj_bias");
  const auto part = [&](const Tensor& input, int64_t which) {
    const Tensor made = slow_linear(input, weight.chunk(3, which, 0), bias.chunk(3, which, 0));
    return made.view({made.size(0), made.size(1), 3, 8});
  };
  const Tensor query = part(p.at("h.probe"), 0).expand({2, 1, 3, 8});
  const Tensor out =
      layer(p, "h.attention.out_proj", attention(query, part(x, 1), part(x, 2), {})).view({2, 24});
  const Tensor hidden = layer(p, "h.mlp.fc1", norm(p, "h.layernorm", out), Activation::kGelu);
  EXPECT_LT(max_difference(pool.forward(x, DType::kF32), out + layer(p, "h.mlp.fc2", hidden)), 2e-5);
}

TEST(RmsNorm, AddsItsOffsetToTheGain) {
  for (const double offset : {0.0, 1.0}) {
    RandomParameters source(13);
    const RmsNorm rms = RmsNorm::make(source, "n", 20, 1e-6, offset).value();
    const Tensor x = random_tensor({3, 20}, 96);
    const Tensor ours = rms.forward(x, DType::kF32);
    for (int64_t r = 0; r < 3; ++r) {
      double square = 0;
      for (int64_t c = 0; c < 20; ++c) square += x.at({r, c}) * x.at({r, c});
      for (int64_t c = 0; c < 20; ++c) {
        const double gain = source.parameters().at("n.weight").at({c}) + offset;
        EXPECT_NEAR(ours.at({r, c}), x.at({r, c}) / std::sqrt(square / 20 + 1e-6) * gain, 1e-5);
      }
    }
  }
}

// Computes convolution, normalization and activation one value at a time. x: channels last.
Tensor slow_convolution(const Tensor& x, const ConvolutionShape& shape, const TensorMap& p) {
  const int64_t height =
      (x.size(1) + shape.padding.top + shape.padding.bottom - shape.kernel) / shape.stride + 1;
  const int64_t width =
      (x.size(2) + shape.padding.left + shape.padding.right - shape.kernel) / shape.stride + 1;
  Tensor out = Tensor::empty({x.size(0), height, width, shape.out});
  float* to = out.data<float>();
  for (int64_t n = 0; n < x.size(0); ++n) {
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        for (int64_t c = 0; c < shape.out; ++c, ++to) {
          double sum = 0;
          for (int64_t k = 0; k < (shape.depthwise ? 1 : shape.in); ++k) {
            for (int64_t a = 0; a < shape.kernel; ++a) {
              for (int64_t b = 0; b < shape.kernel; ++b) {
                const int64_t row = i * shape.stride + a - shape.padding.top;
                const int64_t column = j * shape.stride + b - shape.padding.left;
                if (row < 0 || column < 0 || row >= x.size(1) || column >= x.size(2)) continue;
                sum += p.at("c.weight").at({c, k, a, b}) * x.at({n, row, column, shape.depthwise ? c : k});
              }
            }
          }
          const double scale =
              p.at("n.weight").at({c}) / std::sqrt(p.at("n.running_var").at({c}) + shape.eps);
          const double y = (sum - p.at("n.running_mean").at({c})) * scale + p.at("n.bias").at({c});
          *to = static_cast<float>(slow_activation(y, shape.activation));
        }
      }
    }
  }
  return out;
}

TEST(ConvolutionNorm, MatchesTheSlowSums) {
  Workspace workspace(3);
  const ConvolutionShape shapes[] = {
      {.in = 3, .out = 8, .kernel = 3, .stride = 2, .padding = {0, 1, 0, 1}, .activation = Activation::kSilu},
      {.in = 8, .out = 12, .kernel = 3, .padding = {1, 1, 1, 1}, .activation = Activation::kRelu},
      {.in = 16, .out = 16, .kernel = 5, .stride = 2, .depthwise = true, .padding = {1, 2, 1, 2}},
      {.in = 20,
       .out = 20,
       .kernel = 3,
       .depthwise = true,
       .padding = {1, 1, 1, 1},
       .activation = Activation::kSilu},
      {.in = 6, .out = 10, .kernel = 1, .activation = Activation::kSilu}};
  for (const ConvolutionShape& shape : shapes) {
    RandomParameters source(14);
    auto conv = ConvolutionNorm::make(source, "c", "n", shape).value();
    const TensorMap p = source.parameters();
    conv.pack(DType::kF32);
    for (const int64_t pictures : {1, 3, 20}) {
      for (const int64_t side : {7, 18}) {
        if (pictures * side > 150)
          continue;  // slow sums are slow: each side and each number of pictures once
        const Tensor x = random_tensor({pictures, side, side + 3, shape.in}, 97);
        const Tensor expected = slow_convolution(x, shape, p);
        EXPECT_LT(max_difference(conv.forward(x.in(&workspace), DType::kF32), expected), 1e-4)
            << shape.kernel << " " << pictures << " " << side;
        EXPECT_LT(max_difference(conv.forward(x, DType::kF32), expected), 1e-4);
      }
    }
  }
}

TEST(ConvolutionNorm, AsksForItsParametersByName) {
  RandomParameters made(15);
  const ConvolutionShape shape{.in = 3, .out = 5, .kernel = 3};
  ASSERT_TRUE(ConvolutionNorm::make(made, "c", "n", shape));
  for (const auto& [left_out, ignored] : made.parameters()) {
    TensorMap tensors = made.parameters();
    tensors.erase(left_out);
    LoadedParameters source(std::move(tensors));
    const auto conv = ConvolutionNorm::make(source, "c", "n", shape);
    ASSERT_FALSE(conv) << left_out;
    EXPECT_NE(conv.error().message.find("tensor " + left_out + " of shape"), std::string::npos);
  }
}

TEST(SqueezeExcite, ScalesChannels) {
  Workspace workspace(3);
  RandomParameters source(16);
  auto squeeze = SqueezeExcite::make(source, "s", 12, 3, Activation::kSilu).value();
  squeeze.pack();
  const TensorMap& p = source.parameters();
  const Tensor x = random_tensor({2, 9, 10, 12}, 98);
  const Tensor means = mean(x.view({2, 90, 12}), 1);
  const Tensor reduced =
      slow_linear(means, p.at("s.reduce.weight").view({3, 12}), p.at("s.reduce.bias"), Activation::kSilu);
  const Tensor scale =
      sigmoid(slow_linear(reduced, p.at("s.expand.weight").view({12, 3}), p.at("s.expand.bias")));
  const Tensor ours = squeeze.forward(x.clone().in(&workspace));
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t c = 0; c < 12; ++c) {
      EXPECT_NEAR(ours.at({n, 8, 7, c}), x.at({n, 8, 7, c}) * scale.at({n, c}), 1e-5);
      EXPECT_NEAR(ours.at({n, 0, 0, c}), x.at({n, 0, 0, c}) * scale.at({n, c}), 1e-5);
    }
  }
}

TEST(AveragePool, LeavesOutWhatIsLeft) {
  const Tensor x = random_tensor({2, 5, 4, 3}, 99);
  const Tensor ours = average_pool(x, 2);
  ASSERT_EQ(ours.sizes(), (Shape{2, 2, 2, 3}));
  EXPECT_NEAR(ours.at({1, 1, 0, 2}),
              (x.at({1, 2, 0, 2}) + x.at({1, 2, 1, 2}) + x.at({1, 3, 0, 2}) + x.at({1, 3, 1, 2})) / 4, 1e-6);
}

// Returns the resident file-backed memory of this process, in bytes.
int64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kibibytes = 0;
    if (key == "RssFile:" && status >> kibibytes) return kibibytes * 1024;
  }
  return -1;
}

// Every dtype of the format becomes a tensor, or an error that names it.
TEST(Parameters, DtypesThatNothingReadsAreNamed) {
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
  // The folder must be on a disk, because pages of an in-memory file system do not count as file-backed.
  const test::TestFolder folder("/var/tmp");
  const std::filesystem::path path = folder / "weights.safetensors";
  const Tensor weight = random_tensor({2048, 2048}, 17);  // 16 MiB
  ASSERT_TRUE(write_safetensors(path, std::vector<NamedTensor>{{"layer.weight", view_of(weight)},
                                                               {"another.weight", view_of(weight)}}));
  {
    const SafeTensors file = SafeTensors::open(path).value();
    LoadedParameters source(borrow_tensors(file).value());
    Linear linear = Linear::make(source, "layer", 2048, 2048, 0, true).value();
    const Tensor borrowed = source.take("layer.weight", {2048, 2048}, {}).value();
    EXPECT_EQ(max_difference(borrowed, weight), 0);  // all of it has been read
    // Loads oneDNN's own code, which is file-backed as well, before measuring.
    Linear another = Linear::make(source, "another", 2048, 2048, 0, true).value();
    another.pack(DType::kF32);
    EXPECT_EQ(another.forward(random_tensor({3, 2048}, 19)).size(0), 3);
    const int64_t before = resident_file_bytes();
    linear.pack(DType::kF32);
    const Tensor x = random_tensor({1, 2048}, 18);
    EXPECT_LT(max_difference(linear.forward(x), row_products(x, weight)), 1e-3);  // the first use packs
    EXPECT_LT(resident_file_bytes(), before - (12 << 20));
    EXPECT_EQ(max_difference(borrowed, weight), 0);  // and is read again from the file
  }

  // Memory of our own is never released, because its contents would be lost.
  const Tensor own = weight.clone();
  release_borrowed(own);
  EXPECT_EQ(max_difference(own, weight), 0);
}

}  // namespace
}  // namespace saccade::nn
