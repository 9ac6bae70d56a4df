// Kernels for sums of a query's integers over the set bits of rows, in the widest instructions of the processor. All
// sums are integers that fit 32 bits, so every kernel gives the same result. Internal to this module.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"

namespace saccade {

// Number of bits of a query's integers, which are in two's complement: [-32, 31].
inline constexpr int kBitPlanes = 6;

// Computes sums[r], the sum of the query's integers at the bits that are set in row r. rows: [row_count, words].
// planes: [kBitPlanes, words]; bit j of plane p is bit p of the query's integer j.
using BitKernel = void (*)(const uint64_t* rows, int64_t row_count, int64_t words, const uint64_t* planes,
                           int32_t* sums);

struct NamedBitKernel {
  std::string_view name;  // "avx512_vpopcntdq", "avx2", "portable"
  CpuLevel level = CpuLevel::kPortable;
  BitKernel run = nullptr;
};

// Returns the kernels that this processor can run, fastest first; the last is always "portable".
std::span<const NamedBitKernel> bit_kernels();

}  // namespace saccade
