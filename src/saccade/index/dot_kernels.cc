#include "saccade/index/dot_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "saccade/index/unroll.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace saccade {
namespace {

void dot_portable(const float* const* rows, int64_t row_count, const float* queries, int64_t query_count,
                  int64_t dim, float* scores) {
  const int64_t padded = padded_dim(dim);
  for (int64_t q = 0; q < query_count; ++q) {
    const float* query = queries + q * padded;
    for (int64_t r = 0; r < row_count; ++r) {
      const float* row = rows[r];
      std::array<float, kDotLanes> lanes{};
      int64_t c = 0;
      for (; c + kDotLanes <= dim; c += kDotLanes) {
        for (int64_t j = 0; j < kDotLanes; ++j) {
          float& lane = lanes[static_cast<size_t>(j)];
          lane = std::fma(row[c + j], query[c + j], lane);
        }
      }
      for (int64_t j = 0; c + j < dim; ++j) {
        float& lane = lanes[static_cast<size_t>(j)];
        lane = std::fma(row[c + j], query[c + j], lane);
      }
      for (size_t half = kDotLanes / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
      }
      scores[q * row_count + r] = lanes[0];
    }
  }
}

#if defined(__x86_64__)

// Computes the last steps of the sum, from 8 lanes on; shared by both kernels below.
__attribute__((target("avx2,fma"), always_inline)) inline float sum_8_lanes(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Multiplies one row with one query: four sums of 8 lanes. A second row would help only with rows in cache.
__attribute__((target("avx2,fma"))) float dot_one_avx2(const float* row, const float* query, int64_t dim,
                                                       const float* next) {
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t c = 0;
  for (; c + kDotLanes <= dim; c += kDotLanes) {
    _mm_prefetch(reinterpret_cast<const char*>(next + c), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(next + c + 16), _MM_HINT_T0);
    for (int i = 0; i < 4; ++i) {
      const int64_t at = c + i * 8;
      sums[i] = _mm256_fmadd_ps(_mm256_loadu_ps(row + at), _mm256_loadu_ps(query + at), sums[i]);
    }
  }
  if (c < dim) {
    const __m256i columns = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int i = 0; i < 4; ++i) {
      const int64_t at = c + i * 8;
      if (at >= dim) break;
      const __m256i present = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(dim - at)), columns);
      sums[i] = _mm256_fmadd_ps(_mm256_maskload_ps(row + at, present), _mm256_loadu_ps(query + at), sums[i]);
    }
  }
  return sum_8_lanes(_mm256_add_ps(_mm256_add_ps(sums[0], sums[2]), _mm256_add_ps(sums[1], sums[3])));
}

constexpr int64_t kBlockRows256 = 3;
constexpr int64_t kBlockQueries256 = 4;

// Multiplies three rows with four queries, one quarter of the 32 lanes after the other: 7 loads for 12
// multiply-adds, whose sums take 12 of the 16 registers.
__attribute__((target("avx2,fma"))) void dot_block_avx2(const float* const* rows, const float* queries,
                                                        int64_t dim, float* scores, int64_t score_stride) {
  constexpr int64_t kPairs = kBlockRows256 * kBlockQueries256;
  const int64_t padded = padded_dim(dim);
  alignas(32) float lanes[4][kPairs][8];
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m256 sums[kPairs];
    SACCADE_UNROLL
    for (int i = 0; i < kPairs; ++i) sums[i] = _mm256_setzero_ps();
    int64_t c = quarter * 8;
    for (; c + 8 <= dim; c += kDotLanes) {
      const __m256 row[kBlockRows256] = {_mm256_loadu_ps(rows[0] + c), _mm256_loadu_ps(rows[1] + c),
                                         _mm256_loadu_ps(rows[2] + c)};
      SACCADE_UNROLL
      for (int q = 0; q < kBlockQueries256; ++q) {
        const __m256 query = _mm256_loadu_ps(queries + q * padded + c);
        SACCADE_UNROLL
        for (int r = 0; r < kBlockRows256; ++r) {
          __m256& sum = sums[q * kBlockRows256 + r];
          sum = _mm256_fmadd_ps(row[r], query, sum);
        }
      }
    }
    if (c < dim) {
      const __m256i columns = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      const __m256i present = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(dim - c)), columns);
      SACCADE_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        const __m256 row = _mm256_maskload_ps(rows[i % kBlockRows256] + c, present);
        const __m256 query = _mm256_loadu_ps(queries + i / kBlockRows256 * padded + c);
        sums[i] = _mm256_fmadd_ps(row, query, sums[i]);
      }
    }
    SACCADE_UNROLL
    for (int i = 0; i < kPairs; ++i) _mm256_store_ps(lanes[quarter][i], sums[i]);
  }
  for (int i = 0; i < kPairs; ++i) {
    const __m256 even = _mm256_add_ps(_mm256_load_ps(lanes[0][i]), _mm256_load_ps(lanes[2][i]));
    const __m256 odd = _mm256_add_ps(_mm256_load_ps(lanes[1][i]), _mm256_load_ps(lanes[3][i]));
    scores[i / kBlockRows256 * score_stride + i % kBlockRows256] = sum_8_lanes(_mm256_add_ps(even, odd));
  }
}

__attribute__((target("avx2,fma"))) void dot_avx2(const float* const* rows, int64_t row_count,
                                                  const float* queries, int64_t query_count, int64_t dim,
                                                  float* scores) {
  const int64_t padded = padded_dim(dim);
  int64_t q = 0;
  for (; q + kBlockQueries256 <= query_count; q += kBlockQueries256) {
    int64_t r = 0;
    for (; r + kBlockRows256 <= row_count; r += kBlockRows256) {
      dot_block_avx2(rows + r, queries + q * padded, dim, scores + q * row_count + r, row_count);
    }
    for (; r < row_count; ++r) {
      for (int64_t i = q; i < q + kBlockQueries256; ++i) {
        scores[i * row_count + r] = dot_one_avx2(rows[r], queries + i * padded, dim, rows[r + kDotRowGroup]);
      }
    }
  }
  for (; q < query_count; ++q) {
    for (int64_t r = 0; r < row_count; ++r) {
      scores[q * row_count + r] = dot_one_avx2(rows[r], queries + q * padded, dim, rows[r + kDotRowGroup]);
    }
  }
}

// Mask of the masked intrinsics: GCC 12 warns about its own unmasked ones (GCC bug 105593).
constexpr __mmask16 kAllLanes = 0xffff;

// Multiplies one row with one query. A single query is limited by memory, which is fastest in one stream (43
// GB/s against 26 in four).
__attribute__((target("avx512f,avx2,fma"))) float dot_one_avx512(const float* row, const float* query,
                                                                 int64_t dim, const float* next) {
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  int64_t c = 0;
  for (; c + kDotLanes <= dim; c += kDotLanes) {
    for (int half = 0; half < 2; ++half) {
      const int64_t at = c + half * 16;
      _mm_prefetch(reinterpret_cast<const char*>(next + at), _MM_HINT_T0);
      sums[half] = _mm512_fmadd_ps(_mm512_loadu_ps(row + at), _mm512_loadu_ps(query + at), sums[half]);
    }
  }
  for (int half = 0; half < 2 && c + half * 16 < dim; ++half) {
    const int64_t at = c + half * 16;
    const auto present = static_cast<__mmask16>(dim - at >= 16 ? 0xffffU : (1U << (dim - at)) - 1U);
    sums[half] =
        _mm512_fmadd_ps(_mm512_maskz_loadu_ps(present, row + at), _mm512_loadu_ps(query + at), sums[half]);
  }
  alignas(64) std::array<float, 16> lanes;
  _mm512_store_ps(lanes.data(), _mm512_add_ps(sums[0], sums[1]));
  return sum_8_lanes(_mm256_add_ps(_mm256_load_ps(lanes.data()), _mm256_load_ps(lanes.data() + 8)));
}

// Computes the last steps of four sums of 16 lanes, one per row: four scores.
__attribute__((target("avx512f,avx2,fma"), always_inline)) inline void sum_16_lanes(const __m512* rows,
                                                                                    float* scores) {
  __m512 pairs[2];  // 8 lanes of one row, then of the next
  for (int i = 0; i < 2; ++i) {
    const __m512 a = rows[2 * i];
    const __m512 b = rows[2 * i + 1];
    pairs[i] = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAllLanes, a, b, 0x44),
                             _mm512_maskz_shuffle_f32x4(kAllLanes, a, b, 0xee));
  }
  __m512 sums = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAllLanes, pairs[0], pairs[1], 0x88),
                              _mm512_maskz_shuffle_f32x4(kAllLanes, pairs[0], pairs[1], 0xdd));
  sums = _mm512_add_ps(sums, _mm512_maskz_permute_ps(kAllLanes, sums, 0xee));
  sums = _mm512_add_ps(sums, _mm512_maskz_permute_ps(kAllLanes, sums, 0x55));
  // One sum a quarter now; those lie side by side after this.
  // In a register: compressing into memory takes some AMD processors a hundred cycles.
  _mm512_mask_storeu_ps(scores, 0x000f, _mm512_maskz_compress_ps(0x1111, sums));
}

constexpr int64_t kBlockQueries512 = 6;
constexpr int64_t kKeptFloats = 4096;  // 16 KiB: eight rows of 512

// Multiplies four rows with kQueries queries. The halves of the 32 lanes are summed one after the other. So
// twice as many pairs have their sums in registers, and each loaded value is used more often: 10 loads for 24
// multiply-adds. kFetch: prefetches the rows that come next.
template <int kQueries, bool kFetch>
__attribute__((target("avx512f,avx2,fma"))) void dot_block_avx512(const float* const* rows,
                                                                  const float* queries, int64_t dim,
                                                                  float* scores, int64_t score_stride) {
  constexpr int kRows = kDotRowGroup;
  const int64_t padded = padded_dim(dim);
  const float* const row_0 = rows[0];
  const float* const row_1 = rows[1];
  const float* const row_2 = rows[2];
  const float* const row_3 = rows[3];
  __m512 first[kQueries][kRows];
  for (int half = 0; half < 2; ++half) {
    __m512 sums[kQueries][kRows];
    for (int q = 0; q < kQueries; ++q) {
      for (int r = 0; r < kRows; ++r) sums[q][r] = _mm512_setzero_ps();
    }
    int64_t c = half * 16;
    for (; c + 16 <= dim; c += kDotLanes) {
      const __m512 row[kRows] = {_mm512_loadu_ps(row_0 + c), _mm512_loadu_ps(row_1 + c),
                                 _mm512_loadu_ps(row_2 + c), _mm512_loadu_ps(row_3 + c)};
      if (kFetch) {
        for (int r = 0; r < kRows; ++r) {
          _mm_prefetch(reinterpret_cast<const char*>(rows[r + kRows] + c), _MM_HINT_T0);
        }
      }
      for (int q = 0; q < kQueries; ++q) {
        const __m512 query = _mm512_loadu_ps(queries + q * padded + c);
        for (int r = 0; r < kRows; ++r) sums[q][r] = _mm512_fmadd_ps(row[r], query, sums[q][r]);
      }
    }
    if (c < dim) {
      const auto present = static_cast<__mmask16>((1U << (dim - c)) - 1U);
      for (int q = 0; q < kQueries; ++q) {
        const __m512 query = _mm512_loadu_ps(queries + q * padded + c);
        for (int r = 0; r < kRows; ++r) {
          sums[q][r] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(present, rows[r] + c), query, sums[q][r]);
        }
      }
    }
    for (int q = 0; q < kQueries; ++q) {
      for (int r = 0; r < kRows; ++r) {
        first[q][r] = half == 0 ? sums[q][r] : _mm512_add_ps(first[q][r], sums[q][r]);
      }
    }
  }
  SACCADE_UNROLL
  for (int q = 0; q < kQueries; ++q) sum_16_lanes(first[q], scores + q * score_stride);
}

using DotKernelBlock = void (*)(const float* const*, const float*, int64_t, float*, int64_t);

template <bool kFetch>
void dot_any_block_avx512(const float* const* rows, const float* queries, int64_t query_count, int64_t dim,
                          float* scores, int64_t score_stride) {
  constexpr DotKernelBlock kBlocks[kBlockQueries512] = {
      dot_block_avx512<1, kFetch>, dot_block_avx512<2, kFetch>, dot_block_avx512<3, kFetch>,
      dot_block_avx512<4, kFetch>, dot_block_avx512<5, kFetch>, dot_block_avx512<6, kFetch>};
  kBlocks[query_count - 1](rows, queries, dim, scores, score_stride);
}

void dot_avx512(const float* const* rows, int64_t row_count, const float* queries, int64_t query_count,
                int64_t dim, float* scores) {
  const int64_t padded = padded_dim(dim);
  int64_t r = 0;
  if (query_count > 1) {
    // Number of rows that stay in the first-level cache beside a block of queries while all queries are
    // processed.
    const int64_t kept =
        std::max(int64_t{1}, kKeptFloats / std::max(dim, int64_t{1}) / kDotRowGroup) * kDotRowGroup;
    while (r + kDotRowGroup <= row_count) {
      const int64_t end = r + std::min(kept, (row_count - r) / kDotRowGroup * kDotRowGroup);
      for (int64_t q = 0; q < query_count; q += kBlockQueries512) {
        const int64_t count = std::min(query_count - q, kBlockQueries512);
        const auto block = q == 0 ? dot_any_block_avx512<true> : dot_any_block_avx512<false>;
        for (int64_t i = r; i < end; i += kDotRowGroup) {
          block(rows + i, queries + q * padded, count, dim, scores + q * row_count + i, row_count);
        }
      }
      r = end;
    }
  }
  for (; r < row_count; ++r) {
    for (int64_t q = 0; q < query_count; ++q) {
      scores[q * row_count + r] = dot_one_avx512(rows[r], queries + q * padded, dim, rows[r + kDotRowGroup]);
    }
  }
}

#elif defined(__aarch64__)

// Loads the first `count` of four columns, with zeros behind them.
inline float32x4_t load_some(const float* from, int64_t count) {
  std::array<float, 4> columns{};
  std::copy_n(from, count, columns.begin());
  return vld1q_f32(columns.data());
}

// Computes the last steps of the sum of 32 lanes.
inline float sum_32_lanes(const float32x4_t* lanes) {
  const float32x4_t even = vaddq_f32(vaddq_f32(lanes[0], lanes[4]), vaddq_f32(lanes[2], lanes[6]));
  const float32x4_t odd = vaddq_f32(vaddq_f32(lanes[1], lanes[5]), vaddq_f32(lanes[3], lanes[7]));
  const float32x4_t four = vaddq_f32(even, odd);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

constexpr int kLaneVectors = 8;  // 32 lanes

// Multiplies one row with one query.
float dot_one_neon(const float* row, const float* query, int64_t dim, const float* next) {
  float32x4_t sums[kLaneVectors];
  SACCADE_UNROLL
  for (int i = 0; i < kLaneVectors; ++i) sums[i] = vdupq_n_f32(0);
  int64_t c = 0;
  for (; c + kDotLanes <= dim; c += kDotLanes) {
    __builtin_prefetch(next + c);
    __builtin_prefetch(next + c + 16);
    SACCADE_UNROLL
    for (int i = 0; i < kLaneVectors; ++i) {
      sums[i] = vfmaq_f32(sums[i], vld1q_f32(row + c + 4 * i), vld1q_f32(query + c + 4 * i));
    }
  }
  SACCADE_UNROLL
  for (int i = 0; i < kLaneVectors; ++i) {
    const int64_t at = c + 4 * i;
    if (at >= dim) break;
    const float32x4_t columns = load_some(row + at, std::min<int64_t>(dim - at, 4));
    sums[i] = vfmaq_f32(sums[i], columns, vld1q_f32(query + at));
  }
  return sum_32_lanes(sums);
}

constexpr int64_t kBlockQueriesNeon = 6;
constexpr int64_t kKeptFloatsNeon = 4096;  // 16 KiB: eight rows of 512

// Multiplies four rows with kQueries queries, four of the 32 lanes after the other: 10 loads for 24 multiply-adds,
// whose sums take 24 of the 32 registers.
template <int kQueries>
void dot_block_neon(const float* const* rows, const float* queries, int64_t dim, float* scores,
                    int64_t score_stride) {
  constexpr int kRows = kDotRowGroup;
  const int64_t padded = padded_dim(dim);
  float32x4_t lanes[kQueries][kRows][kLaneVectors];
  for (int part = 0; part < kLaneVectors; ++part) {
    float32x4_t sums[kQueries][kRows];
    SACCADE_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      SACCADE_UNROLL
      for (int r = 0; r < kRows; ++r) sums[q][r] = vdupq_n_f32(0);
    }
    int64_t c = 4 * part;
    for (; c + 4 <= dim; c += kDotLanes) {
      float32x4_t row[kRows];
      SACCADE_UNROLL
      for (int r = 0; r < kRows; ++r) row[r] = vld1q_f32(rows[r] + c);
      SACCADE_UNROLL
      for (int q = 0; q < kQueries; ++q) {
        const float32x4_t query = vld1q_f32(queries + q * padded + c);
        SACCADE_UNROLL
        for (int r = 0; r < kRows; ++r) sums[q][r] = vfmaq_f32(sums[q][r], row[r], query);
      }
    }
    if (c < dim) {
      SACCADE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const float32x4_t row = load_some(rows[r] + c, dim - c);
        SACCADE_UNROLL
        for (int q = 0; q < kQueries; ++q) {
          sums[q][r] = vfmaq_f32(sums[q][r], row, vld1q_f32(queries + q * padded + c));
        }
      }
    }
    SACCADE_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      SACCADE_UNROLL
      for (int r = 0; r < kRows; ++r) lanes[q][r][part] = sums[q][r];
    }
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int r = 0; r < kRows; ++r) scores[q * score_stride + r] = sum_32_lanes(lanes[q][r]);
  }
}

using DotBlockNeon = void (*)(const float* const*, const float*, int64_t, float*, int64_t);

void dot_neon(const float* const* rows, int64_t row_count, const float* queries, int64_t query_count,
              int64_t dim, float* scores) {
  static constexpr DotBlockNeon kBlocks[kBlockQueriesNeon] = {dot_block_neon<1>, dot_block_neon<2>,
                                                              dot_block_neon<3>, dot_block_neon<4>,
                                                              dot_block_neon<5>, dot_block_neon<6>};
  const int64_t padded = padded_dim(dim);
  int64_t r = 0;
  if (query_count > 1) {
    // Number of rows that stay in the first-level cache while all queries are processed.
    const int64_t kept =
        std::max(int64_t{1}, kKeptFloatsNeon / std::max(dim, int64_t{1}) / kDotRowGroup) * kDotRowGroup;
    while (r + kDotRowGroup <= row_count) {
      const int64_t end = r + std::min(kept, (row_count - r) / kDotRowGroup * kDotRowGroup);
      for (int64_t q = 0; q < query_count; q += kBlockQueriesNeon) {
        const DotBlockNeon block = kBlocks[std::min(query_count - q, kBlockQueriesNeon) - 1];
        for (int64_t i = r; i < end; i += kDotRowGroup) {
          block(rows + i, queries + q * padded, dim, scores + q * row_count + i, row_count);
        }
      }
      r = end;
    }
  }
  for (; r < row_count; ++r) {
    for (int64_t q = 0; q < query_count; ++q) {
      scores[q * row_count + r] = dot_one_neon(rows[r], queries + q * padded, dim, rows[r + kDotRowGroup]);
    }
  }
}

#endif

}  // namespace

std::span<const NamedDotKernel> dot_kernels() {
  static const std::vector<NamedDotKernel> kKernels = kernels_for_cpu<NamedDotKernel>({
#if defined(__x86_64__)
    {"avx512", CpuLevel::kAvx512, dot_avx512}, {"avx2", CpuLevel::kAvx2, dot_avx2},
#elif defined(__aarch64__)
    {"neon", CpuLevel::kNeon, dot_neon},
#endif
        {"portable", CpuLevel::kPortable, dot_portable},
  });
  return kKernels;
}

}  // namespace saccade
