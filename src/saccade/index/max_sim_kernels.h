// Largest dot product of each query row with an item's rows, in the widest instructions of the processor.
//
// Sixteen query rows lie side by side, one per lane. Each value of the item's row is broadcast to all lanes
// and multiplied by sixteen query values at once. No sum is taken across lanes, and the maximum is one
// instruction per row.
//
// The computation is defined independently of the instruction set: the bits are the same on every machine.
//
//   fp16   dot = fma over columns c = 0, 1, 2, ... in that order, from +0, of the row's value and the
//          query's fp32 one
//   int8   query rows are int8 themselves, each with a scale of its own; the sum of products is a whole
//          number, exact in 32 bits; dot = float(sum) * the row's scale, all times the query's scale
//          at the end
//   best   the first row with the largest dot; a dot that is NaN is skipped
//
// fp16 rows are not multiplied as bf16. The bf16 instruction doubles the number of products but drops three
// of a stored value's eleven bits. int8 takes half the memory and is twice as fast again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/core/cpu.h"
#include "saccade/core/error.h"
#include "saccade/index/late_rows.h"
#include "saccade/matrix.h"

namespace saccade {

inline constexpr int64_t kMaxSimLanes = 16;

// Query rows in the kernels' layout, in groups of kMaxSimLanes; unused lanes hold zeros.
struct PackedQuery {
  RowLayout layout;  // layout of the items to score
  int64_t rows = 0;
  int64_t groups = 0;
  std::vector<float> floats;    // fp16: [groups, dim, 16]
  std::vector<int8_t> bytes;    // int8: [groups, dim up to a multiple of 4 / 4, 16, 4]
  std::vector<int32_t> starts;  // int8: [groups, 16], -128 x the sum of a lane's bytes: takes back that rows
                                // are stored with 128 on top
  std::vector<float> scales;    // [groups, 16]: what `best` is to be multiplied by

  [[nodiscard]] int64_t lanes() const { return groups * kMaxSimLanes; }
};

// Packs a query's rows: [n, dim], n and dim at least 1. Returns kUsage for no rows or more than 65,536
// columns, and kBadData for a value that is not finite.
Result<PackedQuery> pack_query(MatrixView<const float> rows, RowPrecision precision);

// Computes best[lane], the largest dot of the lane's query row with rows [0, row_count), before scaling, or
// -infinity if there is none. where[lane] is the row of that dot, or -1. Both: [query.lanes()].
using MaxSimKernel = void (*)(const std::byte* rows, int64_t row_count, const PackedQuery& query, float* best,
                              int32_t* where);

struct NamedMaxSimKernel {
  std::string_view name;  // "avx512", "avx512_vnni", "avx2", "portable"
  CpuLevel level = CpuLevel::kPortable;
  MaxSimKernel run = nullptr;
};

// Returns the kernels that this processor can run on rows of that precision, fastest first; the last is
// always "portable".
std::span<const NamedMaxSimKernel> max_sim_kernels(RowPrecision precision);

}  // namespace saccade
