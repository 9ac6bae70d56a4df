// Tiles of AMX: eight registers of up to 16 rows of 64 bytes, and products of them. `AmxTiles` holds the instructions.
// `EmulatedTiles` does the same in plain C++, so that every machine tests the kernels that are written over tiles.
//
// Meaning of each operation: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (LDTILECFG,
// TILELOADD, TILESTORED, TDPBSUD, TDPBF16PS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "saccade/nn/kernels/lanes.h"

namespace saccade::nn {

inline constexpr int kTiles = 8;
inline constexpr int64_t kTileHeight = 16;  // rows of a tile at most
inline constexpr int64_t kTileBytes = 64;   // bytes of a row at most

// Numbers of a product of tiles. Both have the same layout in bytes: a row of the second tile holds 4 bytes per output.
enum class TileNumbers {
  kBytes,   // signed bytes by unsigned bytes; sums are 32-bit integers
  kHalves,  // bfloat16 by bfloat16; sums are float32
};

// Shapes of the tiles, in the layout of LDTILECFG's operand.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // per tile; the last eight are reserved
  uint8_t rows[16] = {};

  void set(int tile, int64_t tile_rows, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_rows == 0 ? 0 : bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

// The tiles' operations in plain C++.
class EmulatedTiles {
 public:
  // Gives the tiles new shapes. All become zero.
  void shape(const TileShapes& shapes) {
    shapes_ = shapes;
    std::memset(tiles_, 0, sizeof tiles_);
  }
  // Makes tiles unusable until they have shapes again.
  void release() { shape({}); }
  template <int T>
  void zero() {
    std::memset(tiles_[T], 0, sizeof tiles_[T]);
  }
  // Loads a tile. Rows of `from` are `stride` bytes apart.
  template <int T>
  void load(const void* from, int64_t stride) {
    zero<T>();
    for (int64_t r = 0; r < shapes_.rows[T]; ++r) {
      std::memcpy(tiles_[T][r], static_cast<const std::byte*>(from) + r * stride, shapes_.row_bytes[T]);
    }
  }
  template <int T>
  void store(void* to, int64_t stride) {
    for (int64_t r = 0; r < shapes_.rows[T]; ++r) {
      std::memcpy(static_cast<std::byte*>(to) + r * stride, tiles_[T][r], shapes_.row_bytes[T]);
    }
  }
  // Adds the product of A [rows, inputs] and B [inputs / n, outputs, n] to the sums C [rows, outputs], where n inputs have 4
  // bytes. Shapes that the instruction refuses leave values in C that no sum has. The instruction reads denormal numbers of
  // bfloat16 as 0 and makes none; here they count.
  template <TileNumbers kNumbers, int C, int A, int B>
  void add_product() {
    const bool fits = shapes_.rows[C] == shapes_.rows[A] && shapes_.row_bytes[C] == shapes_.row_bytes[B] &&
                      shapes_.row_bytes[A] == 4 * shapes_.rows[B] && shapes_.rows[C] > 0;
    if (!fits) std::memset(tiles_[C], 0x7f, sizeof tiles_[C]);
    for (int64_t r = 0; fits && r < shapes_.rows[C]; ++r) {
      for (int64_t o = 0; o < shapes_.row_bytes[C] / 4; ++o) {
        if constexpr (kNumbers == TileNumbers::kBytes) {
          add_bytes(tiles_[C][r] + 4 * o, tiles_[A][r], &tiles_[B][0][4 * o], shapes_.rows[B]);
        } else {
          add_halves(tiles_[C][r] + 4 * o, tiles_[A][r], &tiles_[B][0][4 * o], shapes_.rows[B]);
        }
      }
    }
  }

 private:
  // One sum over `groups` groups of 4 bytes of a row; those of the weights are kTileBytes apart.
  static void add_bytes(uint8_t* to, const uint8_t* row, const uint8_t* weights, int64_t groups) {
    int32_t sum;
    std::memcpy(&sum, to, sizeof sum);
    for (int64_t i = 0; i < 4 * groups; ++i) {
      sum += static_cast<int8_t>(row[i]) * weights[i / 4 * kTileBytes + i % 4];
    }
    std::memcpy(to, &sum, sizeof sum);
  }
  // The same with two numbers in a group: the first and the second of all groups have sums of their own.
  static void add_halves(uint8_t* to, const uint8_t* row, const uint8_t* weights, int64_t groups) {
    const auto number = [](const uint8_t* from) {
      const uint32_t bits = static_cast<uint32_t>(from[0]) << 16 | static_cast<uint32_t>(from[1]) << 24;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    };
    float sums[2] = {};
    for (int64_t i = 0; i < 2 * groups; ++i) {
      sums[i % 2] += number(row + 2 * i) * number(weights + i / 2 * kTileBytes + i % 2 * 2);
    }
    float sum;
    std::memcpy(&sum, to, sizeof sum);
    sum += sums[0] + sums[1];
    std::memcpy(to, &sum, sizeof sum);
  }

  TileShapes shapes_;
  uint8_t tiles_[kTiles][kTileHeight][kTileBytes] = {};
};

#if defined(__x86_64__)
#define SACCADE_AMX      \
  __attribute__((target( \
      "amx-tile,amx-int8,amx-bf16,avx512vnni,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

// The processor's own, for threads of a process that may use them (core/cpu.h). Written as assembly, because g++ 12's
// intrinsics do not tell the compiler that a load reads memory.
class AmxTiles {
 public:
  SACCADE_INLINE void shape(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  SACCADE_INLINE void release() { asm volatile("tilerelease"); }
  template <int T>
  SACCADE_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  SACCADE_INLINE void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  SACCADE_INLINE void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <TileNumbers kNumbers, int C, int A, int B>
  SACCADE_INLINE void add_product() {
    if constexpr (kNumbers == TileNumbers::kBytes) {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    } else {
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    }
  }
};
#endif

}  // namespace saccade::nn
