// Quantization from float32 to 8 bits, as templates over vector widths. Used only by int8_product_kernels.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "saccade/core/half.h"
#include "saccade/nn/kernels/int8_quantize_task.h"
#include "saccade/nn/kernels/lanes.h"

namespace saccade::nn {

// Largest distance of a value from the middle, in steps. The middle is rounded to a whole number of steps, at
// most half a step off, so the farthest value is at most 127 steps away.
inline constexpr float kMostDigit = 126.5F;
// Largest distance with two digits: the second digit is at most 127, low is then at most 64, and the middle
// is at most 127 from 0.
inline constexpr float kMostTwoDigits = 127 * 128 + 63 - 128;
// Largest distance from the middle without a second digit, as a multiple of the mean absolute value. The mean
// excludes values farther away than kTrimmed times it. One in 2,000 normally distributed values (mean 0.8
// standard deviations) exceeds this distance.
inline constexpr float kReach = 4.4F;
inline constexpr float kTrimmed = 6;

// Loads values multiplied by their inputs' factors. In: float (float32) or uint16_t (bfloat16).
template <int W, typename In>
SACCADE_INLINE void load_scaled(typename Lanes<W>::Floats& v, const In* x, const float* factors, int64_t at) {
  typename Lanes<W>::Floats factor;
  load_floats<W>(v, x + at);
  load(factor, factors + at);
  v *= factor;
}
SACCADE_INLINE float scaled(const float* x, const float* factors, int64_t at) {
  return x[at] * factors[at];
}
SACCADE_INLINE float scaled(const uint16_t* x, const float* factors, int64_t at) {
  return bf16_to_float(x[at]) * factors[at];
}

// Number of independent chains of sums and maxima, to hide the latency of a single one.
inline constexpr int kChains = 4;

template <int W, typename V>
SACCADE_INLINE auto sum_of_chains(V (&sums)[kChains]) {
  sums[0] += sums[1];
  sums[2] += sums[3];
  sums[0] += sums[2];
  return sum_of<W>(sums[0]);
}
template <int W, typename V>
SACCADE_INLINE auto most_of(const V& vector) {
  std::remove_cvref_t<decltype(vector[0])> lanes[W];
  store(lanes, vector);
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i + half] > lanes[i] ? lanes[i + half] : lanes[i];
  }
  return lanes[0];
}

// Calls step(chain, at) for each whole vector of W values, with the chains in turn.
template <int W, typename Step>
SACCADE_INLINE void in_chains(int64_t whole, const Step& step) {
  int64_t i = 0;
  for (; i + kChains * W <= whole; i += kChains * W) {
    SACCADE_UNROLL
    for (int chain = 0; chain < kChains; ++chain) step(chain, i + chain * W);
  }
  for (; i < whole; i += W) step(0, i);
}

struct RowLooks {
  float lowest = 0;   // 0 or less
  float highest = 0;  // 0 or more
  float sum = 0;      // sum of absolute values; not finite if a value is not
};

template <int W, typename In>
SACCADE_INLINE RowLooks look_at(const In* x, const float* factors, int64_t width) {
  using Floats = typename Lanes<W>::Floats;
  const int64_t whole = width / W * W;
  Floats least[kChains] = {};
  Floats most[kChains] = {};
  Floats sums[kChains] = {};
  in_chains<W>(whole, [&](int chain, int64_t at) SACCADE_INLINE_LAMBDA {
    Floats v;
    load_scaled<W>(v, x, factors, at);
    most[chain] = v > most[chain] ? v : most[chain];
    least[chain] = v < least[chain] ? v : least[chain];
    absolute<W>(v);
    sums[chain] += v;
  });
  RowLooks looks;
  looks.sum = sum_of_chains<W>(sums);
  for (int chain = 1; chain < kChains; ++chain) {
    most[0] = most[chain] > most[0] ? most[chain] : most[0];
    least[0] = least[chain] < least[0] ? least[chain] : least[0];
  }
  looks.highest = most_of<W>(most[0]);
  looks.lowest = -most_of<W>(-least[0]);
  for (int64_t i = whole; i < width; ++i) {
    const float value = scaled(x, factors, i);
    looks.highest = value > looks.highest ? value : looks.highest;
    looks.lowest = value < looks.lowest ? value : looks.lowest;
    looks.sum += std::abs(value);
  }
  return looks;
}

// Computes the mean of the absolute values that do not exceed the limit.
template <int W, typename In>
SACCADE_INLINE float trimmed_mean(const In* x, const float* factors, int64_t width, float limit) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  const int64_t whole = width / W * W;
  Floats sums[kChains] = {};
  Ints counts[kChains] = {};
  in_chains<W>(whole, [&](int chain, int64_t at) SACCADE_INLINE_LAMBDA {
    Floats v;
    load_scaled<W>(v, x, factors, at);
    absolute<W>(v);
    const Ints near = v <= limit;
    counts[chain] -= near;
    sums[chain] += near ? v : Floats{};
  });
  float sum = sum_of_chains<W>(sums);
  int64_t count = sum_of_chains<W>(counts);
  for (int64_t i = whole; i < width; ++i) {
    const float value = std::abs(scaled(x, factors, i));
    if (value > limit) continue;
    ++count;
    sum += value;
  }
  return sum / static_cast<float>(std::max<int64_t>(count, 1));
}

// Range that one digit covers: the values up to `reach` from the middle, 0 included.
struct RowRange {
  float reach = 0;
  float middle = 0;
  bool whole = false;  // all values
};

// Returns the range of at most this reach: all values if they fit, otherwise those up to the nearer end,
// otherwise those around 0.
inline RowRange range_of(const RowLooks& looks, float reach) {
  if (looks.highest - looks.lowest <= 2 * reach) {
    return {(looks.highest - looks.lowest) / 2, (looks.highest + looks.lowest) / 2, true};
  }
  if (-looks.lowest <= reach) return {reach, looks.lowest + reach, false};
  if (looks.highest <= reach) return {reach, looks.highest - reach, false};
  return {reach, 0, false};
}

// Returns the range that one digit should cover for a row, unless too many values lie outside it.
template <int W, typename In>
SACCADE_INLINE float reach_of(const In* x, const float* factors, int64_t width, const RowLooks& looks) {
  const float largest = std::max(looks.highest, -looks.lowest);
  float mean = looks.sum / static_cast<float>(width);
  if (largest > kTrimmed * mean) mean = trimmed_mean<W>(x, factors, width, kTrimmed * mean);
  return std::max(kReach * mean, largest * (kMostDigit / kMostTwoDigits));
}

// Writes x[i] as two digits, after the first has been written as if it were the only one.
SACCADE_INLINE void write_second_digit(int64_t i, int32_t number, int8_t* low, SecondDigits* high,
                                       Int8Row& row) {
  const int32_t second = (number + 64) >> 7;
  const int32_t first = number - 128 * second;
  low[i] = static_cast<int8_t>(first);
  row.low_sum += first - number;
  row.high_sum += second;
  const auto group = static_cast<int32_t>(i / 4);
  if (row.second_digits == 0 || high[row.second_digits - 1].group != group) {
    high[row.second_digits++] = {group, {0, 0, 0, 0}};
  }
  high[row.second_digits - 1].digits[i % 4] = static_cast<int8_t>(second);
}

// Rounding of float32 to integer steps from the middle.
struct Rounding {
  float inverse = 0;  // inverse of the scale
  int32_t zero = 0;
};
template <int W>
SACCADE_INLINE void round_to(typename Lanes<W>::Ints& digits, typename Lanes<W>::Floats& v,
                             const Rounding& rounding) {
  constexpr float kRound = 12582912.F;  // leaves the nearest whole number in the low bits
  constexpr int32_t kRoundBits = 0x4b400000;
  v = v * rounding.inverse + kRound;
  std::memcpy(&digits, &v, sizeof digits);
  digits -= kRoundBits + rounding.zero;
}

// Number of values per block in the search for values outside the range of one digit.
inline constexpr int64_t kBlock = 64;

template <int W>
SACCADE_INLINE bool any_of(const typename Lanes<W>::Ints& flags) {
  const typename Lanes<W>::Bytes bytes = __builtin_convertvector(flags, typename Lanes<W>::Bytes);
  uint64_t words[(W + 7) / 8] = {};
  std::memcpy(words, &bytes, sizeof bytes);
  uint64_t any = 0;
  for (const uint64_t word : words) any |= word;
  return any != 0;
}

// Writes the low digits of all values, as if one digit were enough for each. With kLooks, sets in `far`,
// [width / kBlock / 64 + 1], the bit of each block with a value that needs a second digit.
template <int W, bool kLooks, typename In>
SACCADE_INLINE int32_t write_low_digits(const In* x, const float* factors, int64_t whole,
                                        const Rounding& rounding, int8_t* low, uint64_t* far) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  using Bytes = typename Lanes<W>::Bytes;
  static_assert(kBlock % W == 0);
  Ints sums{};
  const auto write = [&](int64_t at, Ints& digits) SACCADE_INLINE_LAMBDA {
    Floats v;
    load_scaled<W>(v, x, factors, at);
    round_to<W>(digits, v, rounding);
    const Bytes bytes = __builtin_convertvector(digits, Bytes);
    store(low + at, bytes);
    sums += digits;
  };
  Ints digits;
  int64_t i = 0;
  for (; i + kBlock <= whole; i += kBlock) {
    Ints sizes{};
    SACCADE_UNROLL
    for (int64_t at = 0; at < kBlock; at += W) {
      write(i + at, digits);
      if constexpr (kLooks) sizes |= digits < 0 ? -digits : digits;
    }
    if constexpr (kLooks) {
      if (any_of<W>(sizes >> 7)) far[i / kBlock / 64] |= uint64_t{1} << (i / kBlock % 64);
    }
  }
  for (; i < whole; i += W) write(i, digits);
  if constexpr (kLooks) {
    // A last partial block is always marked.
    if (whole % kBlock != 0) far[whole / kBlock / 64] |= uint64_t{1} << (whole / kBlock % 64);
  }
  return sum_of<W>(sums);
}

// Writes the digits of all values by one scale. Returns false if too many groups exceed its range.
template <int W, typename In>
SACCADE_INLINE bool write_digits(const In* x, const float* factors, int64_t width, const RowRange& range,
                                 int64_t most, int8_t* low, SecondDigits* high, Int8Row& row) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  using Bytes = typename Lanes<W>::Bytes;
  row = {};
  row.scale = range.reach / kMostDigit;
  Rounding rounding;
  rounding.inverse = kMostDigit / range.reach;
  rounding.zero = static_cast<int32_t>(std::nearbyint(range.middle * rounding.inverse));
  row.zero = rounding.zero;
  const int64_t whole = width / W * W;
  uint64_t far[kMostInt8Inputs / kBlock / 64 + 1];
  if (range.whole) {
    row.low_sum = write_low_digits<W, false>(x, factors, whole, rounding, low, far);
  } else {
    std::fill(far, far + whole / kBlock / 64 + 1, uint64_t{0});
    row.low_sum = write_low_digits<W, true>(x, factors, whole, rounding, low, far);
  }
  int64_t beyond = 0;
  for (int64_t word = 0; !range.whole && word <= whole / kBlock / 64; ++word) {
    for (uint64_t left = far[word]; left != 0; left &= left - 1) {
      const int64_t block = (word * 64 + std::countr_zero(left)) * kBlock;
      int32_t numbers[kBlock];
      int8_t flags[kBlock] = {};  // all bits of those that reach too far
      for (int64_t i = 0; i < std::min(kBlock, whole - block); i += W) {
        Floats v;
        Ints digits;
        load_scaled<W>(v, x, factors, block + i);
        round_to<W>(digits, v, rounding);
        store(numbers + i, digits);
        const Ints size = digits < 0 ? -digits : digits;
        const Bytes bytes = __builtin_convertvector(size > 127, Bytes);
        store(flags + i, bytes);
      }
      for (int64_t eight = 0; eight < kBlock; eight += 8) {
        uint64_t some;
        load(some, flags + eight);
        while (some != 0) {
          const int lane = std::countr_zero(some) / 8;
          some &= ~(uint64_t{0xff} << (8 * lane));
          if (++beyond > most) return false;
          write_second_digit(block + eight + lane, numbers[eight + lane], low, high, row);
        }
      }
    }
  }
  for (int64_t i = whole; i < width; ++i) {
    const auto steps = std::nearbyint(static_cast<double>(scaled(x, factors, i)) * rounding.inverse);
    const int32_t number = static_cast<int32_t>(steps) - rounding.zero;
    low[i] = static_cast<int8_t>(number);
    row.low_sum += number;
    if (number <= 127 && number >= -127) continue;
    if (++beyond > most) return false;
    write_second_digit(i, number, low, high, row);
  }
  return true;
}

template <int W, typename In>
SACCADE_INLINE void quantize_row(const In* x, const float* factors, int64_t width, int64_t groups,
                                 int8_t* low, SecondDigits* high, Int8Row& row) {
  std::fill(low + width, low + 4 * groups, int8_t{0});
  const RowLooks looks = look_at<W>(x, factors, width);
  constexpr float kSmallest = 1e-30F;  // below, the inverse of the scale would be infinite
  const bool finite = looks.sum <= std::numeric_limits<float>::max();
  if (!finite || looks.highest - looks.lowest < kSmallest) {
    row = {};
    std::fill(low, low + width, int8_t{0});
    if (!finite) row.scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  float reach = reach_of<W>(x, factors, width, looks);
  Int8Row found;  // not in `row` itself: its numbers stay in registers
  while (!write_digits<W>(x, factors, width, range_of(looks, reach), most_second_digits(groups), low, high,
                          found)) {
    reach *= 1.25F;
  }
  row = found;
}

template <int W, typename In>
SACCADE_INLINE void quantize_rows_of(const QuantizeTask& task, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    quantize_row<W>(static_cast<const In*>(task.x) + row * task.width, task.factors, task.width, task.groups,
                    task.low + row * 4 * task.groups, task.high + row * most_second_digits(task.groups),
                    task.rows[row]);
  }
}

template <int W>
SACCADE_INLINE void quantize_rows(const QuantizeTask& task, int64_t first, int64_t last) {
  if (task.halves) return quantize_rows_of<W, uint16_t>(task, first, last);
  quantize_rows_of<W, float>(task, first, last);
}

}  // namespace saccade::nn
