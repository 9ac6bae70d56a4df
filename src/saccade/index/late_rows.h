// Storage formats of late-interaction rows. There are many per item, so their size dominates the size of a
// collection.
//
//   fp16   dim IEEE binary16 numbers, little-endian
//   int8   dim bytes b, value (b - 128) * scale; bytes of 128 up to a multiple of 4; scale, float32
//          little-endian: the row's largest magnitude / 127
//
// The bytes are unsigned because the dot-product instructions of AVX-512 VNNI take one unsigned operand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"

namespace saccade {

enum class RowPrecision { kFp16, kInt8 };

std::span<const EnumName<RowPrecision>> enum_names(RowPrecision);  // "fp16", "int8"

struct RowLayout {
  RowPrecision precision = RowPrecision::kFp16;
  int64_t dim = 0;
  bool operator==(const RowLayout&) const = default;
};

// Returns `dim` rounded up to a multiple of 4: the number of values that int8 stores per row.
constexpr int64_t int8_row_values(int64_t dim) {
  return (dim + 3) / 4 * 4;
}

// Returns the size of a row in bytes; dim is at most 65,536.
constexpr int64_t stored_row_bytes(const RowLayout& layout) {
  return layout.precision == RowPrecision::kFp16
             ? 2 * layout.dim
             : int8_row_values(layout.dim) + static_cast<int64_t>(sizeof(float));
}

// Rows of one item, borrowed.
struct StoredRows {
  RowLayout layout;
  const std::byte* data = nullptr;
  int64_t count = 0;
};

// Stores rows: [n, dim], finite, of magnitude up to 65,504 for fp16. out: n x stored_row_bytes.
void store_rows(MatrixView<const float> rows, RowPrecision precision, std::span<std::byte> out);
// Returns the rows as floats, [count, dim].
Matrix<float> restore_rows(const StoredRows& rows);

}  // namespace saccade
