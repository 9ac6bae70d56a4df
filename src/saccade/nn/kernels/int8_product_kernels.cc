#include "saccade/nn/kernels/int8_product_kernels.h"

#include <algorithm>
#include <random>
#include <vector>

#include "saccade/nn/kernels/int8_digits.h"
#include "saccade/nn/kernels/int8_tiles_arm.h"
#include "saccade/nn/kernels/panel_results.h"
#include "saccade/nn/kernels/tile_blocks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace saccade::nn {
namespace {

// Number of rows per tile: with four vectors of outputs, 24 sums.
constexpr int kTileRows = 6;

// --- sums to float32 ------------------------------------------------------------------------------------

// Sums for one row of which only some groups have values.
using SparseTile = void (*)(const uint8_t* weights, const SecondDigits* digits, int64_t count, int32_t* sums);

// sums, high: [kPanelOutputs]; high: of the second digits, nullptr where the row has none.
template <int W>
SACCADE_INLINE void finish_row(const Int8PanelTask& task, int64_t row, const int32_t* sums,
                               const int32_t* high) {
  using Floats = typename Lanes<W>::Floats;
  using Ints = typename Lanes<W>::Ints;
  const Int8Row& about = task.rows[row];
  const int32_t added = 128 * about.low_sum;
  const int32_t added_high = 128 * about.high_sum;
  write_row<W>(task.results, row, [&](int64_t c, Floats& value) SACCADE_INLINE_LAMBDA {
    Ints whole;
    Ints weights;
    load(whole, sums + c);
    load(weights, task.sums + c);
    whole += about.zero * weights - added;
    value = __builtin_convertvector(whole, Floats);
    if (high != nullptr) {
      load(whole, high + c);
      whole -= added_high;
      value += 128.F * __builtin_convertvector(whole, Floats);
    }
    Floats scale;
    load(scale, task.scales + c);
    value = value * about.scale * scale;
  });
}

// Computes the sums of a row's second digits, if it has any, and writes its results. sums: those of the first digits.
template <int W>
SACCADE_INLINE void finish_both(const Int8PanelTask& task, int64_t row, const int32_t* sums,
                                SparseTile sparse) {
  alignas(64) int32_t high[kPanelOutputs];
  const int64_t digits = task.rows[row].second_digits;
  if (digits > 0) sparse(task.weights, task.high + row * most_second_digits(task.groups), digits, high);
  finish_row<W>(task, row, sums, digits > 0 ? high : nullptr);
}

// Sums of `R` rows over one panel: low: the first row's values. sums: [R, kPanelOutputs].
using Tile = void (*)(const uint8_t* weights, int64_t groups, const int8_t* low, int32_t* sums);

// Tiles: those of 1 to kTileRows rows. Rows are shared out evenly among the fewest tiles.
template <int W>
SACCADE_INLINE void multiply_rows(const Int8PanelTask& task, int64_t first, int64_t last, const Tile* tiles,
                                  SparseTile sparse) {
  alignas(64) int32_t sums[kTileRows * kPanelOutputs];
  const int64_t count = (last - first + kTileRows - 1) / kTileRows;
  int64_t end = first;
  for (int64_t tile = 0; tile < count; ++tile) {
    const int64_t begin = end;
    end += (last - end) / (count - tile);
    tiles[end - begin - 1](task.weights, task.groups, task.low + begin * 4 * task.groups, sums);
    for (int64_t row = begin; row < end; ++row) {
      finish_both<W>(task, row, sums + (row - begin) * kPanelOutputs, sparse);
    }
  }
}

// --- the same by tiles ----------------------------------------------------------------------------------

// Number of rows at the end, at most, that AVX-512 VNNI multiplies instead. It needs about as many cycles for two rows as tiles
// for up to sixteen, and no configuration of tiles. An estimate from the instructions' latencies, not measured.
constexpr int64_t kFewRows = 2;

using Multiply = void (*)(const Int8PanelTask& task, int64_t first, int64_t last);

// few: kernel for up to kFewRows rows at the end.
template <int W, typename Tiles>
SACCADE_INLINE void multiply_by_tiles(const Int8PanelTask& task, int64_t first, int64_t last,
                                      SparseTile sparse, Multiply few) {
  const int64_t rows_left = (last - first) % kBlockRows;
  const int64_t end = rows_left <= kFewRows ? last - rows_left : last;
  if (first < end) {
    multiply_blocks<TileNumbers::kBytes, Tiles>(reinterpret_cast<const std::byte*>(task.low), 4 * task.groups,
                                                reinterpret_cast<const std::byte*>(task.weights), first, end,
                                                [&](int64_t row, const int32_t* sums) SACCADE_INLINE_LAMBDA {
                                                  finish_both<W>(task, row, sums, sparse);
                                                });
  }
  if (end < last) few(task, end, last);
}

// --- one set of functions an instruction set ------------------------------------------------------------

#define SACCADE_TILES(name) \
  { name<1>, name<2>, name<3>, name<4>, name<5>, name<6> }
static_assert(kTileRows == 6);

template <int R>
void tile_portable(const uint8_t* weights, int64_t groups, const int8_t* low, int32_t* sums) {
  std::fill(sums, sums + R * kPanelOutputs, 0);
  for (int64_t g = 0; g < groups; ++g) {
    const uint8_t* w = weights + g * 4 * kPanelOutputs;
    for (int r = 0; r < R; ++r) {
      const int8_t* x = low + (r * groups + g) * 4;
      for (int64_t c = 0; c < kPanelOutputs; ++c) {
        sums[r * kPanelOutputs + c] +=
            w[4 * c] * x[0] + w[4 * c + 1] * x[1] + w[4 * c + 2] * x[2] + w[4 * c + 3] * x[3];
      }
    }
  }
}
void sparse_portable(const uint8_t* weights, const SecondDigits* digits, int64_t count, int32_t* sums) {
  std::fill(sums, sums + kPanelOutputs, 0);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* w = weights + digits[i].group * 4 * kPanelOutputs;
    for (int64_t c = 0; c < kPanelOutputs; ++c) {
      for (int k = 0; k < 4; ++k) sums[c] += w[4 * c + k] * digits[i].digits[k];
    }
  }
}
constexpr Tile kPortableTiles[] = SACCADE_TILES(tile_portable);
void quantize_portable(const QuantizeTask& task, int64_t first, int64_t last) {
  quantize_rows<4>(task, first, last);
}
void multiply_portable(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_rows<4>(task, first, last, kPortableTiles, sparse_portable);
}
void multiply_emulated(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_by_tiles<4, EmulatedTiles>(task, first, last, sparse_portable, multiply_portable);
}

#if defined(__x86_64__)
#define SACCADE_AVX_VNNI __attribute__((target("avxvnni,avx2,fma")))
#define SACCADE_AVX512_VNNI __attribute__((target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

SACCADE_INLINE int32_t four_of(const int8_t* values) {
  int32_t four;
  std::memcpy(&four, values, sizeof four);
  return four;
}

// Uses 16-bit values: pairs of 8-bit products would saturate in the byte-multiply instruction.
template <int R>
SACCADE_AVX2 void tile_avx2(const uint8_t* weights, int64_t groups, const int8_t* low, int32_t* sums) {
  const __m256i low_bytes = _mm256_set1_epi16(0x00ff);
  for (int64_t c = 0; c < kPanelOutputs; c += 8) {
    __m256i sum[R];
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) sum[r] = _mm256_setzero_si256();
    for (int64_t g = 0; g < groups; ++g) {
      const __m256i w =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + (g * kPanelOutputs + c) * 4));
      const __m256i even = _mm256_and_si256(w, low_bytes);
      const __m256i odd = _mm256_srli_epi16(w, 8);
      SACCADE_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m256i x = _mm256_set1_epi32(four_of(low + (r * groups + g) * 4));
        const __m256i x_even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
        const __m256i x_odd = _mm256_srai_epi16(x, 8);
        sum[r] = _mm256_add_epi32(
            sum[r], _mm256_add_epi32(_mm256_madd_epi16(even, x_even), _mm256_madd_epi16(odd, x_odd)));
      }
    }
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kPanelOutputs + c), sum[r]);
    }
  }
}
constexpr Tile kAvx2Tiles[] = SACCADE_TILES(tile_avx2);
SACCADE_AVX2 void quantize_avx2(const QuantizeTask& task, int64_t first, int64_t last) {
  quantize_rows<8>(task, first, last);
}
SACCADE_AVX2 void multiply_avx2(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_rows<8>(task, first, last, kAvx2Tiles, sparse_portable);
}

template <int R>
SACCADE_AVX_VNNI void tile_avx_vnni(const uint8_t* weights, int64_t groups, const int8_t* low,
                                    int32_t* sums) {
  constexpr int kVectors = 2;
  for (int64_t c = 0; c < kPanelOutputs; c += 8 * kVectors) {
    __m256i sum[R][kVectors];
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_si256();
    }
    for (int64_t g = 0; g < groups; ++g) {
      __m256i w[kVectors];
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        w[v] = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(weights + (g * kPanelOutputs + c + 8 * v) * 4));
      }
      SACCADE_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m256i x = _mm256_set1_epi32(four_of(low + (r * groups + g) * 4));
        SACCADE_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_dpbusd_avx_epi32(sum[r][v], w[v], x);
      }
    }
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kPanelOutputs + c + 8 * v), sum[r][v]);
      }
    }
  }
}
SACCADE_AVX_VNNI void sparse_avx_vnni(const uint8_t* weights, const SecondDigits* digits, int64_t count,
                                      int32_t* sums) {
  constexpr int kVectors = 8;
  __m256i sum[kVectors];
  SACCADE_UNROLL
  for (int v = 0; v < kVectors; ++v) sum[v] = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* w = weights + digits[i].group * 4 * kPanelOutputs;
    const __m256i x = _mm256_set1_epi32(four_of(digits[i].digits));
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = _mm256_dpbusd_avx_epi32(sum[v],
                                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * v)), x);
    }
  }
  SACCADE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + 8 * v), sum[v]);
  }
}
constexpr Tile kAvxVnniTiles[] = SACCADE_TILES(tile_avx_vnni);
SACCADE_AVX_VNNI void multiply_avx_vnni(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_rows<8>(task, first, last, kAvxVnniTiles, sparse_avx_vnni);
}

template <int R>
SACCADE_AVX512_VNNI void tile_avx512_vnni(const uint8_t* weights, int64_t groups, const int8_t* low,
                                          int32_t* sums) {
  constexpr int kVectors = 4;
  __m512i sum[R][kVectors];
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) {
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
  }
  for (int64_t g = 0; g < groups; ++g) {
    __m512i w[kVectors];
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_si512(weights + (g * kPanelOutputs + 16 * v) * 4);
    SACCADE_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512i x = _mm512_set1_epi32(four_of(low + (r * groups + g) * 4));
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], w[v], x);
    }
  }
  SACCADE_UNROLL
  for (int r = 0; r < R; ++r) {
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(sums + r * kPanelOutputs + 16 * v, sum[r][v]);
    }
  }
}
SACCADE_AVX512_VNNI void sparse_avx512_vnni(const uint8_t* weights, const SecondDigits* digits, int64_t count,
                                            int32_t* sums) {
  constexpr int kVectors = 4;
  __m512i sum[2][kVectors];  // by turns: a sum that waits for itself takes twice the time
  SACCADE_UNROLL
  for (int v = 0; v < kVectors; ++v) sum[0][v] = sum[1][v] = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += 2) {
    SACCADE_UNROLL
    for (int turn = 0; turn < 2; ++turn) {
      if (i + turn >= count) break;
      const uint8_t* w = weights + digits[i + turn].group * 4 * kPanelOutputs;
      const __m512i x = _mm512_set1_epi32(four_of(digits[i + turn].digits));
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sum[turn][v] = _mm512_dpbusd_epi32(sum[turn][v], _mm512_loadu_si512(w + 64 * v), x);
      }
    }
  }
  SACCADE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    _mm512_storeu_si512(sums + 16 * v, _mm512_add_epi32(sum[0][v], sum[1][v]));
  }
}
constexpr Tile kAvx512VnniTiles[] = SACCADE_TILES(tile_avx512_vnni);
SACCADE_AVX512 void quantize_avx512(const QuantizeTask& task, int64_t first, int64_t last) {
  quantize_rows<16>(task, first, last);
}
SACCADE_AVX512_VNNI void multiply_avx512_vnni(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_rows<16>(task, first, last, kAvx512VnniTiles, sparse_avx512_vnni);
}
SACCADE_AMX void multiply_amx(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_by_tiles<16, AmxTiles>(task, first, last, sparse_avx512_vnni, multiply_avx512_vnni);
}

#elif defined(SACCADE_DOTPROD)

constexpr Tile kDotProdTiles[] = SACCADE_TILES(tile_dotprod);
void multiply_dotprod(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_rows<4>(task, first, last, kDotProdTiles, sparse_dotprod);
}
constexpr Tile kI8mmTiles[] = SACCADE_TILES(tile_i8mm);
void multiply_i8mm(const Int8PanelTask& task, int64_t first, int64_t last) {
  multiply_rows<4>(task, first, last, kI8mmTiles, sparse_dotprod);
}

#endif

}  // namespace

bool multiply_alike(const Int8Kernels& one, const Int8Kernels& other) {
  constexpr int64_t kMostRows = kBlockRows + kFewRows + 1;
  const std::vector<float> ones(kPanelOutputs, 1);
  const std::vector<float> bias(kPanelOutputs);
  const std::vector<int32_t> sums(kPanelOutputs, 77);
  std::minstd_rand random(1);
  for (const int64_t groups : {kTileHeight, kTileHeight + 2}) {
    const int64_t most = most_second_digits(groups);
    std::vector<int8_t> low(kMostRows * groups * 4);
    std::vector<uint8_t> panel(groups * 4 * kPanelOutputs);
    for (int8_t& value : low) value = static_cast<int8_t>(random() >> 8);
    for (uint8_t& weight : panel) weight = static_cast<uint8_t>(random() >> 8);
    std::vector<SecondDigits> high(kMostRows * most);
    std::vector<Int8Row> rows(kMostRows);
    for (int64_t row = 0; row < kMostRows; ++row) {
      rows[row] = {.scale = 1, .second_digits = static_cast<int32_t>(row % (most + 1)), .zero = 3};
      for (int64_t d = 0; d < most; ++d) {
        SecondDigits& digits = high[row * most + d];
        digits.group = static_cast<int32_t>((5 * d + row) % groups);
        for (int8_t& digit : digits.digits) digit = static_cast<int8_t>(random() >> 8);
      }
    }
    Int8PanelTask task;
    task.groups = groups;
    task.weights = panel.data();
    task.sums = sums.data();
    task.scales = ones.data();
    task.results.bias = bias.data();
    task.low = low.data();
    task.high = high.data();
    task.rows = rows.data();
    task.results.out_stride = kPanelOutputs;
    // One wide block, one tall block, a whole block and one row, a whole block and a wide one.
    for (const int64_t count : {kTileHeight, kTileHeight + 1, kBlockRows + 1, kMostRows}) {
      std::vector<float> expected(kMostRows * kPanelOutputs);
      std::vector<float> found(expected.size());
      task.results.out = expected.data();
      one.multiply(task, 0, count);
      task.results.out = found.data();
      other.multiply(task, 0, count);
      if (found != expected) return false;
    }
  }
  return true;
}

const Int8Kernels& emulated_int8_kernel() {
  static constexpr Int8Kernels kKernel = {"emulated_amx",
                                          CpuLevel::kPortable,
                                          quantize_portable,
                                          multiply_emulated,
                                          {kBlockRows, kTileChunkBytes}};
  return kKernel;
}

std::span<const Int8Kernels> int8_kernels() {
  static const std::vector<Int8Kernels> kKernels = [] {
    std::vector<Int8Kernels> kernels = kernels_for_cpu<Int8Kernels>({
#if defined(__x86_64__)
      {"amx", CpuLevel::kAmx, quantize_avx512, multiply_amx, {kBlockRows, kTileChunkBytes}},
          {"avx512_vnni", CpuLevel::kAvx512Vnni, quantize_avx512, multiply_avx512_vnni},
          {"avx_vnni", CpuLevel::kAvxVnni, quantize_avx2, multiply_avx_vnni},
          {"avx2", CpuLevel::kAvx2, quantize_avx2, multiply_avx2},
#elif defined(SACCADE_DOTPROD)
      {"i8mm", CpuLevel::kI8mm, quantize_portable, multiply_i8mm},
          {"dotprod", CpuLevel::kDotProd, quantize_portable, multiply_dotprod},
#endif
          {"portable", CpuLevel::kPortable, quantize_portable, multiply_portable},
    });
    // Tiles are rare enough that a virtual machine may offer them and compute something else.
    if (kernels.front().level == CpuLevel::kAmx && !multiply_alike(kernels[0], kernels[1])) {
      kernels.erase(kernels.begin());
    }
    return kernels;
  }();
  return kKernels;
}

const Int8Kernels& int8_kernel() {
  return int8_kernels().front();
}

}  // namespace saccade::nn
