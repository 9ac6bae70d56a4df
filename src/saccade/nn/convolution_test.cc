// Convolution layers against the sums they stand for.
#include "saccade/nn/convolution.h"

#include <cmath>

#include <gtest/gtest.h>

#include "saccade/nn/test_tensors.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using torch::Tensor;

// Fills every parameter; variances stay above 0.
void randomize(const InitializedParameters& source) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : source.parameters()) {
    tensor.copy_(torch::randn_like(tensor));
    if (name.ends_with("running_var")) tensor.abs_().add_(0.1);
  }
}

// One sum at a time, in double.
Tensor slow(const TensorMap& p, const Tensor& x, const ConvolutionShape& shape) {
  const int64_t height =
      (x.size(2) + shape.padding.top + shape.padding.bottom - shape.kernel) / shape.stride + 1;
  const int64_t width =
      (x.size(3) + shape.padding.left + shape.padding.right - shape.kernel) / shape.stride + 1;
  const auto in = x.accessor<float, 4>();
  const Tensor weights = p.at("c.weight").detach();
  const auto kernel = weights.accessor<float, 4>();
  const auto value = [&](const char* name, int64_t channel) { return p.at(name)[channel].item<double>(); };
  Tensor out = torch::zeros({x.size(0), shape.out, height, width}, at::kDouble);
  auto result = out.accessor<double, 4>();
  for (int64_t c = 0; c < shape.out; ++c) {
    const double scale = value("n.weight", c) / std::sqrt(value("n.running_var", c) + shape.eps);
    const double mean = value("n.running_mean", c);
    const double bias = value("n.bias", c);
    for (int64_t n = 0; n < x.size(0); ++n) {
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < (shape.depthwise ? 1 : shape.in); ++k) {
            for (int64_t a = 0; a < shape.kernel; ++a) {
              for (int64_t b = 0; b < shape.kernel; ++b) {
                const int64_t row = i * shape.stride + a - shape.padding.top;
                const int64_t column = j * shape.stride + b - shape.padding.left;
                if (row < 0 || column < 0 || row >= x.size(2) || column >= x.size(3)) continue;
                sum += static_cast<double>(kernel[c][k][a][b]) * in[n][shape.depthwise ? c : k][row][column];
              }
            }
          }
          const double y = (sum - mean) * scale + bias;
          result[n][c][i][j] = y / (1 + std::exp(-y));
        }
      }
    }
  }
  return out;
}

TEST(ConvolutionNorm, MatchesTheSlowSums) {
  torch::manual_seed(30);
  const ConvolutionShape shapes[] = {
      {.in = 3, .out = 5, .kernel = 3, .stride = 2, .padding = {0, 1, 0, 1}},
      {.in = 4, .out = 4, .kernel = 5, .stride = 2, .depthwise = true, .padding = {1, 2, 1, 2}},
      {.in = 4, .out = 4, .kernel = 3, .stride = 2, .depthwise = true, .padding = {1, 1, 1, 1}},
      {.in = 4, .out = 4, .kernel = 5, .depthwise = true, .padding = {2, 2, 2, 2}},
      {.in = 4, .out = 7},
      {.in = 4, .out = 7, .stride = 2},
      {.in = 4, .out = 4, .stride = 2, .depthwise = true}};
  for (ConvolutionShape shape : shapes) {
    SCOPED_TRACE(fmt::format("{} x {}, stride {}", shape.kernel, shape.kernel, shape.stride));
    shape.activation = Activation::kSilu;
    shape.eps = 0.01;
    InitializedParameters source(30);
    auto layer = ConvolutionNorm::make(source, "c", "n", shape);
    ASSERT_TRUE(layer) << layer.error().message;
    randomize(source);
    const torch::NoGradGuard no_grad;
    const Tensor x = torch::randn({2, shape.in, 9, 8});
    const Tensor expected = slow(source.parameters(), x, shape);
    EXPECT_LT(max_difference(layer->forward(x, at::kFloat), expected), 1e-4);
    ConvolutionNorm rough = *layer;
    layer->pack(at::kFloat);
    EXPECT_LT(max_difference(layer->forward(x, at::kFloat), expected), 1e-4);
    EXPECT_LT(
        max_difference(layer->forward(x.contiguous(at::MemoryFormat::ChannelsLast), at::kFloat), expected),
        1e-4);
    rough.pack(at::kBFloat16);
    const Tensor bf16 = rough.forward(x, at::kBFloat16);
    EXPECT_EQ(bf16.scalar_type(), at::kFloat);
    // Four products of numbers near 1 with 8-bit mantissas, scaled up by the norm.
    EXPECT_LT(max_difference(bf16, expected), 0.02 * expected.abs().max().item<double>() + 1e-4);
  }
}

TEST(SqueezeExcite, ScalesChannels) {
  torch::manual_seed(31);
  InitializedParameters source(31);
  const auto layer = SqueezeExcite::make(source, "s", 4, 2, Activation::kSilu);
  ASSERT_TRUE(layer);
  randomize(source);
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({3, 4, 5, 6});
  const TensorMap& p = source.parameters();
  const Tensor ours = layer->forward(x);
  for (int64_t n = 0; n < 3; ++n) {
    const Tensor means = x[n].flatten(1).mean(1);
    Tensor hidden = at::matmul(p.at("s.reduce.weight").view({2, 4}), means) + p.at("s.reduce.bias");
    hidden = hidden / (1 + (-hidden).exp());
    const Tensor scale =
        1 / (1 + (-(at::matmul(p.at("s.expand.weight").view({4, 2}), hidden) + p.at("s.expand.bias"))).exp());
    EXPECT_LT(max_difference(ours[n], x[n] * scale.view({4, 1, 1})), 1e-5);
  }
}

TEST(ConvolutionNorm, AsksForItsParametersByName) {
  InitializedParameters made(32);
  const ConvolutionShape shape{.in = 3, .out = 5, .kernel = 3};
  ASSERT_TRUE(ConvolutionNorm::make(made, "c", "n", shape));
  for (const auto& [left_out, ignored] : made.parameters()) {
    TensorMap tensors = made.parameters();
    tensors.erase(left_out);
    LoadedParameters source(std::move(tensors));
    const auto layer = ConvolutionNorm::make(source, "c", "n", shape);
    ASSERT_FALSE(layer) << left_out;
    EXPECT_NE(layer.error().message.find("tensor " + left_out + " of shape"), std::string::npos);
  }
}

}  // namespace
}  // namespace saccade::nn
