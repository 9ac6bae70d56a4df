// Kernels for sums of products of byte rows with vectors of small integers, in the widest instructions of the
// processor. All sums are integers that fit 32 bits, so every kernel gives the same result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"

namespace saccade {

// Multiple that rows and parts are padded to: a register of bytes.
inline constexpr int64_t kInt8Columns = 64;
// Maximum row width: 255 * 127 * 65,536 is below 2^31.
inline constexpr int64_t kMaxInt8Columns = 65'536;

// Computes sums[p * row_count + r], the sum over columns c of row r's byte c (0 to 255) times parts[p *
// columns + c] (-127 to 127). Row r begins at rows + r * stride; columns: a multiple of kInt8Columns up to
// kMaxInt8Columns.
using Int8Kernel = void (*)(const std::byte* rows, int64_t row_count, int64_t stride, int64_t columns,
                            const int8_t* parts, int64_t part_count, int32_t* sums);

struct NamedInt8Kernel {
  std::string_view name;  // "avx512_vnni", "avx2", "i8mm", "dotprod", "portable"
  CpuLevel level = CpuLevel::kPortable;
  Int8Kernel run = nullptr;
};

// Returns the kernels that this processor can run, fastest first; the last is always "portable".
std::span<const NamedInt8Kernel> int8_kernels();

}  // namespace saccade
