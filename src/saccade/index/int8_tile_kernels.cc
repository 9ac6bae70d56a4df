#include "saccade/index/int8_tile_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "saccade/index/unroll.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

constexpr int64_t kGroup = 4;  // columns that lie together

void turn_portable(const std::byte* rows, int64_t count, int64_t stride, int64_t columns,
                   std::byte* side_by_side) {
  std::fill_n(side_by_side, kInt8TileRows * columns, std::byte{0});
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < columns; c += kGroup) {
      std::memcpy(side_by_side + c * kInt8TileRows + r * kGroup, rows + r * stride + c, kGroup);
    }
  }
}

// Calls body(code, r, c) for each of the tile's bytes.
template <typename Body>
void for_each_code(const std::byte* side_by_side, int64_t columns, const Body& body) {
  for (int64_t c = 0; c < columns; ++c) {
    const std::byte* group = side_by_side + c / kGroup * kGroup * kInt8TileRows + c % kGroup;
    for (int64_t r = 0; r < kInt8TileRows; ++r) body(static_cast<int32_t>(group[r * kGroup]), r, c);
  }
}

void multiply_portable(const std::byte* side_by_side, int64_t columns, const int8_t* parts,
                       int64_t part_count, int32_t* sums, const std::byte* /*next*/) {
  std::fill_n(sums, part_count * kInt8TileRows, 0);
  for (int64_t p = 0; p < part_count; ++p) {
    for_each_code(side_by_side, columns, [&](int32_t code, int64_t r, int64_t c) {
      sums[p * kInt8TileRows + r] += code * parts[p * columns + c];
    });
  }
}

void square_portable(const std::byte* side_by_side, int64_t columns, int32_t* squares) {
  std::fill_n(squares, kInt8TileRows, 0);
  for_each_code(side_by_side, columns,
                [&](int32_t code, int64_t r, int64_t) { squares[r] += (code - 128) * (code - 128); });
}

uint64_t reach_portable(const Int8TileTerms& terms, const Int8TileQuery& query, const int32_t* sums,
                        float limit) {
  uint64_t reached = 0;
  for (size_t r = 0; r < kInt8TileRows; ++r) {
    const float about = terms.scale[r] * (query.step * static_cast<float>(sums[r] - query.start));
    const float of_length = query.of_length * terms.length[r];
    const float of_error = query.of_error * terms.error[r];
    const float most = about + ((of_length + of_error) + query.least);
    reached |= static_cast<uint64_t>(!(most < limit)) << r;
  }
  return reached;
}

#if defined(__x86_64__)

#define SACCADE_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

// Masks of the masked intrinsics: GCC 12 warns about its own unmasked ones (GCC bug 105593).
constexpr __mmask16 kAllLanes = 0xffff;
constexpr __mmask8 kAllPairs = 0xff;
constexpr int kVectors = 4;        // of 16 rows each
constexpr int64_t kTileParts = 6;  // 24 sums, 4 rows and a part in registers
constexpr int64_t kVectorRows = kInt8TileRows / kVectors;
constexpr int64_t kLine = 64;  // bytes that are fetched together

// Turns 16 rows of 16 groups: lane r of vector c is lane c of row r.
SACCADE_VNNI inline void turn_16(__m512i (&rows)[16]) {
  __m512i pairs[16];
  SACCADE_UNROLL
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_maskz_unpacklo_epi32(kAllLanes, rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_maskz_unpackhi_epi32(kAllLanes, rows[i], rows[i + 1]);
  }
  // Four rows of one column a quarter: of column j, j + 4, j + 8 and j + 12.
  SACCADE_UNROLL
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_maskz_unpacklo_epi64(kAllPairs, pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm512_maskz_unpackhi_epi64(kAllPairs, pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm512_maskz_unpacklo_epi64(kAllPairs, pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm512_maskz_unpackhi_epi64(kAllPairs, pairs[i + 1], pairs[i + 3]);
  }
  SACCADE_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512i low_even = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[j], rows[j + 4], 0x88);
    const __m512i low_odd = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[j], rows[j + 4], 0xdd);
    const __m512i high_even = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[j + 8], rows[j + 12], 0x88);
    const __m512i high_odd = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[j + 8], rows[j + 12], 0xdd);
    pairs[j] = _mm512_maskz_shuffle_i32x4(kAllLanes, low_even, high_even, 0x88);
    pairs[j + 8] = _mm512_maskz_shuffle_i32x4(kAllLanes, low_even, high_even, 0xdd);
    pairs[j + 4] = _mm512_maskz_shuffle_i32x4(kAllLanes, low_odd, high_odd, 0x88);
    pairs[j + 12] = _mm512_maskz_shuffle_i32x4(kAllLanes, low_odd, high_odd, 0xdd);
  }
  for (int i = 0; i < 16; ++i) rows[i] = pairs[i];
}

SACCADE_VNNI void turn_vnni(const std::byte* rows, int64_t count, int64_t stride, int64_t columns,
                            std::byte* side_by_side) {
  for (int64_t first = 0; first < kInt8TileRows; first += kVectorRows) {
    for (int64_t c = 0; c < columns; c += kVectorRows * kGroup) {
      __m512i groups[16];
      for (int64_t r = 0; r < kVectorRows; ++r) {
        groups[r] =
            first + r < count ? _mm512_loadu_si512(rows + (first + r) * stride + c) : _mm512_setzero_si512();
      }
      turn_16(groups);
      std::byte* to = side_by_side + c * kInt8TileRows + first * kGroup;
      for (int64_t i = 0; i < kVectorRows; ++i) {
        _mm512_store_si512(to + i * kGroup * kInt8TileRows, groups[i]);
      }
    }
  }
}

// kFetch: number of lines of `next` that are prefetched with each group.
template <int kParts, int kFetch>
SACCADE_VNNI void multiply_parts(const std::byte* side_by_side, int64_t columns, const int8_t* parts,
                                 int32_t* sums, const std::byte* next) {
  __m512i lanes[kParts][kVectors];
  SACCADE_UNROLL
  for (int p = 0; p < kParts; ++p) {
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) lanes[p][v] = _mm512_setzero_si512();
  }
  for (int64_t c = 0; c < columns; c += kGroup) {
    SACCADE_UNROLL
    for (int i = 0; i < kFetch; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(next + (c / kGroup * kFetch + i) * kLine), _MM_HINT_T1);
    }
    const std::byte* group = side_by_side + c * kInt8TileRows;
    __m512i rows[kVectors];
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) rows[v] = _mm512_load_si512(group + v * kVectorRows * kGroup);
    SACCADE_UNROLL
    for (int p = 0; p < kParts; ++p) {
      int32_t four;
      std::memcpy(&four, parts + p * columns + c, sizeof(four));
      const __m512i part = _mm512_set1_epi32(four);
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) lanes[p][v] = _mm512_dpbusd_epi32(lanes[p][v], rows[v], part);
    }
  }
  SACCADE_UNROLL
  for (int p = 0; p < kParts; ++p) {
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(sums + p * kInt8TileRows + v * kVectorRows, lanes[p][v]);
    }
  }
}

using Parts = void (*)(const std::byte*, int64_t, const int8_t*, int32_t*, const std::byte*);

template <int kFetch>
void multiply_any_parts(const std::byte* side_by_side, int64_t columns, const int8_t* parts,
                        int64_t part_count, int32_t* sums, const std::byte* next) {
  static constexpr Parts kByCount[kTileParts] = {multiply_parts<1, kFetch>, multiply_parts<2, kFetch>,
                                                 multiply_parts<3, kFetch>, multiply_parts<4, kFetch>,
                                                 multiply_parts<5, kFetch>, multiply_parts<6, kFetch>};
  kByCount[part_count - 1](side_by_side, columns, parts, sums, next);
}

// All passes over the groups together prefetch a tile: 4 lines for each group.
void multiply_vnni(const std::byte* side_by_side, int64_t columns, const int8_t* parts, int64_t part_count,
                   int32_t* sums, const std::byte* next) {
  constexpr int64_t kLines = kInt8TileRows * kGroup / kLine;
  using Any = void (*)(const std::byte*, int64_t, const int8_t*, int64_t, int32_t*, const std::byte*);
  static constexpr Any kByFetched[kLines + 1] = {multiply_any_parts<0>, multiply_any_parts<1>,
                                                 multiply_any_parts<2>, multiply_any_parts<3>,
                                                 multiply_any_parts<4>};
  const int64_t passes = (part_count + kTileParts - 1) / kTileParts;
  const int64_t together = (kLines + passes - 1) / passes;
  int64_t fetched = 0;  // lines of each group
  for (int64_t p = 0; p < part_count; p += kTileParts) {
    const int64_t now = std::min(together, kLines - fetched);
    kByFetched[now](side_by_side, columns, parts + p * columns, std::min(kTileParts, part_count - p),
                    sums + p * kInt8TileRows, next + fetched * columns / kGroup * kLine);
    fetched += now;
  }
}

// The sum of b (b - 128) and that of b make up the sum of (b - 128)^2.
SACCADE_VNNI void square_vnni(const std::byte* side_by_side, int64_t columns, int32_t* squares) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int32_t>(0x80808080U));
  const __m512i ones = _mm512_set1_epi32(0x01010101);
  const __m512i all = _mm512_set1_epi32(static_cast<int32_t>(128 * columns));
  for (int v = 0; v < kVectors; ++v) {
    __m512i products = _mm512_setzero_si512();
    __m512i sums = _mm512_setzero_si512();
    for (int64_t c = 0; c < columns; c += kGroup) {
      const __m512i codes = _mm512_load_si512(side_by_side + c * kInt8TileRows + v * kVectorRows * kGroup);
      products = _mm512_dpbusd_epi32(products, codes, _mm512_xor_si512(codes, sign));
      sums = _mm512_dpbusd_epi32(sums, codes, ones);
    }
    const __m512i offset = _mm512_maskz_slli_epi32(kAllLanes, _mm512_sub_epi32(sums, all), 7);
    _mm512_storeu_si512(squares + v * kVectorRows, _mm512_sub_epi32(products, offset));
  }
}

SACCADE_VNNI uint64_t reach_vnni(const Int8TileTerms& terms, const Int8TileQuery& query, const int32_t* sums,
                                 float limit) {
  const __m512i start = _mm512_set1_epi32(query.start);
  const __m512 step = _mm512_set1_ps(query.step);
  const __m512 of_length = _mm512_set1_ps(query.of_length);
  const __m512 of_error = _mm512_set1_ps(query.of_error);
  const __m512 least = _mm512_set1_ps(query.least);
  const __m512 limits = _mm512_set1_ps(limit);
  uint64_t reached = 0;
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = v * kVectorRows;
    const __m512 sum =
        _mm512_maskz_cvtepi32_ps(kAllLanes, _mm512_sub_epi32(_mm512_loadu_si512(sums + at), start));
    const __m512 about = _mm512_mul_ps(_mm512_load_ps(terms.scale.data() + at), _mm512_mul_ps(step, sum));
    const __m512 by_length = _mm512_mul_ps(of_length, _mm512_load_ps(terms.length.data() + at));
    const __m512 by_error = _mm512_mul_ps(of_error, _mm512_load_ps(terms.error.data() + at));
    const __m512 most = _mm512_add_ps(about, _mm512_add_ps(_mm512_add_ps(by_length, by_error), least));
    reached |= static_cast<uint64_t>(_mm512_cmp_ps_mask(most, limits, _CMP_NLT_UQ)) << at;
  }
  return reached;
}

#endif

}  // namespace

std::span<const NamedInt8TileKernel> int8_tile_kernels() {
  static const std::vector<NamedInt8TileKernel> kKernels = kernels_for_cpu<NamedInt8TileKernel>({
#if defined(__x86_64__)
    {"avx512_vnni", CpuLevel::kAvx512Vnni, turn_vnni, multiply_vnni, square_vnni, reach_vnni},
#endif
        {"portable", CpuLevel::kPortable, turn_portable, multiply_portable, square_portable, reach_portable},
  });
  return kKernels;
}

}  // namespace saccade
