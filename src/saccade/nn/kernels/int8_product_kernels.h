// Products of 8-bit integers, and what turns float32 into them and back.
//
// A row x of activations, times factors of its inputs, is scale * (zero + low + 128 * high), both digits
// whole numbers of 8 bits; the scale is the row's own, and so is `zero`, which puts a row that reaches far to
// one side alone (that of an activation) into the middle of what 8 bits can say. Nearly all values need no
// second digit: it is kept, and multiplied, only for the few groups of four inputs that hold one that is far
// larger than the row's others (the outlier channels of transformers: Dettmers et al. 2022, "LLM.int8()",
// section 3). So these are as exact as the others, and cost no digit of theirs.
//
// Weights are 8 bits with a scale for each output, kept + 128 without sign, as the processors' instructions
// multiply numbers with a sign by ones without; what that adds is known from the row's sum and taken away.
// What `zero` adds is known from the sums of the weights. Sums are whole numbers of 32 bits, exact: all
// kernels agree to the bit in them, in whatever order they sum.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"
#include "saccade/nn/activation.h"

namespace saccade::nn {

// Outputs of one panel of weights: [groups][kPanelOutputs][4], inputs four by four, filled up with 128s.
inline constexpr int64_t kPanelOutputs = 64;
// More inputs than this could outgrow 32 bits.
inline constexpr int64_t kMostInt8Inputs = 65'536;

struct SecondDigits {
  int32_t group = 0;
  int8_t digits[4] = {0, 0, 0, 0};
};

struct Int8Row {
  float scale = 0;  // NaN where a value of the row was not finite: all its results are NaN
  int32_t low_sum = 0;
  int32_t high_sum = 0;
  int32_t second_digits = 0;  // how many groups have them
  int32_t zero = 0;           // in [-127, 127]
};

struct QuantizeTask {
  int64_t width = 0;
  int64_t groups = 0;              // of four inputs: (width + 3) / 4
  const void* x = nullptr;         // [rows, width]
  bool halves = false;             // x is bfloat16, not float32
  const float* factors = nullptr;  // [width], 0 or more: what is quantized is x * factors
  int8_t* low = nullptr;           // [rows, groups, 4]
  SecondDigits* high = nullptr;    // [rows, most_second_digits(groups)]
  Int8Row* rows = nullptr;
};
// A row with more outliers than this gets a coarser scale.
constexpr int64_t most_second_digits(int64_t groups) {
  return 4 + groups / 16;
}

// One panel's outputs of some rows.
struct Int8PanelTask {
  int64_t groups = 0;
  const uint8_t* weights = nullptr;  // the panel
  const int32_t* sums = nullptr;     // [kPanelOutputs], of each output's weights
  const float* scales = nullptr;     // [kPanelOutputs], of the weights
  const float* bias = nullptr;       // [kPanelOutputs]
  const int8_t* low = nullptr;
  const SecondDigits* high = nullptr;
  const Int8Row* rows = nullptr;
  Activation activation = Activation::kNone;
  bool accumulate = false;  // the results are added to `out`, which then is float32
  bool halves = false;      // `out` is bfloat16, not float32
  void* out = nullptr;      // the first row's first output of the panel
  int64_t out_stride = 0;
  int64_t outputs = kPanelOutputs;  // fewer in a last panel
};

// Rows [first, last) of either.
struct Int8Kernels {
  std::string_view name;  // "avx512_vnni", "avx_vnni", "avx2", "portable"
  CpuLevel level = CpuLevel::kPortable;
  void (*quantize)(const QuantizeTask& task, int64_t first, int64_t last) = nullptr;
  void (*multiply)(const Int8PanelTask& task, int64_t first, int64_t last) = nullptr;
};

// Those this processor can run, fastest first; the last is always "portable".
std::span<const Int8Kernels> int8_kernels();
// Returns the one that layers compute with: the fastest.
const Int8Kernels& int8_kernel();

}  // namespace saccade::nn
