#include "saccade/index/patch_pool.h"

#include <algorithm>
#include <vector>

#include "saccade/core/rows.h"

namespace saccade {
namespace {

int64_t blocks_along(int64_t patches, int64_t side) {
  return (patches + side - 1) / side;
}

}  // namespace

PatchBlock pool_block(int64_t factor) {
  PatchBlock block;
  for (int64_t side = 1; side * side <= factor; ++side) {
    if (factor % side == 0) block.rows = side;
  }
  block.columns = factor / block.rows;
  return block;
}

int64_t pooled_rows(int64_t rows, PatchGrid grid, int64_t factor) {
  const PatchBlock block = pool_block(factor);
  return rows - grid.rows * grid.columns +
         blocks_along(grid.rows, block.rows) * blocks_along(grid.columns, block.columns);
}

std::optional<PatchBlock> patches_of_row(int64_t pooled_row, PatchGrid grid, int64_t factor) {
  PatchBlock block = pool_block(factor);
  const int64_t across = blocks_along(grid.columns, block.columns);
  if (across == 0 || pooled_row < 0 || pooled_row >= across * blocks_along(grid.rows, block.rows)) {
    return std::nullopt;
  }
  block.row = pooled_row / across * block.rows;
  block.column = pooled_row % across * block.columns;
  block.rows = std::min(block.rows, grid.rows - block.row);
  block.columns = std::min(block.columns, grid.columns - block.column);
  return block;
}

Matrix<float> pool_patches(MatrixView<const float> rows, PatchGrid grid, int64_t factor) {
  const int64_t patches = grid.rows * grid.columns;
  const int64_t rest = rows.rows() - patches;
  Matrix<float> pooled(pooled_rows(rows.rows(), grid, factor), rows.columns());
  std::vector<double> sum(static_cast<size_t>(rows.columns()));
  for (int64_t r = 0; r < pooled.rows() - rest; ++r) {
    const PatchBlock block = *patches_of_row(r, grid, factor);
    std::ranges::fill(sum, 0);
    for (int64_t y = block.row; y < block.row + block.rows; ++y) {
      for (int64_t x = block.column; x < block.column + block.columns; ++x) {
        const auto row = rows.row(y * grid.columns + x);
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += double{row[c]};
      }
    }
    const auto count = static_cast<double>(block.rows * block.columns);
    for (double& value : sum) value /= count;
    const double length = row_length(sum);
    const double scale = length > 1e-6 ? 1 / length : 1;
    const auto row = pooled.row(r);
    for (size_t c = 0; c < sum.size(); ++c) row[c] = static_cast<float>(sum[c] * scale);
  }
  for (int64_t r = 0; r < rest; ++r) {
    std::ranges::copy(rows.row(patches + r), pooled.row(pooled.rows() - rest + r).begin());
  }
  return pooled;
}

}  // namespace saccade
