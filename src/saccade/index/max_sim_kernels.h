// The largest dot product of each query row with an item's
// rows, in the widest instructions the processor has.
//
// Sixteen query rows lie side by side, one a lane: a value of the item's row is spread over all lanes and
// meets sixteen query values at once, so that no sum is ever taken across lanes and the maximum is one
// instruction a row.
//
// What is computed is defined, not left to the instruction set: the same bits on every machine.
//
//   fp16   dot = fma over columns c = 0, 1, 2, ... in that order, from +0, of the row's value and the
//          query's fp32 one
//   int8   query rows are int8 themselves, each with a scale of its own; the sum of products is a whole
//          number, exact in 32 bits; dot = float(sum) * the row's scale, all times the query's scale
//          at the end
//   best   the first row of the largest dot; a dot that is NaN is passed over
//
// fp16 rows are not multiplied as bf16: that instruction doubles the products but drops three of a stored
// value's eleven bits, and int8 takes half the memory and is twice as fast again.
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

// A query's rows as the kernels read them, in groups of kMaxSimLanes; lanes without a row hold zeros.
struct PackedQuery {
  RowLayout layout;  // of the items it is for
  int64_t rows = 0;
  int64_t groups = 0;
  std::vector<float> floats;    // fp16: [groups, dim, 16]
  std::vector<int8_t> bytes;    // int8: [groups, dim up to a multiple of 4 / 4, 16, 4]
  std::vector<int32_t> starts;  // int8: [groups, 16], -128 x the sum of a lane's bytes: takes back that rows
                                // are stored with 128 on top
  std::vector<float> scales;    // [groups, 16]: what `best` is to be multiplied by

  [[nodiscard]] int64_t lanes() const { return groups * kMaxSimLanes; }
};

// rows: [n, dim], n and dim at least 1. kUsage for none or for more than 65,536 columns, kBadData for a value
// that is not finite.
Result<PackedQuery> pack_query(MatrixView<const float> rows, RowPrecision precision);

// best[lane] = the largest dot of the lane's query row with rows [0, row_count), not yet times its scale,
// -infinity if there is none; where[lane] = the row it is of, or -1. Both: [query.lanes()].
using MaxSimKernel = void (*)(const std::byte* rows, int64_t row_count, const PackedQuery& query, float* best,
                              int32_t* where);

struct NamedMaxSimKernel {
  std::string_view name;  // "avx512", "avx512_vnni", "avx2", "portable"
  CpuLevel level = CpuLevel::kPortable;
  MaxSimKernel run = nullptr;
};

// The kernels this processor can run on rows of that precision, fastest first; the last is always "portable".
std::span<const NamedMaxSimKernel> max_sim_kernels(RowPrecision precision);

}  // namespace saccade
