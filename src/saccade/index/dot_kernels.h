// Dot products of a tile of rows with a block of queries, in the widest instructions of the processor.
//
// The order of summation is defined and does not depend on the instruction set. So a collection gives
// bit-identical scores on every machine, and a row's score does not depend on the rest of the batch:
//   lane[j]  = fma over columns c = j, j + 32, j + 64, ... in that order, from +0, for j in [0, 32)
//   lane[j] += lane[j + 16] for j < 16, then lane[j + 8] for j < 8, then 4, 2, 1;  the score is lane[0]
//
// Columns are padded with zeros to a multiple of 32. The error is that of pairwise summation: about dim / 32
// + 5 roundings, against dim for a plain loop.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"

namespace saccade {

inline constexpr int64_t kDotLanes = 32;
// Number of rows that a kernel scores together, and the prefetch distance in rows.
inline constexpr int64_t kDotRowGroup = 4;

// Returns `dim` rounded up to a multiple of kDotLanes: the padded length of a query.
constexpr int64_t padded_dim(int64_t dim) {
  return (dim + kDotLanes - 1) / kDotLanes * kDotLanes;
}

// Computes scores[q * row_count + r] = dot(rows[r], queries + q * padded_dim(dim)).
// rows: row_count + kDotRowGroup pointers to `dim` floats each; those from row_count on are only prefetched.
// queries: [query_count, padded_dim(dim)], padded with zeros.
using DotKernel = void (*)(const float* const* rows, int64_t row_count, const float* queries,
                           int64_t query_count, int64_t dim, float* scores);

struct NamedDotKernel {
  std::string_view name;  // "avx512", "avx2", "neon", "portable"
  CpuLevel level = CpuLevel::kPortable;
  DotKernel run = nullptr;
};

// Returns the kernels that this processor can run, fastest first; the last is always "portable".
std::span<const NamedDotKernel> dot_kernels();

}  // namespace saccade
