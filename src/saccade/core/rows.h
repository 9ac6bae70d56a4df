// Length, sum and normalization of rows, shared by all uses of an encoder's output. Sums are in double.
#pragma once

#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/matrix.h"

namespace saccade {

// Returns the Euclidean norm; not finite if a value is not.
double row_length(std::span<const float> row);
double row_length(std::span<const double> row);

// Returns the dot product of two rows of the same length.
double dot_product(std::span<const float> a, std::span<const float> b);

// Normalizes a row to length 1 and returns its former length. A row that is not finite, or no longer than
// `least`, is not changed.
double normalize_row(std::span<float> row, double least = 0);

// Returns the rows `which`, in that order.
Matrix<float> select_rows(MatrixView<const float> rows, std::span<const int64_t> which);

// Sums column by column: [columns].
std::vector<double> sum_rows(MatrixView<const float> rows);

// Returns the direction of a sum (or mean) of rows, as a row of length 1. Returns kBadData with the length
// for a sum that is not finite or no longer than `least`. A sum of unit rows that short is only rounding.
Result<std::vector<float>> unit_row(std::span<const double> sum, double least = 0);

// Returns kBadData, with the length, for a row that is not finite or not of length 1 within the tolerance.
Status check_unit_row(std::span<const float> row, double tolerance = 1e-3);

}  // namespace saccade
