// Quantization of rows to 8 bits: the task of a kernel, and what it writes.
#pragma once

#include <cstdint>

namespace saccade::nn {

// Maximum number of inputs; sums over more could overflow 32 bits.
inline constexpr int64_t kMostInt8Inputs = 65'536;

struct SecondDigits {
  int32_t group = 0;
  int8_t digits[4] = {0, 0, 0, 0};
};

struct Int8Row {
  float scale = 0;  // NaN where a value of the row was not finite: all its results are NaN
  int32_t low_sum = 0;
  int32_t high_sum = 0;
  int32_t second_digits = 0;  // number of groups with a second digit
  int32_t zero = 0;           // in [-127, 127]
};

struct QuantizeTask {
  int64_t width = 0;
  int64_t groups = 0;              // groups of four inputs: (width + 3) / 4
  const void* x = nullptr;         // [rows, width]
  bool halves = false;             // x is bfloat16, not float32
  const float* factors = nullptr;  // [width], 0 or more: what is quantized is x * factors
  int8_t* low = nullptr;           // [rows, groups, 4]
  SecondDigits* high = nullptr;    // [rows, most_second_digits(groups)]
  Int8Row* rows = nullptr;
};
// Returns the maximum number of outlier groups; a row with more gets a coarser scale.
constexpr int64_t most_second_digits(int64_t groups) {
  return 4 + groups / 16;
}

}  // namespace saccade::nn
