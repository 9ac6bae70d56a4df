// Tests of products in bfloat16 by tiles against slow sums: the instructions where the processor has them, and their emulation.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/kernels/bf16_product_kernels.h"
#include "saccade/nn/kernels/tiles.h"
#include "saccade/nn/linear/bf16_linear.h"
#include "saccade/nn/linear/packed_linear.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::random_tensor;
using test::rounded;
using test::slow_activation;

std::vector<Bf16Kernel> kernels_of_tiles() {
  std::vector<Bf16Kernel> kernels = {emulated_bf16_kernel()};
  if (bf16_kernel() != nullptr) kernels.push_back(*bf16_kernel());
  return kernels;
}

// Expects `found` [rows, out] to be activation(x * weight^T + bias) + before.
void expect_product(const Tensor& found, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    Activation activation, const Tensor& before) {
  const Tensor rows = rounded(x);
  const Tensor weights = rounded(weight);
  const double rounding = found.dtype() == DType::kBF16 ? 1.0 / 256 : 1e-6;
  for (int64_t r = 0; r < x.size(0); ++r) {
    for (int64_t o = 0; o < weight.size(0); ++o) {
      double sum = bias.defined() ? bias.at({o}) : 0;
      double sizes = std::abs(sum);
      for (int64_t i = 0; i < x.size(1); ++i) {
        const double product = static_cast<double>(rows.data<float>()[r * x.size(1) + i]) *
                               weights.data<float>()[o * x.size(1) + i];
        sum += product;
        sizes += std::abs(product);
      }
      double expected = slow_activation(sum, activation);
      if (before.defined()) expected += before.at({r, o});
      ASSERT_NEAR(found.at({r, o}), expected, 1e-6 + rounding * std::abs(expected) + 1e-6 * sizes)
          << "row " << r << " of " << x.size(0) << ", " << x.size(1) << " inputs, output " << o;
    }
  }
}

// Every tail of a block of rows, inputs around multiples of 32, and panels that are not full.
TEST(Bf16Linear, IsTheSlowProduct) {
  constexpr Activation kActivations[] = {Activation::kNone,     Activation::kGelu, Activation::kQuickGelu,
                                         Activation::kGeluTanh, Activation::kRelu, Activation::kSilu};
  Workspace workspace(3);
  int round = 0;
  for (const Bf16Kernel& kernel : kernels_of_tiles()) {
    for (const int64_t inputs : {1, 2, 31, 32, 33, 64, 75, 130, 588}) {
      for (const int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 70}) {
        ++round;
        const int64_t outputs = round % 3 == 0 ? 64 : 1 + round * 37 % 150;
        const auto seed = static_cast<uint32_t>(round);
        const Tensor x = random_tensor({rows, inputs}, seed);
        const Tensor weight = random_tensor({outputs, inputs}, seed + 1000);
        const Tensor bias = round % 4 == 0 ? Tensor() : random_tensor({outputs}, seed + 2000);
        const Activation activation = kActivations[round % 6];
        const bool accumulate = round % 2 == 0;
        const DType result = round % 4 == 1 ? DType::kBF16 : DType::kF32;
        const Tensor before = accumulate ? random_tensor({rows, outputs}, seed + 3000) : Tensor();
        const Tensor out = accumulate ? before.clone() : Tensor::empty({rows, outputs}, result);
        const Bf16Linear linear(kernel, weight, bias, round % 5 == 0 ? &workspace : nullptr);
        linear.run(x.to(DType::kBF16), out, activation, accumulate);
        SCOPED_TRACE(kernel.name);
        ASSERT_NO_FATAL_FAILURE(expect_product(out, x, weight, bias, activation, before));
        const Tensor shared = accumulate ? before.clone() : Tensor::empty({rows, outputs}, result);
        linear.run(x.to(DType::kBF16).in(&workspace), shared, activation, accumulate);
        ASSERT_EQ(max_difference(shared, out), 0) << "depends on threads";
      }
    }
  }
}

TEST(Bf16Linear, ARowDoesNotDependOnTheOthers) {
  for (const Bf16Kernel& kernel : kernels_of_tiles()) {
    const Tensor x = random_tensor({49, 100}, 1).to(DType::kBF16);
    const Bf16Linear linear(kernel, random_tensor({70, 100}, 2), random_tensor({70}, 3));
    const Tensor all = Tensor::empty({49, 70});
    linear.run(x, all, Activation::kNone, false);
    for (const int64_t row : {0, 20, 48}) {
      const Tensor alone = Tensor::empty({1, 70});
      linear.run(x.slice(0, row, row + 1).contiguous(), alone, Activation::kNone, false);
      EXPECT_EQ(max_difference(alone[0], all[row]), 0) << kernel.name << ", row " << row;
    }
  }
}

// A value that is not finite makes its own row NaN, or its own output, and no other.
TEST(Bf16Linear, NaNIsNotHiddenAndDoesNotSpread) {
  for (const Bf16Kernel& kernel : kernels_of_tiles()) {
    Tensor x = random_tensor({20, 37}, 1);
    x[3].slice(0, 36, 37).fill(std::nanf(""));
    Tensor weight = random_tensor({66, 37}, 2);
    weight[65].slice(0, 0, 1).fill(std::nanf(""));
    const Tensor out = Tensor::empty({20, 66});
    Bf16Linear(kernel, weight, {}).run(x.to(DType::kBF16), out, Activation::kNone, false);
    for (int64_t r = 0; r < 20; ++r) {
      for (int64_t o = 0; o < 66; ++o) {
        EXPECT_EQ(std::isnan(out.at({r, o})), r == 3 || o == 65) << kernel.name << ' ' << r << ' ' << o;
      }
    }
  }
}

// The tiles' order of sums, by the instruction's definition: the first and the second number of all pairs have sums of their own,
// which begin at 0 and are added to the tile.
TEST(Bf16Tiles, SumInTheInstructionsOrder) {
  TileShapes shapes;
  shapes.set(0, 1, 4);
  shapes.set(1, 1, 8);
  shapes.set(2, 2, 4);
  EmulatedTiles tiles;
  tiles.shape(shapes);
  constexpr uint16_t kOne = 0x3f80;
  constexpr uint16_t kLarge = 0x4b80;  // 2^24: a sum of it and 1 is rounded to itself
  const uint16_t values[4] = {kLarge, kOne, 0xcb80, kOne};
  const uint16_t ones[4] = {kOne, kOne, kOne, kOne};
  const float start = 0.5F;
  float sum = 0;
  tiles.load<0>(&start, 4);
  tiles.load<1>(values, 8);
  tiles.load<2>(ones, 4);
  tiles.add_product<TileNumbers::kHalves, 0, 1, 2>();
  tiles.store<0>(&sum, 4);
  EXPECT_EQ(sum, 2.5F);  // one after the other it would be 1.5
}

// The check before the first use finds an error in each part of a product.
TEST(Bf16Kernels, DamagedOnesAreFound) {
  for (const Bf16Kernel& kernel : kernels_of_tiles()) EXPECT_TRUE(multiplies_exactly(kernel)) << kernel.name;
  using Multiply = void (*)(const Bf16PanelTask& task, int64_t first, int64_t last);
  constexpr Multiply kDamaged[] = {
      // without the last input, the first row, the last row, the last output; a row too many
      [](const Bf16PanelTask& task, int64_t first, int64_t last) {
        std::vector<uint16_t> weights(task.weights, task.weights + (task.inputs + 1) / 2 * 2 * kPanelOutputs);
        for (int64_t o = 0; o < kPanelOutputs; ++o) {
          weights[static_cast<size_t>(((task.inputs - 1) / 2 * kPanelOutputs + o) * 2 +
                                      (task.inputs - 1) % 2)] = 0;
        }
        Bf16PanelTask other = task;
        other.weights = weights.data();
        emulated_bf16_kernel().multiply(other, first, last);
      },
      [](const Bf16PanelTask& task, int64_t first, int64_t last) {
        emulated_bf16_kernel().multiply(task, first + 1, last);
      },
      [](const Bf16PanelTask& task, int64_t first, int64_t last) {
        emulated_bf16_kernel().multiply(task, first, last - 1);
      },
      [](const Bf16PanelTask& task, int64_t first, int64_t last) {
        Bf16PanelTask other = task;
        other.results.outputs = kPanelOutputs - 1;
        emulated_bf16_kernel().multiply(other, first, last);
      },
      [](const Bf16PanelTask& task, int64_t first, int64_t last) {
        emulated_bf16_kernel().multiply(task, first, std::min<int64_t>(last + 1, 35));
      },
  };
  for (const Multiply& damaged : kDamaged) {
    Bf16Kernel kernel = emulated_bf16_kernel();
    kernel.multiply = damaged;
    EXPECT_FALSE(multiplies_exactly(kernel)) << "damage " << &damaged - kDamaged;
  }
}

// Layers take the tiles where the processor has them, and give the same as oneDNN elsewhere.
TEST(Bf16Linear, IsWhatPackedLayersCompute) {
  SACCADE_NEEDS_BF16();
  const Tensor x = random_tensor({50, 130}, 1).to(DType::kBF16);
  const Tensor weight = random_tensor({96, 130}, 2);
  const Tensor bias = random_tensor({96}, 3);
  const Tensor packed = PackedLinear(weight, bias, DType::kBF16).forward(x, Activation::kGelu, DType::kF32);
  for (const Bf16Kernel& kernel : kernels_of_tiles()) {
    const Tensor ours = Tensor::empty({50, 96});
    Bf16Linear(kernel, weight, bias).run(x, ours, Activation::kGelu, false);
    EXPECT_LT(max_difference(ours, packed), 1e-4) << kernel.name;
  }
}

}  // namespace
}  // namespace saccade::nn
