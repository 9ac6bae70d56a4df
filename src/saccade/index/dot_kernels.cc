#include "saccade/index/dot_kernels.h"

#include <array>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
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

// The last steps of the sum, from 8 lanes on; shared by both kernels below.
__attribute__((target("avx2,fma"), always_inline)) inline float sum_8_lanes(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// One row with one query: four sums of 8 lanes. A second row would help only where the rows are in cache.
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

__attribute__((target("avx2,fma"))) void dot_avx2(const float* const* rows, int64_t row_count,
                                                  const float* queries, int64_t query_count, int64_t dim,
                                                  float* scores) {
  const int64_t padded = padded_dim(dim);
  for (int64_t q = 0; q < query_count; ++q) {
    for (int64_t r = 0; r < row_count; ++r) {
      scores[q * row_count + r] = dot_one_avx2(rows[r], queries + q * padded, dim, rows[r + kDotRowGroup]);
    }
  }
}

// kRows rows with kQueries queries: 2 * kRows * kQueries sums of 16 lanes, at most 24 of the 32 registers.
template <int kRows, int kQueries>
__attribute__((target("avx512f,avx2,fma"))) void dot_group_avx512(const float* const* rows,
                                                                  const float* queries, int64_t dim,
                                                                  float* scores, int64_t score_stride) {
  const int64_t padded = padded_dim(dim);
  __m512 sums[kRows][kQueries][2];
  for (int r = 0; r < kRows; ++r) {
    for (int q = 0; q < kQueries; ++q) sums[r][q][0] = sums[r][q][1] = _mm512_setzero_ps();
  }
  int64_t c = 0;
  for (; c + kDotLanes <= dim; c += kDotLanes) {
    for (int half = 0; half < 2; ++half) {
      __m512 query[kQueries];
      for (int q = 0; q < kQueries; ++q) query[q] = _mm512_loadu_ps(queries + q * padded + c + half * 16);
      for (int r = 0; r < kRows; ++r) {
        const __m512 row = _mm512_loadu_ps(rows[r] + c + half * 16);
        if (kQueries == 1) {  // each row is read once: ask for one further on
          _mm_prefetch(reinterpret_cast<const char*>(rows[r + kDotRowGroup] + c + half * 16), _MM_HINT_T0);
        }
        for (int q = 0; q < kQueries; ++q)
          sums[r][q][half] = _mm512_fmadd_ps(row, query[q], sums[r][q][half]);
      }
    }
  }
  for (int half = 0; half < 2 && c + half * 16 < dim; ++half) {
    const int64_t left = dim - c - half * 16;
    const auto present = static_cast<__mmask16>(left >= 16 ? 0xffffU : (1U << left) - 1U);
    for (int r = 0; r < kRows; ++r) {
      const __m512 row = _mm512_maskz_loadu_ps(present, rows[r] + c + half * 16);
      for (int q = 0; q < kQueries; ++q) {
        const __m512 query = _mm512_loadu_ps(queries + q * padded + c + half * 16);
        sums[r][q][half] = _mm512_fmadd_ps(row, query, sums[r][q][half]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int q = 0; q < kQueries; ++q) {
      // Through memory: GCC 12 warns about its own intrinsics that halve a register (GCC bug 105593).
      alignas(64) std::array<float, 16> lanes;
      _mm512_store_ps(lanes.data(), _mm512_add_ps(sums[r][q][0], sums[r][q][1]));
      scores[q * score_stride + r] =
          sum_8_lanes(_mm256_add_ps(_mm256_load_ps(lanes.data()), _mm256_load_ps(lanes.data() + 8)));
    }
  }
}

template <int kQueries>
__attribute__((target("avx512f,avx2,fma"))) void dot_queries_avx512(const float* const* rows,
                                                                    int64_t row_count, const float* queries,
                                                                    int64_t dim, float* scores) {
  int64_t r = 0;
  // A single query waits for memory, which is quickest read in one stream (43 GB/s against 26 in four);
  // several queries share the rows they load.
  constexpr bool kGrouped = kQueries > 1;
  for (; kGrouped && r + kDotRowGroup <= row_count; r += kDotRowGroup) {
    dot_group_avx512<kDotRowGroup, kQueries>(rows + r, queries, dim, scores + r, row_count);
  }
  for (; r < row_count; ++r) dot_group_avx512<1, kQueries>(rows + r, queries, dim, scores + r, row_count);
}

__attribute__((target("avx512f,avx2,fma"))) void dot_avx512(const float* const* rows, int64_t row_count,
                                                            const float* queries, int64_t query_count,
                                                            int64_t dim, float* scores) {
  const int64_t padded = padded_dim(dim);
  int64_t q = 0;
  for (; q + 3 <= query_count; q += 3) {
    dot_queries_avx512<3>(rows, row_count, queries + q * padded, dim, scores + q * row_count);
  }
  for (; q < query_count; ++q) {
    dot_queries_avx512<1>(rows, row_count, queries + q * padded, dim, scores + q * row_count);
  }
}

#endif

}  // namespace

std::span<const NamedDotKernel> dot_kernels() {
  // In order of speed, so that the processor's list is a tail of this one: whatever has AVX-512 has AVX2.
  static constexpr NamedDotKernel kAll[] = {
#if defined(__x86_64__)
    {"avx512", dot_avx512},
    {"avx2", dot_avx2},
#endif
    {"portable", dot_portable},
  };
  const std::span<const NamedDotKernel> all(kAll);
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0;
  return all.subspan(avx512 ? 0 : avx2 ? 1 : 2);
#else
  return all;
#endif
}

}  // namespace saccade
