#include "saccade/nn/kernels/attention_bf16.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "saccade/core/cpu.h"
#include "saccade/nn/kernels/attention_head.h"
#include "saccade/nn/kernels/bf16_product_kernels.h"
#include "saccade/nn/kernels/lanes.h"
#include "saccade/nn/kernels/tile_blocks.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns of its own header (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

namespace saccade::nn {

#if defined(__x86_64__)
#define SACCADE_AVX512_BF16 __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

namespace {

constexpr int64_t kWidth = 16;         // lanes
constexpr int64_t kVectorQueries = 6;  // with four vectors, 24 sums
constexpr int64_t kMostHeadWidth = 256;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr int64_t rounded_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
constexpr int64_t whole_vectors(int64_t count) {
  return rounded_up(count, kWidth);
}

SACCADE_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kWidth ? 0xffff : (1U << std::max<int64_t>(count, 0)) - 1);
}

// Transposes rows of 16 words.
SACCADE_AVX512_BF16 inline void transpose(__m512i (&rows)[16]) {
  __m512i half[16];
  SACCADE_UNROLL
  for (int i = 0; i < 16; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  SACCADE_UNROLL
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
  // rows[4 a + j]: of rows 4 a to 4 a + 3 the columns j, 4 + j, 8 + j and 12 + j.
  SACCADE_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512i low = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
    const __m512i low2 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
    const __m512i high2 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
    half[j] = _mm512_shuffle_i32x4(low, low2, 0x88);
    half[8 + j] = _mm512_shuffle_i32x4(low, low2, 0xdd);
    half[4 + j] = _mm512_shuffle_i32x4(high, high2, 0x88);
    half[12 + j] = _mm512_shuffle_i32x4(high, high2, 0xdd);
  }
  SACCADE_UNROLL
  for (int i = 0; i < 16; ++i) rows[i] = half[i];
}

// keys: [tokens][2 pairs] -> [pairs][columns] of pairs of neighbours; columns beyond the tokens are 0.
SACCADE_AVX512_BF16 void pack_keys(const uint16_t* from, int64_t stride, int64_t tokens, int64_t pairs,
                                   int64_t columns, uint32_t* to) {
  for (int64_t token = 0; token < columns; token += kWidth) {
    for (int64_t pair = 0; pair < pairs; pair += kWidth) {
      const __mmask16 some = first_lanes(pairs - pair);
      __m512i rows[16];
      SACCADE_UNROLL
      for (int i = 0; i < 16; ++i) {
        rows[i] = token + i < tokens ? _mm512_maskz_loadu_epi32(some, from + (token + i) * stride + 2 * pair)
                                     : _mm512_setzero_si512();
      }
      transpose(rows);
      for (int i = 0; i < 16 && pair + i < pairs; ++i) {
        _mm512_storeu_si512(to + (pair + i) * columns + token, rows[i]);
      }
    }
  }
}

// values: [tokens][depth] -> [(tokens + 1) / 2][depth_columns] of pairs of neighbouring tokens.
SACCADE_AVX512_BF16 void pack_values(const uint16_t* from, int64_t stride, int64_t tokens, int64_t depth,
                                     int64_t depth_columns, uint32_t* to) {
  for (int64_t token = 0; token < tokens; token += 2) {
    const uint16_t* even = from + token * stride;
    const bool both = token + 1 < tokens;
    for (int64_t c = 0; c < depth; c += kWidth) {
      const __mmask16 some = first_lanes(depth - c);
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, even + c));
      const __m512i high = both ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, even + stride + c))
                                : _mm512_setzero_si512();
      _mm512_storeu_si512(to + token / 2 * depth_columns + c,
                          _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// out = a b: kRows rows of pairs in bfloat16, `stride` halves apart, times kVectors vectors of columns of
// pairs, one row of them `columns` words from the next.
template <int kRows, int kVectors>
SACCADE_AVX512_BF16 void multiply_tile(const uint16_t* a, int64_t stride, const uint32_t* b, int64_t columns,
                                       int64_t pairs, float* out, int64_t out_stride) {
  __m512 sums[kRows][kVectors];
  SACCADE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    __m512bh column[kVectors];
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      column[v] = (__m512bh)_mm512_loadu_si512(b + pair * columns + v * kWidth);
    }
    SACCADE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int32_t two;
      std::memcpy(&two, a + r * stride + 2 * pair, sizeof two);
      const auto factor = (__m512bh)_mm512_set1_epi32(two);
      SACCADE_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], factor, column[v]);
    }
  }
  SACCADE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    SACCADE_UNROLL
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + r * out_stride + v * kWidth, sums[r][v]);
  }
}

using Tile = void (*)(const uint16_t* a, int64_t stride, const uint32_t* b, int64_t columns, int64_t pairs,
                      float* out, int64_t out_stride);
#define SACCADE_TILES(rows) \
  { multiply_tile<rows, 1>, multiply_tile<rows, 2>, multiply_tile<rows, 3>, multiply_tile<rows, 4> }
constexpr Tile kVectorTiles[kVectorQueries][4] = {SACCADE_TILES(1), SACCADE_TILES(2), SACCADE_TILES(3),
                                                  SACCADE_TILES(4), SACCADE_TILES(5), SACCADE_TILES(6)};

// The products of attention. Each has:
//   kQueries: number of queries in a block at most
//   kPairs: the number of pairs of a product is a multiple of it; the numbers of both sides that fill it up are 0
//   multiply(rows, a, stride, b, columns, used, pairs, out, out_stride): `used` columns of a b, whole vectors

// By vectors: any number of columns, split evenly into the smallest number of tiles of sums.
class VectorProducts {
 public:
  static constexpr int64_t kQueries = kVectorQueries;
  static constexpr int64_t kPairs = 1;

  void multiply(int64_t rows, const uint16_t* a, int64_t stride, const uint32_t* b, int64_t columns,
                int64_t used, int64_t pairs, float* out, int64_t out_stride) {
    const int64_t vectors = used / kWidth;
    const int64_t tiles = (vectors + 3) / 4;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = vectors * tile / tiles;
      const int64_t count = vectors * (tile + 1) / tiles - begin;
      kVectorTiles[rows - 1][count - 1](a, stride, b + begin * kWidth, columns, pairs, out + begin * kWidth,
                                        out_stride);
    }
  }
};

// By the processor's tiles, or their emulation.
template <typename Tiles>
class TileProducts {
 public:
  static constexpr int64_t kQueries = kBlockRows;
  static constexpr int64_t kPairs = kTileBytes / 4;

  SACCADE_INLINE void multiply(int64_t rows, const uint16_t* a, int64_t stride, const uint32_t* b,
                               int64_t columns, int64_t used, int64_t pairs, float* out, int64_t out_stride) {
    if (rows != shaped_) tiles_.shape(block_shapes(rows));
    shaped_ = rows;
    const Operands at = {a, 2 * stride, b, 4 * columns, pairs, out, 4 * out_stride};
    int64_t c = 0;
    if (is_tall(rows)) {
      for (; c + 2 * kWidth <= used; c += 2 * kWidth) block<true, 2>(at, c);
      if (c < used) block<true, 1>(at, c);
      return;
    }
    for (; c + 4 * kWidth <= used; c += 4 * kWidth) block<false, 4>(at, c);
    if (c + 2 * kWidth <= used) {
      block<false, 2>(at, c);
      c += 2 * kWidth;
    }
    if (c < used) block<false, 1>(at, c);
  }
  SACCADE_INLINE ~TileProducts() { tiles_.release(); }

 private:
  struct Operands {  // strides in bytes
    const uint16_t* a;
    int64_t a_stride;
    const uint32_t* b;
    int64_t b_stride;
    int64_t pairs;
    float* out;
    int64_t out_stride;
  };
  // The sums of `kVectors` vectors of columns from column c on.
  template <bool kTall, int kVectors>
  SACCADE_INLINE void block(const Operands& at, int64_t c) {
    const auto* x = reinterpret_cast<const std::byte*>(at.a);
    const auto* weights = reinterpret_cast<const std::byte*>(at.b + c);
    zero_sums(tiles_);
    for (int64_t pair = 0; pair < at.pairs; pair += kPairs) {
      add_groups<TileNumbers::kHalves, kTall, kVectors>(tiles_, x + 4 * pair, at.a_stride,
                                                        weights + pair * at.b_stride, at.b_stride);
    }
    store_sums<kTall, kVectors>(tiles_, reinterpret_cast<std::byte*>(at.out + c), at.out_stride);
  }

  Tiles tiles_;
  int64_t shaped_ = 0;
};

// Computes 2^t for t <= 0 to 2.7e-6 of its value, which is a thousandth of what rounding to bfloat16 loses; 0 below -126. NaN stays
// NaN. The polynomial is the one of degree 4 with the least relative error for 2^r, |r| <= 0.5.
SACCADE_AVX512_BF16 inline __m512 power_of_two(__m512 t) {
  const __mmask16 counts = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-126), _CMP_NLT_UQ);
  const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(t, n);
  __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(9.5701022e-3F), _mm512_set1_ps(5.5917863e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4024744e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9312179e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.9999928e-1F));
  return _mm512_maskz_scalef_ps(counts, p, n);
}

// Converts scores [keys] to e^(scale * score + mask - largest) in bfloat16, zero up to `columns`, whole vectors.
// Returns 1 / their sum. `mask` may be nullptr. scale: more than 0.
SACCADE_AVX512_BF16 float weigh(float* scores, float scale, const float* mask, int64_t keys, int64_t columns,
                                uint16_t* weights) {
  constexpr float kLog2E = 1.44269504088896341F;
  const __m512 lowest = _mm512_set1_ps(-kInfinity);
  const __mmask16 last = first_lanes(keys % kWidth == 0 ? kWidth : keys % kWidth);
  const int64_t used = whole_vectors(keys);
  // Scores beyond the keys become -infinity, and with a mask all are scaled. A maximum passes over NaN.
  __m512 most = lowest;
  for (int64_t t = 0; t < used; t += kWidth) {
    const bool is_last = t + kWidth >= used;
    const __mmask16 some = is_last ? last : static_cast<__mmask16>(0xffff);
    __m512 v = _mm512_loadu_ps(scores + t);
    if (mask != nullptr) v = _mm512_fmadd_ps(v, _mm512_set1_ps(scale), _mm512_maskz_loadu_ps(some, mask + t));
    v = _mm512_mask_blend_ps(some, lowest, v);
    if (mask != nullptr || is_last) _mm512_storeu_ps(scores + t, v);
    most = _mm512_max_ps(v, most);
  }
  const float largest = _mm512_reduce_max_ps(most);
  if (largest == -kInfinity) return std::numeric_limits<float>::quiet_NaN();
  const float factor = mask != nullptr ? kLog2E : scale * kLog2E;
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512 less = _mm512_set1_ps(-largest * factor);
  __m512 sums = _mm512_setzero_ps();
  for (int64_t t = 0; t < used; t += kWidth) {
    const __m512 v = power_of_two(_mm512_fmadd_ps(_mm512_loadu_ps(scores + t), factors, less));
    sums = _mm512_add_ps(sums, v);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + t), (__m256i)_mm512_cvtneps_pbh(v));
  }
  for (int64_t t = used; t < columns; t += kWidth) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + t), _mm256_setzero_si256());
  }
  return 1 / _mm512_reduce_add_ps(sums);
}

SACCADE_AVX512_BF16 void write_row(const float* mixed, float factor, int64_t depth, uint16_t* out) {
  for (int64_t c = 0; c < depth; c += kWidth) {
    const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(mixed + c), _mm512_set1_ps(factor));
    _mm256_mask_storeu_epi16(out + c, first_lanes(depth - c), (__m256i)_mm512_cvtneps_pbh(v));
  }
}

// The memory of a head, in floats from the scratch's first. Pairs of bfloat16 take one. [rows, columns] each.
struct ScratchOfHead {
  int64_t columns;        // of keys
  int64_t depth_columns;  // of values and results
  int64_t key_pairs;      // of a query's or key's numbers
  int64_t value_pairs;    // of tokens
  int64_t values, scores, mixed, weights, queries, end;

  // fills: numbers of pairs are multiples of it; queries: of a block.
  ScratchOfHead(const AttentionTask& task, int64_t queries_at_once, int64_t fills)
      : columns(rounded_up(task.keys, std::max(kWidth, 2 * fills))),
        depth_columns(whole_vectors(task.head_width)),
        key_pairs(rounded_up(task.head_width / 2, fills)),
        value_pairs(rounded_up((task.keys + 1) / 2, fills)),
        values(key_pairs * columns),
        scores(values + value_pairs * depth_columns),
        mixed(scores + queries_at_once * columns),
        weights(mixed + queries_at_once * depth_columns),
        queries(weights + queries_at_once * columns / 2),
        end(queries + (key_pairs == task.head_width / 2 ? 0 : queries_at_once * key_pairs)) {}
};

template <typename Products>
int64_t scratch_of(const AttentionTask& task) {
  return ScratchOfHead(task, Products::kQueries, Products::kPairs).end;
}

// Copies rows of `depth` numbers, with zeros up to 2 * pairs.
void fill_rows(const uint16_t* from, int64_t stride, int64_t rows, int64_t depth, int64_t pairs,
               uint16_t* to) {
  for (int64_t row = 0; row < rows; ++row, to += 2 * pairs) {
    std::copy_n(from + row * stride, depth, to);
    std::fill(to + depth, to + 2 * pairs, uint16_t{0});
  }
}

template <typename Products>
SACCADE_INLINE void attend_by(const AttentionTask& task, int64_t first, int64_t last, float* scratch) {
  const int64_t tokens = task.keys;
  const int64_t depth = task.head_width;
  const ScratchOfHead memory(task, Products::kQueries, Products::kPairs);
  const int64_t columns = memory.columns;
  const int64_t depth_columns = memory.depth_columns;
  auto* keys = reinterpret_cast<uint32_t*>(scratch);                      // [key_pairs, columns]
  auto* values = reinterpret_cast<uint32_t*>(scratch + memory.values);    // [value_pairs, depth_columns]
  float* scores = scratch + memory.scores;                                // [kQueries, columns]
  float* mixed = scratch + memory.mixed;                                  // [kQueries, depth_columns]
  auto* weights = reinterpret_cast<uint16_t*>(scratch + memory.weights);  // [kQueries, columns]
  auto* filled = reinterpret_cast<uint16_t*>(scratch + memory.queries);   // [kQueries, 2 key_pairs]
  // Pairs that fill up, the same for all heads. Other numbers than 0 there would count if they were not finite.
  const int64_t own_values = (tokens + 1) / 2 * depth_columns;
  std::fill(keys + depth / 2 * columns, keys + memory.key_pairs * columns, 0U);
  std::fill(values + own_values, values + memory.value_pairs * depth_columns, 0U);

  Products products;
  for (int64_t pair = first; pair < last; ++pair) {
    const AttentionHead<uint16_t> at = head_of<uint16_t>(task, pair);
    const bool fetches = pair + 1 < last && at.head + 1 < task.heads;
    const int64_t query_stride = task.query_strides.token;
    pack_keys(at.key, task.key_strides.token, tokens, depth / 2, columns, keys);
    pack_values(at.value, task.value_strides.token, tokens, depth, depth_columns, values);

    const int64_t blocks = (task.queries + Products::kQueries - 1) / Products::kQueries;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = task.queries * block / blocks;
      const int64_t count = task.queries * (block + 1) / blocks - begin;
      const float* masks = at.mask == nullptr ? nullptr : at.mask + begin * task.mask_strides[2];
      const int64_t visible = visible_keys(task, masks, count);
      const uint16_t* queries = at.query + begin * query_stride;
      int64_t stride = query_stride;
      if (2 * memory.key_pairs > depth) {
        fill_rows(queries, query_stride, count, depth, memory.key_pairs, filled);
        queries = filled;
        stride = 2 * memory.key_pairs;
      }
      products.multiply(count, queries, stride, keys, columns, whole_vectors(visible), memory.key_pairs,
                        scores, columns);
      const int64_t weight_pairs = rounded_up((visible + 1) / 2, Products::kPairs);
      float factors[Products::kQueries];
      for (int64_t i = 0; i < count; ++i) {
        const float* row_mask = masks == nullptr ? nullptr : masks + i * task.mask_strides[2];
        factors[i] = weigh(scores + i * columns, task.scale, row_mask, visible,
                           whole_vectors(2 * weight_pairs), weights + i * columns);
        if (fetches) fetch_next(task, at, begin + i);
      }
      products.multiply(count, weights, columns, values, depth_columns, depth_columns, weight_pairs, mixed,
                        depth_columns);
      for (int64_t i = 0; i < count; ++i) {
        uint16_t* out = static_cast<uint16_t*>(task.out) +
                        ((at.entry * task.queries + begin + i) * task.heads + at.head) * depth;
        write_row(mixed + i * depth_columns, factors[i], depth, out);
      }
    }
  }
}

SACCADE_AMX void attend_by_amx(const AttentionTask& task, int64_t first, int64_t last, float* scratch) {
  attend_by<TileProducts<AmxTiles>>(task, first, last, scratch);
}

}  // namespace

bool attends_in_bf16(const AttentionTask& task) {
  return cpu_has(CpuLevel::kAvx512Bf16) && task.type == DType::kBF16 && task.head_width % 2 == 0 &&
         task.head_width <= kMostHeadWidth && task.scale > 0;
}

int64_t attention_bf16_scratch(const AttentionTask& task) {
  return bf16_kernel() != nullptr ? scratch_of<TileProducts<EmulatedTiles>>(task)
                                  : scratch_of<VectorProducts>(task);
}

int64_t emulated_tiles_scratch(const AttentionTask& task) {
  return scratch_of<TileProducts<EmulatedTiles>>(task);
}

void attend_bf16(const AttentionTask& task, int64_t first, int64_t last, float* scratch) {
  if (bf16_kernel() != nullptr) return attend_by_amx(task, first, last, scratch);
  attend_by<VectorProducts>(task, first, last, scratch);
}

void attend_bf16_by_emulated_tiles(const AttentionTask& task, int64_t first, int64_t last, float* scratch) {
  attend_by<TileProducts<EmulatedTiles>>(task, first, last, scratch);
}
#else
bool attends_in_bf16(const AttentionTask& /*task*/) {
  return false;
}
int64_t attention_bf16_scratch(const AttentionTask& /*task*/) {
  return 0;
}
int64_t emulated_tiles_scratch(const AttentionTask& /*task*/) {
  return 0;
}
void attend_bf16(const AttentionTask& /*task*/, int64_t /*first*/, int64_t /*last*/, float* /*scratch*/) {}
void attend_bf16_by_emulated_tiles(const AttentionTask& /*task*/, int64_t /*first*/, int64_t /*last*/,
                                   float* /*scratch*/) {}
#endif

}  // namespace saccade::nn
