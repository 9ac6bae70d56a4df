// Fewer rows an item: neighbouring patches of a picture are stored as one row, their mean.
//
// Pooling rows of late interaction: Clavie, Chaffin, Adams, "Reducing the Footprint of Multi-Vector Retrieval
// with Minimal Performance Impact via Token Pooling", arXiv 2409.14683, which pools by clusters of like rows.
// Here the blocks are fixed ("grid_mean"): a row keeps its place in the picture, and an item's size does not
// depend on what it shows.
#pragma once

#include <cstdint>
#include <optional>

#include "saccade/matrix.h"

namespace saccade {

struct PatchGrid {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Patches side by side, from the top left.
struct PatchBlock {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 1;
  int64_t columns = 1;
};

// The block of `factor` patches: as near to a square as it divides, lying. 4: 2 x 2; 6: 2 high, 3 wide.
PatchBlock pool_block(int64_t factor);

// How many rows an item of `rows` rows has once its patches, the first grid.rows x grid.columns of them, are
// pooled. At the grid's far edges blocks are smaller.
int64_t pooled_rows(int64_t rows, PatchGrid grid, int64_t factor);

// rows: [n, dim], n at least the grid's patches, factor at least 1. Blocks' means,
// brought to length 1 (left as they are where the mean is shorter than 1e-6), row
// by row of the grid; then the rows that stand for no patch, unchanged.
Matrix<float> pool_patches(MatrixView<const float> rows, PatchGrid grid, int64_t factor);

// Which patches a pooled row stands for; nothing for rows that stand for none.
std::optional<PatchBlock> patches_of_row(int64_t pooled_row, PatchGrid grid, int64_t factor);

}  // namespace saccade
