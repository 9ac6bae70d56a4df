// From float32 to 8 bits: templates of the lanes, for int8_kernels.cc alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "saccade/nn/int8_kernels.h"
#include "saccade/nn/lanes.h"

namespace saccade::nn {

inline constexpr float kMostDigit = 127;
// low is at most 64 where there is a second digit, which is at most 127.
inline constexpr float kMostTwoDigits = 127 * 128 + 63;
// How far values may lie from 0 without a second digit, in the mean of their absolute values, which
// leaves out those that lie farther than kTrimmed of it. Of normal values (mean 0.8 standard
// deviations) one in 2,000 does.
inline constexpr float kReach = 4.4F;
inline constexpr float kTrimmed = 6;
template <int W>
SACCADE_INLINE void load_scaled(typename Lanes<W>::Floats& v, const float* x, const float* factors,
                                int64_t at) {
  typename Lanes<W>::Floats factor;
  load(v, x + at);
  load(factor, factors + at);
  v *= factor;
}

// Chains of sums and maxima that run beside each other: one alone waits for itself.
inline constexpr int kChains = 4;

template <int W, typename V>
SACCADE_INLINE auto sum_of_chains(V (&sums)[kChains]) {
  sums[0] += sums[1];
  sums[2] += sums[3];
  sums[0] += sums[2];
  return sum_of<W>(sums[0]);
}

// The largest absolute value, and the sum of all: it is not finite where a value is not.
template <int W>
SACCADE_INLINE void look_at(const float* x, const float* factors, int64_t width, float& largest, float& sum) {
  using Floats = typename Lanes<W>::Floats;
  const int64_t whole = width / W * W;
  Floats most[kChains] = {};
  Floats sums[kChains] = {};
  Floats v;
  for (int64_t i = 0; i < whole; i += kChains * W) {
    SACCADE_UNROLL
    for (int chain = 0; chain < kChains; ++chain) {
      if (i + chain * W >= whole) break;
      load_scaled<W>(v, x, factors, i + chain * W);
      absolute<W>(v);
      most[chain] = v > most[chain] ? v : most[chain];
      sums[chain] += v;
    }
  }
  sum = sum_of_chains<W>(sums);
  for (int chain = 1; chain < kChains; ++chain) most[0] = most[chain] > most[0] ? most[chain] : most[0];
  float lanes[W];
  store(lanes, most[0]);
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i + half] > lanes[i] ? lanes[i + half] : lanes[i];
  }
  largest = lanes[0];
  for (int64_t i = whole; i < width; ++i) {
    const float value = std::abs(x[i] * factors[i]);
    largest = value > largest ? value : largest;
    sum += value;
  }
}

// The mean of the absolute values that are no larger than the limit.
template <int W>
SACCADE_INLINE float trimmed_mean(const float* x, const float* factors, int64_t width, float limit) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  const int64_t whole = width / W * W;
  Floats sums[kChains] = {};
  Ints counts[kChains] = {};
  Floats v;
  for (int64_t i = 0; i < whole; i += kChains * W) {
    SACCADE_UNROLL
    for (int chain = 0; chain < kChains; ++chain) {
      if (i + chain * W >= whole) break;
      load_scaled<W>(v, x, factors, i + chain * W);
      absolute<W>(v);
      const Ints near = v <= limit;
      counts[chain] -= near;
      sums[chain] += near ? v : Floats{};
    }
  }
  float sum = sum_of_chains<W>(sums);
  int64_t count = sum_of_chains<W>(counts);
  for (int64_t i = whole; i < width; ++i) {
    const float value = std::abs(x[i] * factors[i]);
    if (value > limit) continue;
    ++count;
    sum += value;
  }
  return sum / static_cast<float>(std::max<int64_t>(count, 1));
}

// How far the row's values should reach without a second digit, if not too many reach farther.
template <int W>
SACCADE_INLINE float reach_of(const float* x, const float* factors, int64_t width, float largest, float sum) {
  float mean = sum / static_cast<float>(width);
  if (largest > kTrimmed * mean) mean = trimmed_mean<W>(x, factors, width, kTrimmed * mean);
  return std::min(std::max(kReach * mean, largest * (kMostDigit / kMostTwoDigits)), largest);
}

// x[i] in two digits, where the first has been written as if it were the only one.
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

// Values are looked through for those that reach too far by as many.
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

// The digits of all values by one scale; false where more groups than there is room for reach beyond it.
template <int W>
SACCADE_INLINE bool write_digits(const float* x, const float* factors, int64_t width, float reach,
                                 int64_t most, int8_t* low, SecondDigits* high, Int8Row& row) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  using Bytes = typename Lanes<W>::Bytes;
  static_assert(kBlock % W == 0);
  const float inverse = kMostDigit / reach;
  row = {};
  row.scale = reach / kMostDigit;
  constexpr float kRound = 12582912.F;  // leaves the nearest whole number in the low bits
  constexpr int32_t kRoundBits = 0x4b400000;
  const int64_t whole = width / W * W;
  int64_t beyond = 0;
  Ints sums{};
  for (int64_t block = 0; block < whole; block += kBlock) {
    const int64_t end = std::min(block + kBlock, whole);
    int32_t numbers[kBlock];
    Ints far{};
    for (int64_t i = block; i < end; i += W) {
      Floats v;
      load_scaled<W>(v, x, factors, i);
      Floats size = v;
      absolute<W>(size);
      far |= size > reach;
      v = v * inverse + kRound;
      Ints digits;
      std::memcpy(&digits, &v, sizeof digits);
      digits -= kRoundBits;
      store(numbers + (i - block), digits);
      const Bytes bytes = __builtin_convertvector(digits, Bytes);
      store(low + i, bytes);
      sums += digits;
    }
    if (!any_of<W>(far)) continue;
    int8_t flags[kBlock] = {};  // all bits of those that reach too far
    for (int64_t i = block; i < end; i += W) {
      Floats size;
      load_scaled<W>(size, x, factors, i);
      absolute<W>(size);
      const Bytes bytes = __builtin_convertvector(size > reach, Bytes);
      store(flags + (i - block), bytes);
    }
    for (int64_t eight = 0; eight < kBlock; eight += 8) {
      uint64_t left;
      load(left, flags + eight);
      while (left != 0) {
        const int lane = std::countr_zero(left) / 8;
        left &= ~(uint64_t{0xff} << (8 * lane));
        if (++beyond > most) return false;
        write_second_digit(block + eight + lane, numbers[eight + lane], low, high, row);
      }
    }
  }
  row.low_sum += sum_of<W>(sums);
  for (int64_t i = whole; i < width; ++i) {
    const float value = x[i] * factors[i];
    const auto number = static_cast<int32_t>(std::nearbyint(static_cast<double>(value) * inverse));
    low[i] = static_cast<int8_t>(number);
    row.low_sum += number;
    if (std::abs(value) <= reach) continue;
    if (++beyond > most) return false;
    write_second_digit(i, number, low, high, row);
  }
  return true;
}

template <int W>
SACCADE_INLINE void quantize_row(const float* x, const float* factors, int64_t width, int64_t groups,
                                 int8_t* low, SecondDigits* high, Int8Row& row) {
  std::fill(low + width, low + 4 * groups, int8_t{0});
  float largest;
  float sum;
  look_at<W>(x, factors, width, largest, sum);
  constexpr float kSmallest = 1e-30F;  // below, the inverse of the scale would be infinite
  const bool finite = sum <= std::numeric_limits<float>::max();
  if (!finite || largest < kSmallest) {
    row = {};
    std::fill(low, low + width, int8_t{0});
    if (!finite) row.scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  float reach = reach_of<W>(x, factors, width, largest, sum);
  Int8Row found;  // not in `row` itself: its numbers stay in registers
  while (!write_digits<W>(x, factors, width, reach, most_second_digits(groups), low, high, found)) {
    reach = std::min(1.25F * reach, largest);
  }
  row = found;
}

template <int W>
SACCADE_INLINE void quantize_rows(const QuantizeTask& task, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    quantize_row<W>(task.x + row * task.width, task.factors, task.width, task.groups,
                    task.low + row * 4 * task.groups, task.high + row * most_second_digits(task.groups),
                    task.rows[row]);
  }
}

}  // namespace saccade::nn
