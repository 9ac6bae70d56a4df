#include "saccade/index/late_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "saccade/core/half.h"

namespace saccade {
namespace {

void store_int8(std::span<const float> row, std::byte* out) {
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127.0F;
  const auto width = static_cast<size_t>(int8_row_values(static_cast<int64_t>(row.size())));
  std::memset(out, 128, width);
  for (size_t i = 0; i < row.size(); ++i) {
    // A scale that underflows to 0 gives a row of zeros.
    const float steps = scale > 0 ? std::nearbyint(row[i] / scale) : 0.0F;
    out[i] = static_cast<std::byte>(static_cast<int>(std::clamp(steps, -127.0F, 127.0F)) + 128);
  }
  std::memcpy(out + width, &scale, sizeof(scale));
}

}  // namespace

std::span<const EnumName<RowPrecision>> enum_names(RowPrecision) {
  static constexpr EnumName<RowPrecision> kWords[] = {{RowPrecision::kFp16, "fp16"},
                                                      {RowPrecision::kInt8, "int8"}};
  return kWords;
}

void store_rows(MatrixView<const float> rows, RowPrecision precision, std::span<std::byte> out) {
  const int64_t width = stored_row_bytes({precision, rows.columns()});
  assert(static_cast<int64_t>(out.size()) == rows.rows() * width);
  for (int64_t r = 0; r < rows.rows(); ++r) {
    std::byte* to = out.data() + r * width;
    const auto row = rows.row(r);
    if (precision == RowPrecision::kInt8) {
      store_int8(row, to);
      continue;
    }
    for (size_t i = 0; i < row.size(); ++i) {
      const uint16_t half = float_to_fp16(row[i]);
      std::memcpy(to + 2 * i, &half, sizeof(half));
    }
  }
}

Matrix<float> restore_rows(const StoredRows& rows) {
  const int64_t width = stored_row_bytes(rows.layout);
  Matrix<float> result(rows.count, rows.layout.dim);
  for (int64_t r = 0; r < rows.count; ++r) {
    const std::byte* from = rows.data + r * width;
    const auto row = result.row(r);
    if (rows.layout.precision == RowPrecision::kFp16) {
      for (size_t i = 0; i < row.size(); ++i) {
        uint16_t half = 0;
        std::memcpy(&half, from + 2 * i, sizeof(half));
        row[i] = fp16_to_float(half);
      }
      continue;
    }
    float scale = 0;
    std::memcpy(&scale, from + int8_row_values(rows.layout.dim), sizeof(scale));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<float>(static_cast<int>(from[i]) - 128) * scale;
    }
  }
  return result;
}

}  // namespace saccade
