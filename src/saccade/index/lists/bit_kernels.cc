#include "saccade/index/lists/bit_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

// The planes from the highest, whose weight is negative, to the lowest: twice what there is, plus the next.
void sums_portable(const uint64_t* rows, int64_t row_count, int64_t words, const uint64_t* planes,
                   int32_t* sums) {
  for (int64_t r = 0; r < row_count; ++r) {
    int32_t sum = 0;
    for (int p = kBitPlanes - 1; p >= 0; --p) {
      int32_t ones = 0;
      for (int64_t w = 0; w < words; ++w) ones += std::popcount(rows[r * words + w] & planes[p * words + w]);
      sum = p == kBitPlanes - 1 ? -ones : 2 * sum + ones;
    }
    sums[r] = sum;
  }
}

#if defined(__x86_64__)

constexpr int64_t kWords512 = 8;
constexpr int64_t kWords256 = 4;

// Adds up 8 lanes. Through memory, because GCC 12 warns about its own intrinsics that take a register apart (GCC bug 105593).
__attribute__((target("avx512f"), always_inline)) inline int32_t sum_8_lanes(__m512i lanes) {
  alignas(64) std::array<int64_t, 8> sums;
  _mm512_store_si512(sums.data(), lanes);
  const __m256i four = _mm256_add_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(sums.data())),
                                        _mm256_load_si256(reinterpret_cast<const __m256i*>(sums.data() + 4)));
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return static_cast<int32_t>(_mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1));
}

// Rows of up to 8 words, the planes in registers.
__attribute__((target("avx512f,avx512vpopcntdq"))) void short_sums_512(const uint64_t* rows,
                                                                       int64_t row_count, int64_t words,
                                                                       const uint64_t* planes,
                                                                       int32_t* sums) {
  const auto mask = static_cast<__mmask8>((1U << static_cast<unsigned>(words)) - 1);
  __m512i plane[kBitPlanes];
  for (int p = 0; p < kBitPlanes; ++p) {
    plane[p] = _mm512_maskz_loadu_epi64(mask, planes + p * words);
  }
  for (int64_t r = 0; r < row_count; ++r) {
    const __m512i row = _mm512_maskz_loadu_epi64(mask, rows + r * words);
    __m512i sum = _mm512_sub_epi64(_mm512_setzero_si512(),
                                   _mm512_popcnt_epi64(_mm512_and_si512(row, plane[kBitPlanes - 1])));
    for (int p = kBitPlanes - 2; p >= 0; --p) {
      sum =
          _mm512_add_epi64(_mm512_add_epi64(sum, sum), _mm512_popcnt_epi64(_mm512_and_si512(row, plane[p])));
    }
    sums[r] = sum_8_lanes(sum);
  }
}

__attribute__((target("avx512f,avx512vpopcntdq"))) void sums_512(const uint64_t* rows, int64_t row_count,
                                                                 int64_t words, const uint64_t* planes,
                                                                 int32_t* sums) {
  if (words <= kWords512) {
    short_sums_512(rows, row_count, words, planes, sums);
    return;
  }
  for (int64_t r = 0; r < row_count; ++r) {
    __m512i all = _mm512_setzero_si512();
    for (int64_t w = 0; w < words; w += kWords512) {
      const auto left = static_cast<unsigned>(std::min(kWords512, words - w));
      const auto mask = static_cast<__mmask8>((1U << left) - 1);
      const __m512i row = _mm512_maskz_loadu_epi64(mask, rows + r * words + w);
      __m512i sum = _mm512_setzero_si512();
      for (int p = kBitPlanes - 1; p >= 0; --p) {
        const __m512i plane = _mm512_maskz_loadu_epi64(mask, planes + p * words + w);
        const __m512i ones = _mm512_popcnt_epi64(_mm512_and_si512(row, plane));
        sum = p == kBitPlanes - 1 ? _mm512_sub_epi64(sum, ones)
                                  : _mm512_add_epi64(_mm512_add_epi64(sum, sum), ones);
      }
      all = _mm512_add_epi64(all, sum);
    }
    sums[r] = sum_8_lanes(all);
  }
}

// Counts set bits in four words: by a table of half bytes (W. Mula, N. Kurz and D. Lemire, "Faster population counts
// using AVX2 instructions", The Computer Journal 61 (2018)).
__attribute__((target("avx2"), always_inline)) inline __m256i count_256(__m256i bits) {
  const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                         0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i half = _mm256_set1_epi8(0x0f);
  const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(bits, half));
  const __m256i high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bits, 4), half));
  return _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
}

__attribute__((target("avx2"))) void sums_avx2(const uint64_t* rows, int64_t row_count, int64_t words,
                                               const uint64_t* planes, int32_t* sums) {
  for (int64_t r = 0; r < row_count; ++r) {
    __m256i all = _mm256_setzero_si256();
    for (int64_t w = 0; w < words; w += kWords256) {
      const int64_t left = std::min(kWords256, words - w);
      const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(left), _mm256_setr_epi64x(0, 1, 2, 3));
      const auto load = [mask](const uint64_t* from) __attribute__((target("avx2"))) {
        return _mm256_maskload_epi64(reinterpret_cast<const long long*>(from), mask);
      };
      const __m256i row = load(rows + r * words + w);
      __m256i sum = _mm256_setzero_si256();
      for (int p = kBitPlanes - 1; p >= 0; --p) {
        const __m256i ones = count_256(_mm256_and_si256(row, load(planes + p * words + w)));
        sum = p == kBitPlanes - 1 ? _mm256_sub_epi64(sum, ones)
                                  : _mm256_add_epi64(_mm256_add_epi64(sum, sum), ones);
      }
      all = _mm256_add_epi64(all, sum);
    }
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    sums[r] = static_cast<int32_t>(_mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1));
  }
}

#endif

}  // namespace

std::span<const NamedBitKernel> bit_kernels() {
  static const std::vector<NamedBitKernel> kKernels = [] {
    std::vector<NamedBitKernel> kernels = kernels_for_cpu<NamedBitKernel>({
#if defined(__x86_64__)
      {"avx512_vpopcntdq", CpuLevel::kAvx512, sums_512}, {"avx2", CpuLevel::kAvx2, sums_avx2},
#endif
          {"portable", CpuLevel::kPortable, sums_portable},
    });
#if defined(__x86_64__)
    // Not a level of its own: no other kernel needs it.
    if (__builtin_cpu_supports("avx512vpopcntdq") == 0) {
      std::erase_if(kernels, [](const NamedBitKernel& kernel) { return kernel.level == CpuLevel::kAvx512; });
    }
#endif
    return kernels;
  }();
  return kKernels;
}

}  // namespace saccade
