#include "saccade/index/max_sim_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "saccade/core/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade {
namespace {

constexpr auto kLanes = static_cast<size_t>(kMaxSimLanes);
constexpr int64_t kMaxDim = 65'536;  // 255 * 127 * 65,536 is below 2^31

void begin_search(const PackedQuery& query, float* best, int32_t* where) {
  std::fill_n(best, query.lanes(), -std::numeric_limits<float>::infinity());
  std::fill_n(where, query.lanes(), -1);
}

float int8_scale(const std::byte* row, int64_t values) {
  float scale = 0;
  std::memcpy(&scale, row + values, sizeof(scale));
  return scale;
}

// --- portable ------------------------------------------------------------------------------------------

void take_dots(const std::array<float, kLanes>& dots, int64_t row, float* best, int32_t* where) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (!(dots[lane] > best[lane])) continue;  // NaN ends here too
    best[lane] = dots[lane];
    where[lane] = static_cast<int32_t>(row);
  }
}

void fp16_portable(const std::byte* rows, int64_t row_count, const PackedQuery& query, float* best,
                   int32_t* where) {
  begin_search(query, best, where);
  const int64_t dim = query.layout.dim;
  for (int64_t r = 0; r < row_count; ++r) {
    const std::byte* row = rows + r * 2 * dim;
    for (int64_t g = 0; g < query.groups; ++g) {
      const float* lanes = query.floats.data() + g * dim * kMaxSimLanes;
      std::array<float, kLanes> dots{};
      for (int64_t c = 0; c < dim; ++c, lanes += kMaxSimLanes) {
        uint16_t half = 0;
        std::memcpy(&half, row + 2 * c, sizeof(half));
        const float value = fp16_to_float(half);
        for (size_t lane = 0; lane < kLanes; ++lane) dots[lane] = std::fma(value, lanes[lane], dots[lane]);
      }
      take_dots(dots, r, best + g * kMaxSimLanes, where + g * kMaxSimLanes);
    }
  }
}

void int8_portable(const std::byte* rows, int64_t row_count, const PackedQuery& query, float* best,
                   int32_t* where) {
  begin_search(query, best, where);
  const int64_t values = int8_row_values(query.layout.dim);
  for (int64_t r = 0; r < row_count; ++r) {
    const std::byte* row = rows + r * stored_row_bytes(query.layout);
    const float scale = int8_scale(row, values);
    for (int64_t g = 0; g < query.groups; ++g) {
      const int8_t* bytes = query.bytes.data() + g * values * kMaxSimLanes;
      std::array<int32_t, kLanes> sums{};
      std::copy_n(query.starts.data() + g * kMaxSimLanes, kLanes, sums.begin());
      for (int64_t c = 0; c < values; ++c) {
        const int8_t* lanes = bytes + c / 4 * 4 * kMaxSimLanes + c % 4;
        for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<int>(row[c]) * lanes[4 * lane];
      }
      std::array<float, kLanes> dots{};
      for (size_t lane = 0; lane < kLanes; ++lane) dots[lane] = static_cast<float>(sums[lane]) * scale;
      take_dots(dots, r, best + g * kMaxSimLanes, where + g * kMaxSimLanes);
    }
  }
}

#if defined(__x86_64__)

// --- AVX-512 -------------------------------------------------------------------------------------------

// Number of rows in registers at a time. Enough sums are in flight to hide a multiply-add's latency on both
// ports; with two groups of lanes, they and their operands still fit the 32 registers.
constexpr int64_t kTile512 = 12;
// A tile is copied so that its rows are a fixed distance apart. One register then addresses all of them,
// where twelve would be spilled. Columns are cut into chunks for it: [chunks, kTile512, chunk].
constexpr int64_t kFp16Chunk = 128;  // floats
constexpr int64_t kInt8Chunk = 256;  // bytes
// Mask of the masked intrinsics: GCC 12 warns about its own unmasked ones (GCC bug 105593).
constexpr __mmask16 kAllLanes = 0xffff;

constexpr int64_t chunks_of(int64_t columns, int64_t chunk) {
  return (columns + chunk - 1) / chunk;
}

// Takes dots: one vector per row.
__attribute__((target("avx512f"), always_inline)) inline void take_512(const __m512* dots, int64_t first,
                                                                       int64_t count, int64_t stride,
                                                                       float* best, int32_t* where) {
  __m512 most = _mm512_loadu_ps(best);
  __m512i rows = _mm512_loadu_si512(where);
  for (int64_t r = 0; r < count; ++r) {
    const __mmask16 better = _mm512_cmp_ps_mask(dots[r * stride], most, _CMP_GT_OQ);
    most = _mm512_mask_mov_ps(most, better, dots[r * stride]);
    rows = _mm512_mask_mov_epi32(rows, better, _mm512_set1_epi32(static_cast<int32_t>(first + r)));
  }
  _mm512_storeu_ps(best, most);
  _mm512_storeu_si512(where, rows);
}

// tile: floats, of which `count` rows from `first` on are the item's.
template <int kGroups>
__attribute__((target("avx512f"))) void fp16_tile_512(const float* tile, int64_t first, int64_t count,
                                                      const float* lanes, int64_t dim, float* best,
                                                      int32_t* where) {
  __m512 sums[kTile512][kGroups];
  for (int r = 0; r < kTile512; ++r) {
    for (int g = 0; g < kGroups; ++g) sums[r][g] = _mm512_setzero_ps();
  }
  const float* query_at = lanes;
  for (int64_t begin = 0; begin < dim; begin += kFp16Chunk, tile += kTile512 * kFp16Chunk) {
    const float* end = tile + std::min(kFp16Chunk, dim - begin);
    for (const float* values = tile; values < end; ++values, query_at += kMaxSimLanes) {
      __m512 query[kGroups];
      for (int g = 0; g < kGroups; ++g) query[g] = _mm512_loadu_ps(query_at + g * dim * kMaxSimLanes);
      for (int r = 0; r < kTile512; ++r) {
        const __m512 value = _mm512_set1_ps(values[r * kFp16Chunk]);
        for (int g = 0; g < kGroups; ++g) sums[r][g] = _mm512_fmadd_ps(value, query[g], sums[r][g]);
      }
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    take_512(&sums[0][g], first, count, kGroups, best + g * kMaxSimLanes, where + g * kMaxSimLanes);
  }
}

__attribute__((target("avx512f,avx2,f16c"))) void restore_fp16(const std::byte* from, int64_t count,
                                                               float* to) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const auto* halves = reinterpret_cast<const __m256i*>(from + 2 * i);
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(halves)));
  }
  for (; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, sizeof(half));
    to[i] = fp16_to_float(half);
  }
}

void fp16_avx512(const std::byte* rows, int64_t row_count, const PackedQuery& query, float* best,
                 int32_t* where) {
  begin_search(query, best, where);
  const int64_t dim = query.layout.dim;
  std::vector<float> tile(static_cast<size_t>(chunks_of(dim, kFp16Chunk) * kTile512 * kFp16Chunk));
  for (int64_t first = 0; first < row_count; first += kTile512) {
    const int64_t count = std::min(kTile512, row_count - first);
    for (int64_t begin = 0; begin < dim; begin += kFp16Chunk) {
      for (int64_t r = 0; r < count; ++r) {
        restore_fp16(rows + ((first + r) * dim + begin) * 2, std::min(kFp16Chunk, dim - begin),
                     tile.data() + begin * kTile512 + r * kFp16Chunk);
      }
    }
    int64_t g = 0;
    for (; g + 2 <= query.groups; g += 2) {
      const int64_t lane = g * kMaxSimLanes;
      fp16_tile_512<2>(tile.data(), first, count, query.floats.data() + lane * dim, dim, best + lane,
                       where + lane);
    }
    if (g < query.groups) {
      const int64_t lane = g * kMaxSimLanes;
      fp16_tile_512<1>(tile.data(), first, count, query.floats.data() + lane * dim, dim, best + lane,
                       where + lane);
    }
  }
}

// tile: bytes as fp16_tile_512's floats; scales: one a row of the tile.
template <int kGroups>
__attribute__((target("avx512f,avx512vnni"))) void int8_tile_vnni(const std::byte* tile, const float* scales,
                                                                  int64_t first, int64_t count,
                                                                  const int8_t* bytes, const int32_t* starts,
                                                                  int64_t values, float* best,
                                                                  int32_t* where) {
  __m512i sums[kTile512][kGroups];
  for (int r = 0; r < kTile512; ++r) {
    for (int g = 0; g < kGroups; ++g) sums[r][g] = _mm512_loadu_si512(starts + g * kMaxSimLanes);
  }
  const int8_t* query_at = bytes;
  for (int64_t begin = 0; begin < values; begin += kInt8Chunk, tile += kTile512 * kInt8Chunk) {
    const std::byte* end = tile + std::min(kInt8Chunk, values - begin);
    for (const std::byte* fours = tile; fours < end; fours += 4, query_at += 4 * kMaxSimLanes) {
      __m512i query[kGroups];
      for (int g = 0; g < kGroups; ++g) query[g] = _mm512_loadu_si512(query_at + g * values * kMaxSimLanes);
      for (int r = 0; r < kTile512; ++r) {
        int32_t four = 0;
        std::memcpy(&four, fours + r * kInt8Chunk, sizeof(four));
        const __m512i value = _mm512_set1_epi32(four);
        for (int g = 0; g < kGroups; ++g) sums[r][g] = _mm512_dpbusd_epi32(sums[r][g], value, query[g]);
      }
    }
  }
  __m512 dots[kTile512][kGroups];
  for (int r = 0; r < kTile512; ++r) {
    const __m512 scale = _mm512_set1_ps(scales[r]);
    for (int g = 0; g < kGroups; ++g) {
      dots[r][g] = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAllLanes, sums[r][g]), scale);
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    take_512(&dots[0][g], first, count, kGroups, best + g * kMaxSimLanes, where + g * kMaxSimLanes);
  }
}

void int8_vnni(const std::byte* rows, int64_t row_count, const PackedQuery& query, float* best,
               int32_t* where) {
  begin_search(query, best, where);
  const int64_t values = int8_row_values(query.layout.dim);
  const int64_t width = stored_row_bytes(query.layout);
  std::vector<std::byte> tile(static_cast<size_t>(chunks_of(values, kInt8Chunk) * kTile512 * kInt8Chunk));
  std::array<float, static_cast<size_t>(kTile512)> scales{};
  for (int64_t first = 0; first < row_count; first += kTile512) {
    const int64_t count = std::min(kTile512, row_count - first);
    for (int64_t r = 0; r < count; ++r) {
      const std::byte* row = rows + (first + r) * width;
      for (int64_t begin = 0; begin < values; begin += kInt8Chunk) {
        std::memcpy(tile.data() + begin * kTile512 + r * kInt8Chunk, row + begin,
                    static_cast<size_t>(std::min(kInt8Chunk, values - begin)));
      }
      scales[static_cast<size_t>(r)] = int8_scale(row, values);
    }
    int64_t g = 0;
    for (; g + 2 <= query.groups; g += 2) {
      const int64_t lane = g * kMaxSimLanes;
      int8_tile_vnni<2>(tile.data(), scales.data(), first, count, query.bytes.data() + lane * values,
                        query.starts.data() + lane, values, best + lane, where + lane);
    }
    if (g < query.groups) {
      const int64_t lane = g * kMaxSimLanes;
      int8_tile_vnni<1>(tile.data(), scales.data(), first, count, query.bytes.data() + lane * values,
                        query.starts.data() + lane, values, best + lane, where + lane);
    }
  }
}

// --- AVX2 ----------------------------------------------------------------------------------------------

constexpr int64_t kTile256 = 4;

__attribute__((target("avx2"), always_inline)) inline void take_256(__m256 dots, int64_t row, float* best,
                                                                    int32_t* where) {
  const __m256 old = _mm256_loadu_ps(best);
  const __m256 better = _mm256_cmp_ps(dots, old, _CMP_GT_OQ);
  _mm256_storeu_ps(best, _mm256_blendv_ps(old, dots, better));
  _mm256_maskstore_epi32(where, _mm256_castps_si256(better), _mm256_set1_epi32(static_cast<int32_t>(row)));
}

__attribute__((target("avx2,fma,f16c"))) void fp16_avx2(const std::byte* rows, int64_t row_count,
                                                        const PackedQuery& query, float* best,
                                                        int32_t* where) {
  begin_search(query, best, where);
  const int64_t dim = query.layout.dim;
  std::vector<float> tile(static_cast<size_t>(kTile256 * dim));
  for (int64_t first = 0; first < row_count; first += kTile256) {
    const int64_t count = std::min(kTile256, row_count - first);
    for (int64_t i = 0; i < count * dim; ++i) {
      // One at a time: the compiler makes eight of it where that is worth while.
      uint16_t half = 0;
      std::memcpy(&half, rows + (first * dim + i) * 2, sizeof(half));
      tile[static_cast<size_t>(i)] = _cvtsh_ss(half);
    }
    for (int64_t g = 0; g < query.groups; ++g) {
      const float* lanes = query.floats.data() + g * dim * kMaxSimLanes;
      __m256 sums[kTile256][2];
      for (int r = 0; r < kTile256; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_ps();
      for (int64_t c = 0; c < dim; ++c) {
        const __m256 low = _mm256_loadu_ps(lanes + c * kMaxSimLanes);
        const __m256 high = _mm256_loadu_ps(lanes + c * kMaxSimLanes + 8);
        for (int r = 0; r < kTile256; ++r) {
          const __m256 value = _mm256_set1_ps(tile[static_cast<size_t>(r * dim + c)]);
          sums[r][0] = _mm256_fmadd_ps(value, low, sums[r][0]);
          sums[r][1] = _mm256_fmadd_ps(value, high, sums[r][1]);
        }
      }
      for (int r = 0; r < kTile256; ++r) {
        if (r >= count) break;
        for (int half = 0; half < 2; ++half) {
          const int64_t lane = g * kMaxSimLanes + half * 8;
          take_256(sums[r][half], first + r, best + lane, where + lane);
        }
      }
    }
  }
}

// Bytes are widened to 16 bits first: the 8-bit instruction of AVX2 would round sums of pairs off at 2^15.
__attribute__((target("avx2"))) void int8_avx2(const std::byte* rows, int64_t row_count,
                                               const PackedQuery& query, float* best, int32_t* where) {
  begin_search(query, best, where);
  const int64_t values = int8_row_values(query.layout.dim);
  std::vector<int16_t> wide(static_cast<size_t>(values));
  for (int64_t r = 0; r < row_count; ++r) {
    const std::byte* row = rows + r * stored_row_bytes(query.layout);
    for (int64_t c = 0; c < values; ++c) {
      wide[static_cast<size_t>(c)] = static_cast<int16_t>(static_cast<int>(row[c]) - 128);
    }
    const __m256 scale = _mm256_set1_ps(int8_scale(row, values));
    for (int64_t g = 0; g < query.groups; ++g) {
      const int8_t* bytes = query.bytes.data() + g * values * kMaxSimLanes;
      __m256i sums[4];  // lane l of four: the two halves of its sum at 2 l and 2 l + 1
      for (__m256i& sum : sums) sum = _mm256_setzero_si256();
      for (int64_t c = 0; c < values; c += 4) {
        int64_t four = 0;
        std::memcpy(&four, wide.data() + c, sizeof(four));
        const __m256i value = _mm256_set1_epi64x(four);
        for (int part = 0; part < 4; ++part) {
          const auto* from = reinterpret_cast<const __m128i*>(bytes + c * kMaxSimLanes + part * 16);
          const __m256i query_values = _mm256_cvtepi8_epi16(_mm_loadu_si128(from));
          sums[part] = _mm256_add_epi32(sums[part], _mm256_madd_epi16(value, query_values));
        }
      }
      for (int half = 0; half < 2; ++half) {
        const __m256i added = _mm256_hadd_epi32(sums[2 * half], sums[2 * half + 1]);
        const __m256i whole = _mm256_permute4x64_epi64(added, 0xD8);
        const int64_t lane = g * kMaxSimLanes + half * 8;
        take_256(_mm256_mul_ps(_mm256_cvtepi32_ps(whole), scale), r, best + lane, where + lane);
      }
    }
  }
}

#endif

void pack_int8(std::span<const float> row, int64_t lane, int64_t values, PackedQuery& packed) {
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127.0F;
  int8_t* group = packed.bytes.data() + lane / kMaxSimLanes * values * kMaxSimLanes;
  int32_t sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const float steps = scale > 0 ? std::clamp(std::nearbyint(row[i] / scale), -127.0F, 127.0F) : 0.0F;
    const auto c = static_cast<int64_t>(i);
    group[c / 4 * 4 * kMaxSimLanes + lane % kMaxSimLanes * 4 + c % 4] = static_cast<int8_t>(steps);
    sum += static_cast<int32_t>(steps);
  }
  packed.starts[static_cast<size_t>(lane)] = -128 * sum;
  packed.scales[static_cast<size_t>(lane)] = scale;
}

}  // namespace

Result<PackedQuery> pack_query(MatrixView<const float> rows, RowPrecision precision) {
  const int64_t dim = rows.columns();
  if (rows.rows() < 1 || dim < 1 || dim > kMaxDim) {
    return fail(ErrorCode::kUsage, "a query of {} rows of {} columns, expected 1 or more of 1 to {}",
                rows.rows(), dim, kMaxDim);
  }
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (const float value : rows.row(r)) {
      if (!std::isfinite(value)) return fail(ErrorCode::kBadData, "row {} of the query holds {}", r, value);
    }
  }
  PackedQuery packed;
  packed.layout = {precision, dim};
  packed.rows = rows.rows();
  packed.groups = (rows.rows() + kMaxSimLanes - 1) / kMaxSimLanes;
  packed.scales.assign(static_cast<size_t>(packed.lanes()), 0.0F);
  if (precision == RowPrecision::kInt8) {
    const int64_t values = int8_row_values(dim);
    packed.bytes.resize(static_cast<size_t>(packed.lanes() * values));
    packed.starts.resize(static_cast<size_t>(packed.lanes()));
    for (int64_t r = 0; r < rows.rows(); ++r) pack_int8(rows.row(r), r, values, packed);
    return packed;
  }
  packed.floats.resize(static_cast<size_t>(packed.lanes() * dim));
  for (int64_t r = 0; r < rows.rows(); ++r) {
    float* lane = packed.floats.data() + r / kMaxSimLanes * dim * kMaxSimLanes + r % kMaxSimLanes;
    for (int64_t c = 0; c < dim; ++c) lane[c * kMaxSimLanes] = rows(r, c);
    packed.scales[static_cast<size_t>(r)] = 1;
  }
  return packed;
}

std::span<const NamedMaxSimKernel> max_sim_kernels(RowPrecision precision) {
  static const std::vector<NamedMaxSimKernel> kFp16 = kernels_for_cpu<NamedMaxSimKernel>({
#if defined(__x86_64__)
    {"avx512", CpuLevel::kAvx512, fp16_avx512}, {"avx2", CpuLevel::kAvx2, fp16_avx2},
#endif
        {"portable", CpuLevel::kPortable, fp16_portable},
  });
  static const std::vector<NamedMaxSimKernel> kInt8 = kernels_for_cpu<NamedMaxSimKernel>({
#if defined(__x86_64__)
    {"avx512_vnni", CpuLevel::kAvx512Vnni, int8_vnni}, {"avx2", CpuLevel::kAvx2, int8_avx2},
#endif
        {"portable", CpuLevel::kPortable, int8_portable},
  });
  return precision == RowPrecision::kFp16 ? kFp16 : kInt8;
}

}  // namespace saccade
