#include "saccade/index/int8_row_kernels.h"

#include <algorithm>
#include <vector>

#include "saccade/index/unroll.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(SACCADE_DOTPROD)
#include <arm_neon.h>
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

#elif defined(SACCADE_DOTPROD)

constexpr int64_t kArmRows = 4;
constexpr int64_t kDotProdParts = 6;  // 24 sums and 4 rows in registers
constexpr int64_t kI8mmPairs = 4;
// Prefetch distance in rows.
constexpr int64_t kFetchRows = 16;

// Multiplies four rows with kParts parts. The instruction takes signed bytes: 128 is subtracted from those of rows, and
// 128 times the sum of a part (`added`) makes up for it. kFetch: prefetches later rows.
template <int kParts, bool kFetch>
SACCADE_DOTPROD void block_dotprod(const std::byte* const* rows, int64_t stride, int64_t columns,
                                   const int8_t* parts, const int32_t* added, int32_t* sums,
                                   int64_t sum_stride) {
  const uint8x16_t sign = vdupq_n_u8(0x80);
  int32x4_t lanes[kParts][kArmRows];
  SACCADE_UNROLL
  for (int p = 0; p < kParts; ++p) {
    SACCADE_UNROLL
    for (int r = 0; r < kArmRows; ++r) lanes[p][r] = vdupq_n_s32(0);
  }
  for (int64_t c = 0; c < columns; c += 16) {
    int8x16_t row[kArmRows];
    SACCADE_UNROLL
    for (int r = 0; r < kArmRows; ++r) {
      const auto* from = reinterpret_cast<const uint8_t*>(rows[r] + c);
      if (kFetch && c % kInt8Columns == 0) __builtin_prefetch(from + kFetchRows * stride);
      row[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(from), sign));
    }
    SACCADE_UNROLL
    for (int p = 0; p < kParts; ++p) {
      const int8x16_t part = vld1q_s8(parts + p * columns + c);
      SACCADE_UNROLL
      for (int r = 0; r < kArmRows; ++r) lanes[p][r] = vdotq_s32(lanes[p][r], row[r], part);
    }
  }
  SACCADE_UNROLL
  for (int p = 0; p < kParts; ++p) {
    const int32x4_t four =
        vpaddq_s32(vpaddq_s32(lanes[p][0], lanes[p][1]), vpaddq_s32(lanes[p][2], lanes[p][3]));
    vst1q_s32(sums + p * sum_stride, vaddq_s32(four, vdupq_n_s32(added[p])));
  }
}

// Multiplies four rows with kPairs pairs of parts, which lie in `pairs` in turns of 8 bytes.
template <int kPairs, bool kFetch>
SACCADE_I8MM void block_i8mm(const std::byte* const* rows, int64_t stride, int64_t columns,
                             const int8_t* pairs, int32_t* sums, int64_t sum_stride) {
  int32x4_t products[kPairs][2];  // rows 0 and 1, then 2 and 3: of each row the two parts
  SACCADE_UNROLL
  for (int p = 0; p < kPairs; ++p) products[p][0] = products[p][1] = vdupq_n_s32(0);
  for (int64_t c = 0; c < columns; c += 16) {
    uint64x2_t row[kArmRows];
    SACCADE_UNROLL
    for (int r = 0; r < kArmRows; ++r) {
      const auto* from = reinterpret_cast<const uint8_t*>(rows[r] + c);
      if (kFetch && c % kInt8Columns == 0) __builtin_prefetch(from + kFetchRows * stride);
      row[r] = vreinterpretq_u64_u8(vld1q_u8(from));
    }
    uint8x16_t first[2];   // columns 0 to 7 of two rows
    uint8x16_t second[2];  // columns 8 to 15
    SACCADE_UNROLL
    for (int i = 0; i < 2; ++i) {
      first[i] = vreinterpretq_u8_u64(vzip1q_u64(row[2 * i], row[2 * i + 1]));
      second[i] = vreinterpretq_u8_u64(vzip2q_u64(row[2 * i], row[2 * i + 1]));
    }
    SACCADE_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      const int8_t* pair = pairs + 2 * (p * columns + c);
      const int8x16_t pair_first = vld1q_s8(pair);
      const int8x16_t pair_second = vld1q_s8(pair + 16);
      SACCADE_UNROLL
      for (int i = 0; i < 2; ++i) {
        products[p][i] = vusmmlaq_s32(products[p][i], first[i], pair_first);
        products[p][i] = vusmmlaq_s32(products[p][i], second[i], pair_second);
      }
    }
  }
  SACCADE_UNROLL
  for (int p = 0; p < kPairs; ++p) {
    vst1q_s32(sums + 2 * p * sum_stride, vuzp1q_s32(products[p][0], products[p][1]));
    vst1q_s32(sums + (2 * p + 1) * sum_stride, vuzp2q_s32(products[p][0], products[p][1]));
  }
}

// Calls body(four rows, first row, count) for groups of four rows. The last group repeats its last row.
template <typename Body>
void for_four_rows(const std::byte* rows, int64_t row_count, int64_t stride, const Body& body) {
  for (int64_t r = 0; r < row_count; r += kArmRows) {
    const std::byte* four[kArmRows];
    for (int64_t i = 0; i < kArmRows; ++i) four[i] = rows + std::min(r + i, row_count - 1) * stride;
    body(four, r, std::min(kArmRows, row_count - r));
  }
}

using DotProdBlock = void (*)(const std::byte* const*, int64_t, int64_t, const int8_t*, const int32_t*,
                              int32_t*, int64_t);

template <bool kFetch>
void any_block_dotprod(const std::byte* const* rows, int64_t stride, int64_t columns, const int8_t* parts,
                       int64_t part_count, const int32_t* added, int32_t* sums, int64_t sum_stride) {
  static constexpr DotProdBlock kBlocks[kDotProdParts] = {block_dotprod<1, kFetch>, block_dotprod<2, kFetch>,
                                                          block_dotprod<3, kFetch>, block_dotprod<4, kFetch>,
                                                          block_dotprod<5, kFetch>, block_dotprod<6, kFetch>};
  kBlocks[part_count - 1](rows, stride, columns, parts, added, sums, sum_stride);
}

void sums_dotprod(const std::byte* rows, int64_t row_count, int64_t stride, int64_t columns,
                  const int8_t* parts, int64_t part_count, int32_t* sums) {
  std::vector<int32_t> added(static_cast<size_t>(part_count));
  for (int64_t p = 0; p < part_count; ++p) {
    int32_t sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += parts[p * columns + c];
    added[static_cast<size_t>(p)] = 128 * sum;
  }
  for_four_rows(rows, row_count, stride, [&](const std::byte* const* four, int64_t r, int64_t count) {
    for (int64_t p = 0; p < part_count; p += kDotProdParts) {
      const int64_t some = std::min(kDotProdParts, part_count - p);
      const auto block = p == 0 ? any_block_dotprod<true> : any_block_dotprod<false>;
      const int32_t* starts = added.data() + p;
      if (count == kArmRows) {
        block(four, stride, columns, parts + p * columns, some, starts, sums + p * row_count + r, row_count);
        continue;
      }
      int32_t rest[kDotProdParts * kArmRows];
      block(four, stride, columns, parts + p * columns, some, starts, rest, kArmRows);
      for (int64_t i = 0; i < some; ++i) {
        std::copy_n(rest + i * kArmRows, count, sums + (p + i) * row_count + r);
      }
    }
  });
}

using I8mmBlock = void (*)(const std::byte* const*, int64_t, int64_t, const int8_t*, int32_t*, int64_t);

template <bool kFetch>
void any_block_i8mm(const std::byte* const* rows, int64_t stride, int64_t columns, const int8_t* pairs,
                    int64_t pair_count, int32_t* sums, int64_t sum_stride) {
  static constexpr I8mmBlock kBlocks[kI8mmPairs] = {block_i8mm<1, kFetch>, block_i8mm<2, kFetch>,
                                                    block_i8mm<3, kFetch>, block_i8mm<4, kFetch>};
  kBlocks[pair_count - 1](rows, stride, columns, pairs, sums, sum_stride);
}

void sums_i8mm(const std::byte* rows, int64_t row_count, int64_t stride, int64_t columns, const int8_t* parts,
               int64_t part_count, int32_t* sums) {
  // Pairs of parts, eight bytes of one, then of the other. A last part without a second has zeros beside it.
  const int64_t pair_count = (part_count + 1) / 2;
  std::vector<int8_t> pairs(static_cast<size_t>(2 * pair_count * columns));
  for (int64_t p = 0; p < part_count; ++p) {
    const int8_t* from = parts + p * columns;
    int8_t* to = pairs.data() + p / 2 * 2 * columns + p % 2 * 8;
    for (int64_t c = 0; c < columns; c += 8) std::copy_n(from + c, 8, to + 2 * c);
  }
  for_four_rows(rows, row_count, stride, [&](const std::byte* const* four, int64_t r, int64_t count) {
    for (int64_t p = 0; p < pair_count; p += kI8mmPairs) {
      const int64_t some = std::min(kI8mmPairs, pair_count - p);
      const auto block = p == 0 ? any_block_i8mm<true> : any_block_i8mm<false>;
      const int8_t* from = pairs.data() + 2 * p * columns;
      const int64_t filled = std::min(2 * some, part_count - 2 * p);
      if (count == kArmRows && filled == 2 * some) {
        block(four, stride, columns, from, some, sums + 2 * p * row_count + r, row_count);
        continue;
      }
      int32_t rest[2 * kI8mmPairs * kArmRows];
      block(four, stride, columns, from, some, rest, kArmRows);
      for (int64_t i = 0; i < filled; ++i) {
        std::copy_n(rest + i * kArmRows, count, sums + (2 * p + i) * row_count + r);
      }
    }
  });
}

#endif

}  // namespace

std::span<const NamedInt8Kernel> int8_kernels() {
  static const std::vector<NamedInt8Kernel> kKernels = kernels_for_cpu<NamedInt8Kernel>({
#if defined(__x86_64__)
    {"avx512_vnni", CpuLevel::kAvx512Vnni, sums_vnni}, {"avx2", CpuLevel::kAvx2, sums_avx2},
#elif defined(SACCADE_DOTPROD)
    {"i8mm", CpuLevel::kI8mm, sums_i8mm}, {"dotprod", CpuLevel::kDotProd, sums_dotprod},
#endif
        {"portable", CpuLevel::kPortable, sums_portable},
  });
  return kKernels;
}

}  // namespace saccade
