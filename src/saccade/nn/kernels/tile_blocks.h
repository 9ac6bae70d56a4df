// Sums of products by tiles (tiles.h): blocks of up to 32 rows by a few vectors of outputs. Internal to the module's kernel files.
//
// All numbers come in groups of 4 bytes of a row's inputs: four of 8 bits, or two of bfloat16. Weights are
// [groups, outputs, 4 bytes], which is the layout of a tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "saccade/nn/kernels/panel_task.h"
#include "saccade/nn/kernels/tiles.h"

namespace saccade::nn {

inline constexpr int64_t kBlockRows = 2 * kTileHeight;
inline constexpr int64_t kTileOutputs = kTileBytes / 4;

// Half of a core's L2 cache on processors with AMX (2 MiB), so that a panel of weights and the results fit beside the values.
// Each chunk reads all weights from what cores share: the last cache, or memory. These reads may limit products by tiles of
// chunks of 256 KiB, which are 85 rows of 3,072 inputs in 8 bits. Not measured on such a processor.
inline constexpr int64_t kTileChunkBytes = int64_t{1} << 20;

// A block is tall if it has more than kTileHeight rows. It then has up to two vectors of outputs, and else up to four: four
// tiles of sums in both cases, so that three products run while one waits for the previous sum of its tile.
constexpr bool is_tall(int64_t rows) {
  return rows > kTileHeight;
}

// Returns the shapes for a block of `rows` rows, 1 to kBlockRows, and any number of vectors.
// Tall: tiles 0, 1 and 4 are sums and values of the upper rows, 2, 3 and 5 those of the lower rows, 6 and 7 weights.
// Others: tiles 0 to 3 are sums, 4 values, 5 to 7 weights.
inline TileShapes block_shapes(int64_t rows) {
  TileShapes shapes;
  for (int tile = 0; tile < kTiles; ++tile) shapes.set(tile, kTileHeight, kTileBytes);
  if (is_tall(rows)) {
    for (const int tile : {2, 3, 5}) shapes.set(tile, rows - kTileHeight, kTileBytes);
  } else {
    for (const int tile : {0, 1, 2, 3, 4}) shapes.set(tile, rows, kTileBytes);
  }
  return shapes;
}

// Adds sixteen groups of inputs to the sums of a block. Strides are bytes from a row of x, or a group of weights, to the next.
template <TileNumbers kNumbers, bool kTall, int kVectors, typename Tiles>
SACCADE_INLINE void add_groups(Tiles& tiles, const std::byte* x, int64_t x_stride, const std::byte* weights,
                               int64_t weight_stride) {
  static_assert(kVectors >= 1 && kVectors <= (kTall ? 2 : 4));
  tiles.template load<4>(x, x_stride);
  if constexpr (kTall) {
    tiles.template load<6>(weights, weight_stride);
    tiles.template add_product<kNumbers, 0, 4, 6>();
    if constexpr (kVectors > 1) {
      tiles.template load<7>(weights + kTileBytes, weight_stride);
      tiles.template add_product<kNumbers, 1, 4, 7>();
    }
    tiles.template load<5>(x + kTileHeight * x_stride, x_stride);
    tiles.template add_product<kNumbers, 2, 5, 6>();
    if constexpr (kVectors > 1) tiles.template add_product<kNumbers, 3, 5, 7>();
  } else {
    tiles.template load<5>(weights, weight_stride);
    tiles.template add_product<kNumbers, 0, 4, 5>();
    if constexpr (kVectors > 1) {
      tiles.template load<6>(weights + kTileBytes, weight_stride);
      tiles.template add_product<kNumbers, 1, 4, 6>();
    }
    if constexpr (kVectors > 2) {
      tiles.template load<7>(weights + 2 * kTileBytes, weight_stride);
      tiles.template add_product<kNumbers, 2, 4, 7>();
    }
    if constexpr (kVectors > 3) {
      tiles.template load<5>(weights + 3 * kTileBytes, weight_stride);
      tiles.template add_product<kNumbers, 3, 4, 5>();
    }
  }
}

template <typename Tiles>
SACCADE_INLINE void zero_sums(Tiles& tiles) {
  tiles.template zero<0>();
  tiles.template zero<1>();
  tiles.template zero<2>();
  tiles.template zero<3>();
}

// Writes the sums of a block, rows `stride` bytes apart.
template <bool kTall, int kVectors, typename Tiles>
SACCADE_INLINE void store_sums(Tiles& tiles, std::byte* sums, int64_t stride) {
  std::byte* lower = sums + kTileHeight * stride;
  tiles.template store<0>(sums, stride);
  if constexpr (kVectors > 1) tiles.template store<1>(sums + kTileBytes, stride);
  if constexpr (kTall) {
    tiles.template store<2>(lower, stride);
    if constexpr (kVectors > 1) tiles.template store<3>(lower + kTileBytes, stride);
  } else {
    if constexpr (kVectors > 2) tiles.template store<2>(sums + 2 * kTileBytes, stride);
    if constexpr (kVectors > 3) tiles.template store<3>(sums + 3 * kTileBytes, stride);
  }
}

// Values and weights of the groups after the last whole sixteen, with zeros behind them.
struct GroupsLeft {
  alignas(64) std::byte x[kBlockRows * kTileBytes];
  alignas(64) std::byte weights[kTileHeight * 4 * kPanelOutputs];
};

// Computes the sums of rows with a panel of weights.
//   x: rows of `row_bytes` bytes, one behind the other; `first` and `last` count from it
//   weights: the panel, [(row_bytes + 3) / 4 groups, kPanelOutputs, 4 bytes]; those behind the end of a row are any finite numbers
//   finish(row, sums): takes a row's sums, [kPanelOutputs] of int32_t or float
// A row's sums do not depend on the other rows.
template <TileNumbers kNumbers, typename Tiles, typename Finish>
SACCADE_INLINE void multiply_blocks(const std::byte* x, int64_t row_bytes, const std::byte* weights,
                                    int64_t first, int64_t last, const Finish& finish) {
  using Sum = std::conditional_t<kNumbers == TileNumbers::kBytes, int32_t, float>;
  constexpr int64_t kGroupBytes = 4 * kPanelOutputs;  // of the weights
  constexpr int64_t kSumBytes = 4 * kPanelOutputs;    // of a row
  static_assert(kPanelOutputs == 4 * kTileOutputs);
  alignas(64) Sum sums[kBlockRows * kPanelOutputs];
  auto* sum_bytes = reinterpret_cast<std::byte*>(sums);
  const int64_t whole_bytes = row_bytes / kTileBytes * kTileBytes;  // of a row
  const int64_t bytes_left = row_bytes - whole_bytes;
  GroupsLeft left;  // not initialized: most layers have no such groups
  if (bytes_left > 0) {
    left = {};
    std::memcpy(left.weights, weights + whole_bytes / 4 * kGroupBytes,
                static_cast<size_t>((bytes_left + 3) / 4 * kGroupBytes));
  }
  Tiles tiles;
  // Sums of `kVectors` vectors of outputs of one block, from the output that `from`, `from_left` and `to` point to.
  const auto sum = [&]<bool kTall, int kVectors>(const std::byte* rows, const std::byte* from,
                                                 const std::byte* from_left,
                                                 std::byte* to) SACCADE_INLINE_LAMBDA {
    zero_sums(tiles);
    for (int64_t at = 0; at < whole_bytes; at += kTileBytes) {
      add_groups<kNumbers, kTall, kVectors>(tiles, rows + at, row_bytes, from + at / 4 * kGroupBytes,
                                            kGroupBytes);
    }
    if (bytes_left > 0) {
      add_groups<kNumbers, kTall, kVectors>(tiles, left.x, kTileBytes, from_left, kGroupBytes);
    }
    store_sums<kTall, kVectors>(tiles, to, kSumBytes);
  };
  int64_t shaped = 0;
  for (int64_t begin = first; begin < last; begin += kBlockRows) {
    const int64_t count = std::min(kBlockRows, last - begin);
    if (count != shaped) tiles.shape(block_shapes(count));
    shaped = count;
    const std::byte* rows = x + begin * row_bytes;
    for (int64_t r = 0; bytes_left > 0 && r < count; ++r) {
      std::memcpy(left.x + r * kTileBytes, rows + r * row_bytes + whole_bytes,
                  static_cast<size_t>(bytes_left));
    }
    if (is_tall(count)) {
      for (int64_t at = 0; at < kGroupBytes; at += 2 * kTileBytes) {
        sum.template operator()<true, 2>(rows, weights + at, left.weights + at, sum_bytes + at);
      }
    } else {
      sum.template operator()<false, 4>(rows, weights, left.weights, sum_bytes);
    }
    for (int64_t r = 0; r < count; ++r) finish(begin + r, sums + r * kPanelOutputs);
  }
  tiles.release();
}

}  // namespace saccade::nn
