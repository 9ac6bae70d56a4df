// Kernels that compare a tile of rows in 8-bit codes (int8_rows.h) with many queries, in the widest instructions of the
// processor. The rows lie side by side, so that each lane of a register sums one row's products, and no sum is made
// across lanes. Sums are integers that fit 32 bits, so that every kernel gives the same; bounds may differ in their last bit,
// as operations may be fused. Internal to this module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"

namespace saccade {

// Number of rows in a tile.
inline constexpr int64_t kInt8TileRows = 64;

// Values that bound the scores of a tile's rows: their scale, the length of their codes' vector times the scale, and their error.
struct Int8TileTerms {
  alignas(64) std::array<float, kInt8TileRows> scale;
  alignas(64) std::array<float, kInt8TileRows> length;
  alignas(64) std::array<float, kInt8TileRows> error;
};

// A query's side of the comparison: the score of row r is at most
//   scale[r] * (step * (sum - start)) + ((of_length * length[r] + of_error * error[r]) + least)
struct Int8TileQuery {
  int32_t start = 0;
  float step = 0;
  float of_length = 0;
  float of_error = 0;
  float least = 0;
};

struct NamedInt8TileKernel {
  std::string_view name;  // "avx512_vnni", "portable"
  CpuLevel level = CpuLevel::kPortable;
  // Lays `count` rows (1 to kInt8TileRows) side by side: columns 0 to 3 of each row, then columns 4 to 7, and so on; rows
  // that are missing become zeros. Row r begins at rows + r * stride; columns: a multiple of 64. side_by_side:
  // [columns / 4, kInt8TileRows, 4], aligned to 64 bytes.
  void (*turn)(const std::byte* rows, int64_t count, int64_t stride, int64_t columns,
               std::byte* side_by_side) = nullptr;
  // Computes sums[p * kInt8TileRows + r], the sum over columns c of row r's byte c times parts[p * columns + c]. Meanwhile it
  // prefetches memory from `next` on, about the size of a tile; it may be any address.
  void (*multiply)(const std::byte* side_by_side, int64_t columns, const int8_t* parts, int64_t part_count,
                   int32_t* sums, const std::byte* next) = nullptr;
  // Computes squares[r], the sum of the squares of row r's bytes less 128.
  void (*square)(const std::byte* side_by_side, int64_t columns, int32_t* squares) = nullptr;
  // Returns bit r set unless the bound of row r is below `limit`; also set where the bound is NaN. sums: those of the
  // query, [kInt8TileRows].
  uint64_t (*reach)(const Int8TileTerms& terms, const Int8TileQuery& query, const int32_t* sums,
                    float limit) = nullptr;
};

// Returns the kernels that this processor can run, fastest first; the last is always "portable".
std::span<const NamedInt8TileKernel> int8_tile_kernels();

}  // namespace saccade
