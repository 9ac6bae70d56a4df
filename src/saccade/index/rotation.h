// The rotation H of rows: flips the signs of columns by a hash of the column, cuts the columns into blocks of the
// largest power of two that divides their number, and multiplies each block by the Hadamard matrix of that size over
// the square root of the size. It is orthogonal, so H r . H q = r . q, and it spreads an outlier over its block.
// Internal to this module.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/random.h"

namespace saccade {

// Returns pseudo-random bits that depend only on the column.
inline uint64_t column_bits(int64_t column) {
  return SplitMix(0x5ACC'ADE0, column).next();
}

// Returns the signs of `columns` columns, 1 or -1.
template <typename T>
std::vector<T> column_signs(int64_t columns) {
  std::vector<T> signs(static_cast<size_t>(columns));
  for (size_t c = 0; c < signs.size(); ++c) {
    signs[c] = (column_bits(static_cast<int64_t>(c)) & 1) != 0 ? T{1} : T{-1};
  }
  return signs;
}

// Computes H v into `values`, [signs]. Columns of v that are missing count as 0.
template <typename T>
void rotate(std::span<const float> v, const std::vector<T>& signs, std::span<T> values) {
  const size_t columns = signs.size();
  for (size_t c = 0; c < columns; ++c) values[c] = c < v.size() ? signs[c] * static_cast<T>(v[c]) : T{0};
  const size_t block = columns & (~columns + 1);  // the lowest bit that is set
  for (size_t half = 1; half < block; half *= 2) {
    for (size_t first = 0; first < columns; first += 2 * half) {
      T* low = values.data() + first;
      T* high = low + half;
      for (size_t i = 0; i < half; ++i) {
        const T a = low[i];
        const T b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      }
    }
  }
  const T scale = T{1} / std::sqrt(static_cast<T>(block));
  for (size_t c = 0; c < columns; ++c) values[c] *= scale;
}

}  // namespace saccade
