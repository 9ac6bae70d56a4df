// Sums of products of 8-bit integers by the instructions of arm64: 8-bit dot products and products of 8-bit matrices.
// Included by int8_product_kernels.cc alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "saccade/core/cpu.h"
#include "saccade/nn/kernels/int8_quantize_task.h"
#include "saccade/nn/kernels/lanes.h"
#include "saccade/nn/kernels/panel_task.h"

#if defined(SACCADE_DOTPROD)
#include <arm_neon.h>

namespace saccade::nn {

inline constexpr int64_t kArmOutputs = 8;  // outputs of a panel at a time, two vectors of sums a row

// Returns 128 times the sum of a row's values: the dot product takes weights without their offset of 128.
SACCADE_DOTPROD inline int32_t offset_of(const int8_t* values, int64_t count) {
  int32x4_t sums = vdupq_n_s32(0);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) sums = vdotq_s32(sums, vld1q_s8(values + i), vdupq_n_s8(1));
  int32_t sum = vaddvq_s32(sums);
  for (; i < count; ++i) sum += values[i];
  return 128 * sum;
}

// Loads a group's weights of four outputs without their offset.
SACCADE_DOTPROD SACCADE_INLINE int8x16_t signed_weights(const uint8_t* weights) {
  return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(weights), vdupq_n_u8(0x80)));
}

SACCADE_DOTPROD SACCADE_INLINE int8x16_t four_times(const int8_t* group) {
  int32_t four;
  std::memcpy(&four, group, sizeof four);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

template <int R>
SACCADE_DOTPROD void tile_dotprod(const uint8_t* weights, int64_t groups, const int8_t* low, int32_t* sums) {
  constexpr int kVectors = kArmOutputs / 4;
  int32_t starts[R];
  for (int r = 0; r < R; ++r) starts[r] = offset_of(low + r * 4 * groups, 4 * groups);
  for (int64_t c = 0; c < kPanelOutputs; c += kArmOutputs) {
    int32x4_t sum[R][kVectors];
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = vdupq_n_s32(starts[r]);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const uint8_t* w = weights + (g * kPanelOutputs + c) * 4;
      int8x16_t weight[kVectors];
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) weight[v] = signed_weights(w + 16 * v);
      SACCADE_UNROLL
      for (int r = 0; r < R; ++r) {
        const int8x16_t x = four_times(low + (r * groups + g) * 4);
        SACCADE_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[r][v] = vdotq_s32(sum[r][v], weight[v], x);
      }
    }
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) vst1q_s32(sums + r * kPanelOutputs + c + 4 * v, sum[r][v]);
    }
  }
}

SACCADE_DOTPROD inline void sparse_dotprod(const uint8_t* weights, const SecondDigits* digits, int64_t count,
                                           int32_t* sums) {
  int32_t start = 0;
  for (int64_t i = 0; i < count; ++i) start += offset_of(digits[i].digits, 4);
  for (int64_t c = 0; c < kPanelOutputs; c += 16) {
    int32x4_t sum[4];
    SACCADE_UNROLL
    for (int v = 0; v < 4; ++v) sum[v] = vdupq_n_s32(start);
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* w = weights + (digits[i].group * kPanelOutputs + c) * 4;
      const int8x16_t x = four_times(digits[i].digits);
      SACCADE_UNROLL
      for (int v = 0; v < 4; ++v) sum[v] = vdotq_s32(sum[v], signed_weights(w + 16 * v), x);
    }
    SACCADE_UNROLL
    for (int v = 0; v < 4; ++v) vst1q_s32(sums + c + 4 * v, sum[v]);
  }
}

// Loads eight values of each of two rows.
SACCADE_I8MM SACCADE_INLINE int8x16_t two_rows(const int8_t* upper, const int8_t* lower) {
  return vcombine_s8(vld1_s8(upper), vld1_s8(lower));
}

// Adds two groups of inputs to the sums of all pairs of rows with kArmOutputs outputs. even, odd: the groups' weights;
// x: per pair, eight values of both rows. sum: per pair and two outputs, [output][row].
template <int kPairs>
SACCADE_I8MM SACCADE_INLINE void add_two_groups(const uint8x16_t* even, const uint8x16_t* odd,
                                                const int8x16_t* x,
                                                int32x4_t (&sum)[kPairs][kArmOutputs / 2]) {
  SACCADE_UNROLL
  for (int v = 0; v < kArmOutputs / 4; ++v) {
    const uint32x4_t a = vreinterpretq_u32_u8(even[v]);
    const uint32x4_t b = vreinterpretq_u32_u8(odd[v]);
    const uint8x16_t first = vreinterpretq_u8_u32(vzip1q_u32(a, b));   // outputs 0 and 1, eight inputs each
    const uint8x16_t second = vreinterpretq_u8_u32(vzip2q_u32(a, b));  // outputs 2 and 3
    SACCADE_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      sum[p][2 * v] = vusmmlaq_s32(sum[p][2 * v], first, x[p]);
      sum[p][2 * v + 1] = vusmmlaq_s32(sum[p][2 * v + 1], second, x[p]);
    }
  }
}

// Rows in pairs; an odd last one is its own partner.
template <int R>
SACCADE_I8MM void tile_i8mm(const uint8_t* weights, int64_t groups, const int8_t* low, int32_t* sums) {
  constexpr int kVectors = kArmOutputs / 4;
  constexpr int kPairs = (R + 1) / 2;
  const int64_t width = 4 * groups;
  int8_t last[R][8] = {};  // the last group, if it has no partner, with zeros behind it
  if (groups % 2 != 0) {
    for (int r = 0; r < R; ++r) std::memcpy(last[r], low + (r + 1) * width - 4, 4);
  }
  for (int64_t c = 0; c < kPanelOutputs; c += kArmOutputs) {
    int32x4_t sum[kPairs][2 * kVectors];
    uint8x16_t even[kVectors];
    uint8x16_t odd[kVectors];
    int8x16_t x[kPairs];
    SACCADE_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      SACCADE_UNROLL
      for (int i = 0; i < 2 * kVectors; ++i) sum[p][i] = vdupq_n_s32(0);
    }
    const uint8_t* w = weights + c * 4;
    int64_t g = 0;
    for (; g + 2 <= groups; g += 2, w += 8 * kPanelOutputs) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        even[v] = vld1q_u8(w + 16 * v);
        odd[v] = vld1q_u8(w + 4 * kPanelOutputs + 16 * v);
      }
      SACCADE_UNROLL
      for (int p = 0; p < kPairs; ++p) {
        const int8_t* upper = low + 2 * p * width + 4 * g;
        x[p] = two_rows(upper, 2 * p + 1 < R ? upper + width : upper);
      }
      add_two_groups<kPairs>(even, odd, x, sum);
    }
    if (g < groups) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        even[v] = vld1q_u8(w + 16 * v);
        odd[v] = vdupq_n_u8(0);
      }
      SACCADE_UNROLL
      for (int p = 0; p < kPairs; ++p) x[p] = two_rows(last[2 * p], last[std::min(2 * p + 1, R - 1)]);
      add_two_groups<kPairs>(even, odd, x, sum);
    }
    SACCADE_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        int32_t* to = sums + 2 * p * kPanelOutputs + c + 4 * v;
        vst1q_s32(to, vuzp1q_s32(sum[p][2 * v], sum[p][2 * v + 1]));
        if (2 * p + 1 < R) vst1q_s32(to + kPanelOutputs, vuzp2q_s32(sum[p][2 * v], sum[p][2 * v + 1]));
      }
    }
  }
}

}  // namespace saccade::nn
#endif
