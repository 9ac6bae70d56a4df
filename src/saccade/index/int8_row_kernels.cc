#include "saccade/index/int8_row_kernels.h"

#include <algorithm>
#include <vector>

#include "saccade/index/unroll.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

void sums_portable(const std::byte* rows, int64_t row_count, int64_t stride, int64_t columns,
                   const int8_t* parts, int64_t part_count, int32_t* sums) {
  for (int64_t p = 0; p < part_count; ++p) {
    const int8_t* part = parts + p * columns;
    for (int64_t r = 0; r < row_count; ++r) {
      const auto* row = reinterpret_cast<const uint8_t*>(rows + r * stride);
      int32_t sum = 0;
      for (int64_t c = 0; c < columns; ++c) sum += int32_t{row[c]} * part[c];
      sums[p * row_count + r] = sum;
    }
  }
}

#if defined(__x86_64__)

// Mask of the masked intrinsics: GCC 12 warns about its own unmasked ones (GCC bug 105593).
constexpr __mmask16 kAllLanes = 0xffff;
constexpr int64_t kRows512 = 4;
constexpr int64_t kParts512 = 6;  // 24 sums and 4 rows in registers
// Prefetch distance in rows: more than one group of four, which takes 20 ns.
constexpr int64_t kFetchRows = 16;

// Computes the last steps of four sums of 16 lanes: four integers.
__attribute__((target("avx512f"), always_inline)) inline void sum_16_lanes(const __m512i* rows,
                                                                           int32_t* sums) {
  __m512i pairs[2];  // 8 lanes of one row, then of the next
  for (int i = 0; i < 2; ++i) {
    const __m512i a = rows[2 * i];
    const __m512i b = rows[2 * i + 1];
    pairs[i] = _mm512_add_epi32(_mm512_maskz_shuffle_i32x4(kAllLanes, a, b, 0x44),
                                _mm512_maskz_shuffle_i32x4(kAllLanes, a, b, 0xee));
  }
  __m512i all = _mm512_add_epi32(_mm512_maskz_shuffle_i32x4(kAllLanes, pairs[0], pairs[1], 0x88),
                                 _mm512_maskz_shuffle_i32x4(kAllLanes, pairs[0], pairs[1], 0xdd));
  all = _mm512_add_epi32(all, _mm512_maskz_shuffle_epi32(kAllLanes, all, static_cast<_MM_PERM_ENUM>(0xee)));
  all = _mm512_add_epi32(all, _mm512_maskz_shuffle_epi32(kAllLanes, all, static_cast<_MM_PERM_ENUM>(0x55)));
  // One sum a quarter now; those lie side by side after this.
  // In a register: compressing into memory takes some AMD processors a hundred cycles.
  _mm512_mask_storeu_epi32(sums, 0x000f, _mm512_maskz_compress_epi32(0x1111, all));
}

// Multiplies kRows (4 or 1) rows with kParts parts. kFetch: prefetches later rows.
template <int kRows, int kParts, bool kFetch>
__attribute__((target("avx512f,avx512vnni"))) void block_vnni(const std::byte* rows, int64_t stride,
                                                              int64_t columns, const int8_t* parts,
                                                              int32_t* sums, int64_t sum_stride) {
  __m512i lanes[kParts][kRows512];
  for (int p = 0; p < kParts; ++p) {
    for (int r = 0; r < kRows512; ++r) lanes[p][r] = _mm512_setzero_si512();
  }
  for (int64_t c = 0; c < columns; c += kInt8Columns) {
    __m512i row[kRows];
    for (int r = 0; r < kRows; ++r) {
      row[r] = _mm512_loadu_si512(rows + r * stride + c);
      if (kFetch) {
        _mm_prefetch(reinterpret_cast<const char*>(rows + (kFetchRows + r) * stride + c), _MM_HINT_T0);
      }
    }
    for (int p = 0; p < kParts; ++p) {
      const __m512i part = _mm512_loadu_si512(parts + p * columns + c);
      for (int r = 0; r < kRows; ++r) lanes[p][r] = _mm512_dpbusd_epi32(lanes[p][r], row[r], part);
    }
  }
  SACCADE_UNROLL
  for (int p = 0; p < kParts; ++p) {
    if (kRows == kRows512) {
      sum_16_lanes(lanes[p], sums + p * sum_stride);
      continue;
    }
    alignas(16) int32_t four[kRows512];
    sum_16_lanes(lanes[p], four);
    std::copy_n(four, kRows, sums + p * sum_stride);
  }
}

using Block = void (*)(const std::byte*, int64_t, int64_t, const int8_t*, int32_t*, int64_t);

template <int kRows, bool kFetch>
void any_block_vnni(const std::byte* rows, int64_t stride, int64_t columns, const int8_t* parts,
                    int64_t part_count, int32_t* sums, int64_t sum_stride) {
  static constexpr Block kBlocks[kParts512] = {block_vnni<kRows, 1, kFetch>, block_vnni<kRows, 2, kFetch>,
                                               block_vnni<kRows, 3, kFetch>, block_vnni<kRows, 4, kFetch>,
                                               block_vnni<kRows, 5, kFetch>, block_vnni<kRows, 6, kFetch>};
  kBlocks[part_count - 1](rows, stride, columns, parts, sums, sum_stride);
}

void sums_vnni(const std::byte* rows, int64_t row_count, int64_t stride, int64_t columns, const int8_t* parts,
               int64_t part_count, int32_t* sums) {
  int64_t r = 0;
  for (; r + kRows512 <= row_count; r += kRows512) {
    for (int64_t p = 0; p < part_count; p += kParts512) {
      const auto block = p == 0 ? any_block_vnni<kRows512, true> : any_block_vnni<kRows512, false>;
      block(rows + r * stride, stride, columns, parts + p * columns, std::min(kParts512, part_count - p),
            sums + p * row_count + r, row_count);
    }
  }
  for (; r < row_count; ++r) {
    for (int64_t p = 0; p < part_count; p += kParts512) {
      any_block_vnni<1, false>(rows + r * stride, stride, columns, parts + p * columns,
                               std::min(kParts512, part_count - p), sums + p * row_count + r, row_count);
    }
  }
}

// Multiplies one row with kParts parts. Products use 16 bits, because the byte instruction saturates.
template <int kParts>
__attribute__((target("avx2"))) void row_avx2(const std::byte* row, int64_t columns, const int8_t* parts,
                                              int32_t* sums, int64_t sum_stride) {
  __m256i lanes[kParts];
  for (int p = 0; p < kParts; ++p) lanes[p] = _mm256_setzero_si256();
  for (int64_t c = 0; c < columns; c += 16) {
    const __m256i values = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + c)));
    for (int p = 0; p < kParts; ++p) {
      const auto* from = reinterpret_cast<const __m128i*>(parts + p * columns + c);
      const __m256i part = _mm256_cvtepi8_epi16(_mm_loadu_si128(from));
      lanes[p] = _mm256_add_epi32(lanes[p], _mm256_madd_epi16(values, part));
    }
  }
  for (int p = 0; p < kParts; ++p) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(lanes[p]), _mm256_extracti128_si256(lanes[p], 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xee));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x55));
    sums[p * sum_stride] = _mm_cvtsi128_si32(four);
  }
}

void sums_avx2(const std::byte* rows, int64_t row_count, int64_t stride, int64_t columns, const int8_t* parts,
               int64_t part_count, int32_t* sums) {
  for (int64_t r = 0; r < row_count; ++r) {
    const std::byte* row = rows + r * stride;
    int64_t p = 0;
    for (; p + 3 <= part_count; p += 3) {
      row_avx2<3>(row, columns, parts + p * columns, sums + p * row_count + r, row_count);
    }
    for (; p < part_count; ++p) {
      row_avx2<1>(row, columns, parts + p * columns, sums + p * row_count + r, row_count);
    }
  }
}

#endif

}  // namespace

std::span<const NamedInt8Kernel> int8_kernels() {
  static const std::vector<NamedInt8Kernel> kKernels = kernels_for_cpu<NamedInt8Kernel>({
#if defined(__x86_64__)
    {"avx512_vnni", CpuLevel::kAvx512Vnni, sums_vnni}, {"avx2", CpuLevel::kAvx2, sums_avx2},
#endif
        {"portable", CpuLevel::kPortable, sums_portable},
  });
  return kKernels;
}

}  // namespace saccade
