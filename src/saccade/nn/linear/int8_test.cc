// Tests of 8-bit integer products against slow sums: every kernel of this processor, fuzzed shapes, outliers,
// values at the limits of float32.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/kernels/int8_packing.h"
#include "saccade/nn/kernels/int8_product_kernels.h"
#include "saccade/nn/linear/int8_linear.h"
#include "saccade/nn/linear/packed_linear.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::norm_of;
using test::random_tensor;
using test::slow_activation;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Returns the kernels of this processor, and those of tiles by emulation.
std::vector<Int8Kernels> tested_kernels() {
  std::vector<Int8Kernels> kernels(int8_kernels().begin(), int8_kernels().end());
  kernels.insert(kernels.begin(), emulated_int8_kernel());
  return kernels;
}

struct Quantized {
  int64_t groups = 0;
  std::vector<int8_t> low;
  std::vector<SecondDigits> high;
  std::vector<Int8Row> rows;

  [[nodiscard]] int second_digit(int64_t row, int64_t i) const {
    for (int32_t d = 0; d < rows[static_cast<size_t>(row)].second_digits; ++d) {
      const SecondDigits& digits = high[static_cast<size_t>(row * most_second_digits(groups) + d)];
      if (digits.group == i / 4) return digits.digits[i % 4];
    }
    return 0;
  }
  [[nodiscard]] int whole(int64_t row, int64_t i) const {
    return rows[static_cast<size_t>(row)].zero + low[static_cast<size_t>(row * groups * 4 + i)] +
           128 * second_digit(row, i);
  }
};

Quantized quantize(const Int8Kernels& kernel, const Tensor& x) {
  const int64_t rows = x.size(0);
  Quantized result;
  result.groups = (x.size(1) + 3) / 4;
  result.low.assign(static_cast<size_t>(rows * result.groups * 4), 99);
  result.high.resize(static_cast<size_t>(rows * most_second_digits(result.groups)));
  result.rows.resize(static_cast<size_t>(rows));
  const std::vector<float> factors(static_cast<size_t>(x.size(1)), 1);
  QuantizeTask task;
  task.factors = factors.data();
  task.width = x.size(1);
  task.groups = result.groups;
  task.x = x.raw();
  task.halves = x.dtype() == DType::kBF16;
  task.low = result.low.data();
  task.high = result.high.data();
  task.rows = result.rows.data();
  kernel.quantize(task, 0, rows);
  return result;
}

// Returns normally distributed values; in each row some are `factor` times as large.
Tensor with_outliers(const Shape& shape, uint32_t seed, float factor, int64_t count) {
  Tensor x = random_tensor(shape, seed);
  std::minstd_rand random(seed + 1);
  const int64_t width = shape.back();
  for (int64_t row = 0; row < x.numel() / width; ++row) {
    for (int64_t i = 0; i < count; ++i) {
      x.data<float>()[row * width + static_cast<int64_t>(random() % static_cast<uint32_t>(width))] *= factor;
    }
  }
  return x;
}

TEST(Int8Kernels, RowsAreTheirDigits) {
  for (const Int8Kernels& kernel : int8_kernels()) {
    for (const int64_t width : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 130, 768, 770}) {
      for (const float factor : {0.F, 1.F, 30.F, 1000.F, 1e6F}) {
        for (const bool one_sided : {false, true}) {
          Tensor x = with_outliers({5, width}, static_cast<uint32_t>(width), factor, 1 + width / 200);
          for (float& value : x.floats()) value = one_sided ? std::max(value, -0.1F) : value;
          const DType dtype = factor == 30 ? DType::kBF16 : DType::kF32;
          x = x.to(dtype);
          const Quantized ours = quantize(kernel, x);
          for (int64_t row = 0; row < 5; ++row) {
            const Int8Row& about = ours.rows[static_cast<size_t>(row)];
            int low_sum = 0;
            int high_sum = 0;
            for (int64_t i = 0; i < width; ++i) {
              EXPECT_NEAR(static_cast<double>(about.scale) * ours.whole(row, i), x.at({row, i}),
                          about.scale * 0.502)
                  << kernel.name << ", " << width << ", " << factor << ", " << i;
              low_sum += ours.low[static_cast<size_t>(row * ours.groups * 4 + i)];
              high_sum += ours.second_digit(row, i);
            }
            for (int64_t i = width; i < 4 * ours.groups; ++i) {
              EXPECT_EQ(ours.low[static_cast<size_t>(row * ours.groups * 4 + i)], 0);
            }
            EXPECT_EQ(about.low_sum, low_sum);
            EXPECT_EQ(about.high_sum, high_sum);
            EXPECT_LE(about.second_digits, most_second_digits(ours.groups));
          }
        }
      }
    }
  }
}

// Four channels a hundred times as large as the rest do not coarsen the scale.
TEST(Int8Kernels, OutliersDoNotCoarsenTheScale) {
  for (const Int8Kernels& kernel : int8_kernels()) {
    const Quantized plain = quantize(kernel, with_outliers({8, 768}, 5, 1, 0));
    const Quantized far = quantize(kernel, with_outliers({8, 768}, 5, 100, 4));
    for (size_t row = 0; row < 8; ++row) {
      EXPECT_LT(far.rows[row].scale, 1.25F * plain.rows[row].scale) << kernel.name;
      EXPECT_GE(far.rows[row].second_digits, 1);
    }
  }
}

// The output of an activation lies on one side of 0. Its scale is as fine as for a two-sided row, and it
// reaches twice as far.
TEST(Int8Kernels, RowsOfOneSideNeedFewSecondDigits) {
  Tensor x = random_tensor({8, 3072}, 17);
  for (float& value : x.floats()) {
    value = static_cast<float>(slow_activation(value, Activation::kQuickGelu));
  }
  const Tensor both = x.clone();
  for (int64_t i = 0; i < both.numel(); i += 2) both.data<float>()[i] *= -1;
  for (const Int8Kernels& kernel : int8_kernels()) {
    const Quantized ours = quantize(kernel, x);
    const Quantized other = quantize(kernel, both);
    for (size_t row = 0; row < 8; ++row) {
      EXPECT_GT(ours.rows[row].zero, 80) << kernel.name;
      EXPECT_LT(ours.rows[row].second_digits, 9) << kernel.name;
      EXPECT_GT(other.rows[row].second_digits, 10) << kernel.name;
      EXPECT_LE(ours.rows[row].scale, 1.001F * other.rows[row].scale) << kernel.name;
    }
  }
}

TEST(Int8Kernels, RowsAtTheEndsOfFloat32) {
  const float largest = std::numeric_limits<float>::max();
  for (const Int8Kernels& kernel : int8_kernels()) {
    for (const int64_t width : {7, 64}) {
      for (const int64_t place : {int64_t{0}, width - 1}) {
        for (const float bad : {kNaN, kInfinity, -kInfinity}) {
          Tensor x = random_tensor({1, width}, 3);
          x.data<float>()[place] = bad;
          EXPECT_TRUE(std::isnan(quantize(kernel, x).rows[0].scale)) << kernel.name << bad << width;
        }
        for (const float one : {1e-38F, 1e-20F, 1e20F, 1e38F, largest / 4}) {
          Tensor x = Tensor::zeros({1, width});
          x.data<float>()[place] = one;
          const Quantized ours = quantize(kernel, x);
          EXPECT_NEAR(static_cast<double>(ours.rows[0].scale) * ours.whole(0, place), one,
                      one < 1e-30F ? one : one * 0.005)
              << kernel.name << width;
        }
      }
      EXPECT_EQ(quantize(kernel, Tensor::zeros({1, width})).rows[0].scale, 0);
    }
  }
}

constexpr Activation kActivations[] = {Activation::kNone,     Activation::kGelu, Activation::kQuickGelu,
                                       Activation::kGeluTanh, Activation::kRelu, Activation::kSilu};

// Sets the inputs of a task; borrowed.
void read_from(const Quantized& rows, const std::vector<uint8_t>& panel, const std::vector<int32_t>& sums,
               const std::vector<float>& scales, const std::vector<float>& bias, Int8PanelTask& task) {
  task.groups = rows.groups;
  task.weights = panel.data();
  task.sums = sums.data();
  task.scales = scales.data();
  task.results.bias = bias.data();
  task.low = rows.low.data();
  task.high = rows.high.data();
  task.rows = rows.rows.data();
}

// Integer inputs and one panel, against 64-bit sums.
TEST(Int8Kernels, PanelsAreTheSlowSums) {
  std::minstd_rand random(11);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random()) % end; };
  for (const Int8Kernels& kernel : tested_kernels()) {
    for (int round = 0; round < 60; ++round) {
      const int64_t rows = 1 + below(round % 5 == 0 ? 80 : 20);
      const int64_t width = 1 + below(round % 10 == 0 ? 4000 : 300);
      const int64_t outputs = round % 3 == 0 ? kPanelOutputs : 1 + below(kPanelOutputs);
      const bool worst = round % 7 == 0;  // the largest sums there can be
      Tensor x = worst ? Tensor::full({rows, width}, -3)
                       : with_outliers({rows, width}, static_cast<uint32_t>(round), 50, width / 100);
      if (round % 4 == 1) {
        for (float& value : x.floats()) value = std::abs(value);
      }
      const Quantized quantized = quantize(int8_kernels().back(), x);
      std::vector<uint8_t> panel(static_cast<size_t>(quantized.groups * 4 * kPanelOutputs), 255);
      if (!worst) {
        for (uint8_t& weight : panel) weight = static_cast<uint8_t>(1 + below(255));
      }
      std::vector<float> scales(kPanelOutputs), bias(kPanelOutputs);
      for (size_t c = 0; c < kPanelOutputs; ++c) {
        scales[c] = 1e-5F * static_cast<float>(1 + below(1000));
        bias[c] = 0.001F * static_cast<float>(below(1000)) - 0.5F;
      }
      std::vector<int32_t> sums(kPanelOutputs);
      for (size_t at = 0; at < panel.size(); ++at) {
        const auto input = static_cast<int64_t>(at / (4 * kPanelOutputs) * 4 + at % 4);
        if (input < width) sums[at / 4 % kPanelOutputs] += panel[at] - 128;  // padding does not count
      }
      Int8PanelTask task;
      read_from(quantized, panel, sums, scales, bias, task);
      task.results.activation = kActivations[round % 6];
      task.results.accumulate = round % 2 == 0;
      task.results.halves = round % 4 == 3;
      task.results.outputs = outputs;
      task.results.out_stride = outputs + 3;
      const Tensor out = random_tensor({rows, task.results.out_stride}, static_cast<uint32_t>(round))
                             .to(task.results.halves ? DType::kBF16 : DType::kF32);
      const Tensor before = out.clone();
      task.results.out = out.raw();
      const int64_t first = below(rows);
      kernel.multiply(task, first, rows);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < task.results.out_stride; ++c) {
          if (r < first || c >= outputs) {
            EXPECT_EQ(out.at({r, c}), before.at({r, c})) << "written beside the results";
            continue;
          }
          int64_t sum = 0;
          double sizes = 0;
          for (int64_t i = 0; i < width; ++i) {
            const int64_t weight = panel[static_cast<size_t>((i / 4 * kPanelOutputs + c) * 4 + i % 4)] - 128;
            sum += quantized.whole(r, i) * weight;
            sizes += static_cast<double>(std::abs(quantized.whole(r, i) * weight));
          }
          const double scale = static_cast<double>(quantized.rows[static_cast<size_t>(r)].scale) *
                               scales[static_cast<size_t>(c)];
          double expected = slow_activation(static_cast<double>(sum) * scale + bias[static_cast<size_t>(c)],
                                            task.results.activation);
          if (task.results.accumulate) expected += before.at({r, c});
          const double rounding = task.results.halves ? 1.0 / 256 : 1e-6;
          EXPECT_NEAR(out.at({r, c}), expected, 2e-6 + rounding * std::abs(expected) + 1e-6 * sizes * scale)
              << kernel.name << ", round " << round << ", row " << r << ", output " << c;
        }
      }
    }
  }
}

// Every tail of a block of rows, and groups of inputs around multiples of 16. With a bias or an activation the last bit
// depends on whether a product and a sum are rounded once or twice.
TEST(Int8Kernels, AllHaveTheSameSums) {
  for (const int64_t width : {1, 63, 64, 65, 130, 588, 1152}) {
    const int64_t rows = 49;
    const Quantized quantized =
        quantize(int8_kernels().back(), with_outliers({rows, width}, static_cast<uint32_t>(width), 70, 2));
    std::minstd_rand random(static_cast<uint32_t>(width));
    std::vector<uint8_t> panel(static_cast<size_t>(quantized.groups * 4 * kPanelOutputs));
    for (uint8_t& weight : panel) weight = static_cast<uint8_t>(random());
    const std::vector<float> scales(kPanelOutputs, 0.001F);
    const std::vector<float> bias(kPanelOutputs, 0);
    const std::vector<int32_t> sums(kPanelOutputs, 77);
    for (int64_t count = 1; count <= rows; count += count == 40 ? 8 : 1) {
      std::vector<float> expected;
      for (const Int8Kernels& kernel : tested_kernels()) {
        std::vector<float> out(static_cast<size_t>(rows * kPanelOutputs));
        Int8PanelTask task;
        read_from(quantized, panel, sums, scales, bias, task);
        task.results.out = out.data();
        task.results.out_stride = kPanelOutputs;
        kernel.multiply(task, rows - count, rows);
        if (expected.empty()) expected = out;
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
            << kernel.name << ": " << count << " rows of " << width;
      }
    }
  }
}

// The check before the first use of tiles finds an error in each part of a product.
TEST(Int8Kernels, DamagedOnesAreFound) {
  const Int8Kernels& portable = int8_kernels().back();
  for (const Int8Kernels& kernel : tested_kernels()) {
    EXPECT_TRUE(multiply_alike(kernel, portable)) << kernel.name;
  }
  using Multiply = decltype(Int8Kernels::multiply);
  const Multiply damaged[] = {[](const Int8PanelTask& task, int64_t first, int64_t last) {
                                std::vector<Int8Row> rows(task.rows, task.rows + last);
                                for (Int8Row& row : rows) row.second_digits = 0;
                                Int8PanelTask without = task;
                                without.rows = rows.data();
                                int8_kernels().back().multiply(without, first, last);
                              },
                              [](const Int8PanelTask& task, int64_t first, int64_t last) {
                                if (last - first > 16) int8_kernels().back().multiply(task, first, last);
                              },
                              [](const Int8PanelTask& task, int64_t first, int64_t last) {
                                if (last - first <= 16 || last - first > 32)
                                  int8_kernels().back().multiply(task, first, last);
                              },
                              [](const Int8PanelTask& task, int64_t first, int64_t last) {
                                int8_kernels().back().multiply(task, first,
                                                               std::min<int64_t>(last, first + 33));
                              },
                              [](const Int8PanelTask& task, int64_t first, int64_t last) {
                                if (task.groups % 16 == 0) int8_kernels().back().multiply(task, first, last);
                              },
                              [](const Int8PanelTask& task, int64_t first, int64_t last) {
                                if (task.groups % 16 != 0) int8_kernels().back().multiply(task, first, last);
                              }};
  for (size_t i = 0; i < std::size(damaged); ++i) {
    Int8Kernels kernel = portable;
    kernel.multiply = damaged[i];
    EXPECT_FALSE(multiply_alike(portable, kernel)) << i;
  }
}

// Every row is in one chunk. Chunks of kernels by tiles begin at whole blocks, and those of others divide the rows evenly.
TEST(Int8Kernels, ChunksHaveWholeBlocks) {
  const Int8Kernels& tiles = emulated_int8_kernel();
  const Int8Kernels& portable = int8_kernels().back();
  ASSERT_EQ(tiles.blocks.rows, 32);
  for (const int64_t row_bytes : {4, 768, 3072, 4096, 65'536}) {
    for (int64_t rows = 1; rows < 20'000; rows += 1 + rows / 3) {
      for (const Int8Kernels& kernel : {tiles, portable}) {
        const RowChunks chunks(kernel.blocks, rows, row_bytes);
        ASSERT_GE(chunks.count(), 1);
        EXPECT_EQ(chunks.first(0), 0);
        EXPECT_EQ(chunks.first(chunks.count()), rows);
        int64_t most = 0;
        for (int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
          EXPECT_EQ(chunks.first(chunk) % kernel.blocks.rows, 0);
          ASSERT_LT(chunks.first(chunk), chunks.first(chunk + 1)) << rows << " rows of " << row_bytes;
          most = std::max(most, chunks.first(chunk + 1) - chunks.first(chunk));
        }
        EXPECT_LE(most, chunks.most_rows());
        EXPECT_LT((most - kernel.blocks.rows) * row_bytes, kernel.blocks.chunk_bytes);
      }
      const RowChunks even(portable.blocks, rows, row_bytes);
      for (int64_t chunk = 0; chunk < even.count(); ++chunk) {
        EXPECT_EQ(even.first(chunk), rows * chunk / even.count());
      }
    }
  }
  // 75 rows would be two whole blocks and 11 rows.
  EXPECT_EQ(RowChunks(portable.blocks, 600, 3072).first(1), 75);
  const RowBlocks small = {tiles.blocks.rows, portable.blocks.chunk_bytes};
  EXPECT_EQ(RowChunks(small, 600, 3072).first(1), 64);
}

// Multiplies a row of zeros by one panel, so the result is the bias. task: its output and how it is finished.
void multiply_nothing(const Int8Kernels& kernel, const std::vector<float>& bias, Int8PanelTask task) {
  const Quantized nothing = quantize(kernel, Tensor::zeros({1, 4}));
  const std::vector<uint8_t> panel(4 * kPanelOutputs, 129);
  const std::vector<float> scales(kPanelOutputs, 1);
  const std::vector<int32_t> sums(kPanelOutputs, 4);
  read_from(nothing, panel, sums, scales, bias, task);
  task.results.out_stride = kPanelOutputs;
  kernel.multiply(task, 0, 1);
}

TEST(Int8Kernels, ActivationsHoldOverTheirWholeRange) {
  for (const Int8Kernels& kernel : int8_kernels()) {
    for (const Activation activation : kActivations) {
      std::vector<float> bias(kPanelOutputs);
      for (int c = 0; c < kPanelOutputs; ++c)
        bias[static_cast<size_t>(c)] = std::exp2(0.25F * static_cast<float>(c) - 8);
      for (const float sign : {-1.F, 1.F}) {
        for (float& value : bias) value = sign * std::abs(value);
        std::vector<float> out(kPanelOutputs);
        Int8PanelTask task;
        task.results.activation = activation;
        task.results.out = out.data();
        multiply_nothing(kernel, bias, task);
        for (size_t c = 0; c < kPanelOutputs; ++c) {
          const double expected = slow_activation(bias[c], activation);
          EXPECT_NEAR(out[c], expected, 1e-6 + 1e-6 * std::abs(expected)) << kernel.name << bias[c];
        }
      }
    }
  }
}

Tensor slow_product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Tensor out = Tensor::empty({x.size(0), weight.size(0)});
  for (int64_t r = 0; r < x.size(0); ++r) {
    for (int64_t o = 0; o < weight.size(0); ++o) {
      double sum = bias.defined() ? bias.data<float>()[o] : 0;
      for (int64_t i = 0; i < x.size(1); ++i) {
        sum +=
            static_cast<double>(x.data<float>()[r * x.size(1) + i]) * weight.data<float>()[o * x.size(1) + i];
      }
      out.data<float>()[r * weight.size(0) + o] = static_cast<float>(sum);
    }
  }
  return out;
}

Tensor difference(const Tensor& a, const Tensor& b) {
  return a + b * -1.0;
}

// Quantization error of 8 bits for normally distributed values: about 0.8 % of the norm on each side, and no
// more with outliers. A few results may be small by chance, so many draws are combined.
TEST(Int8Linear, IsNearTheFloatProduct) {
  Workspace workspace(3);
  for (const int64_t rows : {1, 7, 130}) {
    for (const int64_t in : {5, 37, 256, 1030}) {
      for (const int64_t out : {1, 29, 64, 200}) {
        for (const float factor : {1.F, 100.F}) {
          const uint32_t draws = rows * out < 29 ? 16 : 1;
          double lost = 0;
          double length = 0;
          for (uint32_t draw = 0; draw < draws; ++draw) {
            const auto seed = static_cast<uint32_t>(rows + in + out) + 1000 * draw;
            const Tensor x = with_outliers({rows, in}, seed, factor, in / 150);
            const Tensor weight = random_tensor({out, in}, seed + 1, 0.05F);
            const Tensor bias = random_tensor({out}, seed + 2, 0.1F);
            const Tensor expected = slow_product(x, weight, bias);
            const PackedLinear layer(weight, bias, DType::kI8);
            EXPECT_EQ(layer.dtype(), DType::kF32);
            const Tensor ours = layer.forward(x, Activation::kNone, DType::kF32);
            lost += std::pow(norm_of(difference(ours, expected)), 2);
            length += std::pow(norm_of(expected), 2);
            EXPECT_EQ(max_difference(layer.forward(x.in(&workspace), Activation::kNone, DType::kF32), ours),
                      0);
            const Tensor sum = random_tensor({rows, out}, seed + 3);
            const Tensor whole = sum + ours;
            layer.add_to(sum, x);
            EXPECT_LT(max_difference(sum, whole), 1e-5);
          }
          EXPECT_LT(std::sqrt(lost), 0.02 * std::sqrt(length) + 1e-4)
              << rows << " x " << in << " x " << out << ", " << factor;
        }
      }
    }
  }
}

// bfloat16 input and output equal rounding before and after.
TEST(Int8Linear, TakesAndGivesHalves) {
  Workspace workspace(3);
  const Tensor weight = random_tensor({200, 300}, 1, 0.05F);
  const PackedLinear layer(weight, random_tensor({200}, 2), DType::kI8);
  const Tensor x = with_outliers({37, 300}, 3, 40, 2).to(DType::kBF16);
  ASSERT_TRUE(layer.takes(DType::kBF16) && layer.takes(DType::kF32));
  const Tensor expected = layer.forward(x.to(DType::kF32), Activation::kNone, DType::kF32);
  EXPECT_EQ(max_difference(layer.forward(x, Activation::kNone, DType::kF32), expected), 0);
  const Tensor halves = layer.forward(x.in(&workspace), Activation::kNone, layer.attended(DType::kF32));
  ASSERT_EQ(halves.dtype(), DType::kBF16);
  EXPECT_EQ(max_difference(halves, expected.to(DType::kBF16)), 0);
}

// NaN of any bit pattern, on any processor: damaged weights are often NaN with all bits set.
TEST(Int8Kernels, NaNIsOneInHalvesToo) {
  for (const Int8Kernels& kernel : int8_kernels()) {
    std::vector<float> bias(kPanelOutputs, 1);
    const uint32_t bits[] = {0xffffffff, 0x7fffffff, 0xffffe000, 0x7fc00000, 0x7f800001};
    for (size_t i = 0; i < std::size(bits); ++i) std::memcpy(&bias[i], &bits[i], sizeof bits[i]);
    const Tensor out = Tensor::zeros({1, kPanelOutputs}, DType::kBF16);
    Int8PanelTask task;
    task.results.halves = true;
    task.results.out = out.raw();
    multiply_nothing(kernel, bias, task);
    for (int64_t c = 0; c < kPanelOutputs; ++c) {
      EXPECT_EQ(std::isnan(out.at({0, c})), c < std::ssize(bits)) << kernel.name << ", output " << c;
    }
  }
}

// Inputs a hundred times as large as the rest, with correspondingly small weights: all are equally precise.
TEST(Int8Linear, LargeInputsOfSmallWeightsAreAsExact) {
  Tensor x = random_tensor({50, 256}, 31);
  Tensor weight = random_tensor({96, 256}, 32, 0.1F);
  for (const int64_t input : {3, 100, 255}) {
    for (int64_t row = 0; row < 50; ++row) x.data<float>()[row * 256 + input] *= 100;
    for (int64_t output = 0; output < 96; ++output) weight.data<float>()[output * 256 + input] /= 100;
  }
  const Tensor expected = slow_product(x, weight, {});
  const Tensor ours = Tensor::empty({50, 96});
  Int8Linear(weight, {}).run(x, ours, Activation::kNone, false);
  EXPECT_LT(norm_of(difference(ours, expected)), 0.02 * norm_of(expected));
}

// Pruned or dead channels have zero weights, and sometimes values of any magnitude.
TEST(Int8Linear, InputsOfNoWeightCountNothing) {
  Tensor x = random_tensor({50, 256}, 41);
  Tensor weight = random_tensor({96, 256}, 42, 0.1F);
  const Tensor bias = random_tensor({96}, 43);
  for (const int64_t input : {0, 100, 101, 102, 103, 255}) {
    for (int64_t row = 0; row < 50; ++row)
      x.data<float>()[row * 256 + input] = 1e9F * static_cast<float>(row);
    for (int64_t output = 0; output < 96; ++output) weight.data<float>()[output * 256 + input] = 0;
  }
  const Tensor expected = slow_product(x, weight, bias);
  const Tensor ours = Tensor::empty({50, 96});
  Int8Linear(weight, bias).run(x, ours, Activation::kNone, false);
  EXPECT_LT(norm_of(difference(ours, expected)), 0.02 * norm_of(expected));
  // The same holds for inputs of zeros, or a layer of zeros.
  const Tensor nothing = Tensor::zeros({96, 256});
  Int8Linear(nothing, bias).run(x, ours, Activation::kNone, false);
  for (int64_t output = 0; output < 96; ++output) EXPECT_EQ(ours.at({49, output}), bias.at({output}));
  Int8Linear(weight, bias).run(Tensor::zeros({50, 256}), ours, Activation::kNone, false);
  for (int64_t output = 0; output < 96; ++output) EXPECT_EQ(ours.at({49, output}), bias.at({output}));
}

TEST(Int8Linear, RowsDependOnNobodyElse) {
  Workspace one(1);
  Workspace four(4);
  for (const int64_t in : {64, 300, 3072}) {
    const Int8Linear layer(random_tensor({200, in}, 7), random_tensor({200}, 8));
    const Tensor x = with_outliers({211, in}, 9, 60, in / 100);
    const Tensor all = Tensor::empty({211, 200});
    layer.run(x.in(&four), all, Activation::kGelu, false);
    for (int64_t first = 0; first < 211; first += 1 + first) {
      const int64_t last = std::min<int64_t>(211, 2 * first + 1);
      const Tensor some = Tensor::empty({last - first, 200});
      layer.run(x.slice(0, first, last).in(&one), some, Activation::kGelu, false);
      EXPECT_EQ(max_difference(some, all.slice(0, first, last)), 0) << first;
    }
  }
}

// Against the definition in double, and all packers against each other, to the bit.
TEST(Int8Packers, PackTheNearestNumbers) {
  std::minstd_rand random(5);
  for (int64_t in = 1; in < 200; in += in < 40 ? 1 : 31) {
    for (const float size : {1e-44F, 1e-38F, 1e-6F, 1.F, 3e37F}) {
      const Tensor weights = random_tensor({1, in}, static_cast<uint32_t>(in), size);
      const float* w = weights.data<float>();
      std::vector<float> factors(static_cast<size_t>(in));
      for (float& factor : factors) factor = std::exp2(-14 * static_cast<float>(random() % 1000) / 999);
      double largest = 0;
      double far = 0;
      for (int64_t i = 0; i < in; ++i) {
        largest = std::max<double>(largest, std::abs(w[i]));
        far = std::max(far, std::abs(static_cast<double>(w[i])) / factors[static_cast<size_t>(i)]);
      }
      const auto groups = static_cast<size_t>((in + 3) / 4);
      std::vector<uint8_t> before;
      std::vector<double> squares_before;
      for (const Int8Packer& packer : int8_packers()) {
        std::vector<double> squares(static_cast<size_t>(in), 1);
        ASSERT_EQ(packer.weigh(w, in, squares.data()), static_cast<float>(largest)) << packer.name;
        std::vector<uint8_t> panel(groups * 4 * kPanelOutputs, 77);
        std::vector<float> scratch(static_cast<size_t>(in));
        const float scale = packer.quantize(w, factors.data(), in, static_cast<float>(largest),
                                            scratch.data(), panel.data() + 4);
        if (far > 0 && far / 127 < 3e38) {
          EXPECT_NEAR(scale, far / 127, far / 127 * 1e-6 + 1e-45) << packer.name;
        }
        std::vector<uint8_t> expected_beside(panel.size(), 77);
        for (int64_t i = 0; i < in; ++i) {
          const auto place = static_cast<size_t>(i / 4 * 4 * kPanelOutputs + 4 + i % 4);
          expected_beside[place] = panel[place];
          if (far > 0) {
            EXPECT_NEAR(panel[place] - 128.,
                        127 * (static_cast<double>(w[i]) / factors[static_cast<size_t>(i)] / far), 0.501)
                << packer.name << ", " << in << ", " << size;
            const double part = w[i] / static_cast<float>(largest);
            EXPECT_EQ(squares[static_cast<size_t>(i)], 1 + part * part);
          }
        }
        EXPECT_EQ(panel, expected_beside) << "written beside its place";
        if (!before.empty()) {
          EXPECT_EQ(panel, before) << packer.name;
          EXPECT_EQ(squares, squares_before) << packer.name;
        }
        before = panel;
        squares_before = squares;
      }
    }
  }
}

TEST(Int8Packers, SayWhatIsNotANumber) {
  for (const Int8Packer& packer : int8_packers()) {
    for (const int64_t place : {0, 17, 36}) {
      for (const float bad : {kNaN, kInfinity, -kInfinity}) {
        Tensor weights = random_tensor({1, 37}, 3);
        weights.data<float>()[place] = bad;
        std::vector<double> squares(37, 5);
        EXPECT_TRUE(std::isnan(packer.weigh(weights.data<float>(), 37, squares.data()))) << packer.name;
        EXPECT_EQ(squares, std::vector<double>(37, 5)) << "counted among the others";
      }
    }
  }
}

TEST(Int8Linear, PacksTheSameOnAnyThreads) {
  Workspace four(4);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor weight = random_tensor({333, 130}, 7, 0.1F).to(dtype);
    const Tensor x = with_outliers({20, 130}, 9, 60, 1);
    const Tensor one = Tensor::empty({20, 333});
    const Tensor many = Tensor::empty({20, 333});
    Int8Linear(weight, {}).run(x, one, Activation::kNone, false);
    Int8Linear(weight, {}, &four).run(x, many, Activation::kNone, false);
    EXPECT_EQ(max_difference(one, many), 0);
  }
}

TEST(Int8Linear, WeightsAtTheEndsOfFloat32) {
  Tensor weight = random_tensor({6, 40}, 1);
  const auto row = [&](int64_t output) { return weight.slice(0, output, output + 1).floats(); };
  for (float& value : row(0)) value = 0;
  row(1)[5] = kNaN;
  row(2)[39] = -kInfinity;
  for (float& value : row(3)) value *= 1e37F;
  for (float& value : row(4)) value *= 1e-38F;
  const Tensor bias = Tensor::of(std::vector<float>{0.25F, 0, 0, 0, 0, 1}, {6});
  const Tensor x = random_tensor({3, 40}, 2);
  const Tensor expected = slow_product(x, weight, bias);
  const Tensor ours = Tensor::empty({3, 6});
  Int8Linear(weight, bias).run(x, ours, Activation::kNone, false);
  for (int64_t r = 0; r < 3; ++r) {
    EXPECT_EQ(ours.at({r, 0}), 0.25);
    EXPECT_TRUE(std::isnan(ours.at({r, 1})));
    EXPECT_TRUE(std::isnan(ours.at({r, 2})));
    EXPECT_NEAR(ours.at({r, 3}), expected.at({r, 3}), 1e36);
    EXPECT_NEAR(ours.at({r, 4}), expected.at({r, 4}), 1e-38);
    EXPECT_NEAR(ours.at({r, 5}), expected.at({r, 5}), 0.2);
  }
  // A row that is not finite does not affect other rows.
  Tensor bad = x.clone();
  bad.slice(0, 1, 2).floats()[3] = kInfinity;
  const Tensor beside = Tensor::empty({3, 6});
  Int8Linear(weight, bias).run(bad, beside, Activation::kNone, false);
  EXPECT_EQ(beside.at({2, 5}), ours.at({2, 5}));
  EXPECT_TRUE(std::isnan(beside.at({1, 5})));
}

TEST(Int8Linear, TakesNoRows) {
  const PackedLinear layer(Tensor::full({4, 3}, 1), {}, DType::kI8);
  EXPECT_EQ(layer.forward(Tensor::empty({0, 3}), Activation::kNone, DType::kF32).sizes(), (Shape{0, 4}));
}

}  // namespace
}  // namespace saccade::nn
