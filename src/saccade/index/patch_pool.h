// Pooling of patch embeddings: neighboring patches of an image are stored as one row, their mean.
//
// Pooling of late-interaction rows: Clavie, Chaffin, Adams, "Reducing the Footprint of Multi-Vector Retrieval
// with Minimal Performance Impact via Token Pooling", arXiv 2409.14683. The paper pools clusters of similar
// rows. Here the blocks are fixed ("grid_mean"): a row keeps its place in the image, and an item's size does
// not depend on its content.
#pragma once

#include <cstdint>
#include <optional>

#include "saccade/matrix.h"

namespace saccade {

struct PatchGrid {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Block of adjacent patches, given from the top left.
struct PatchBlock {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 1;
  int64_t columns = 1;
};

// Returns the block of `factor` patches, as near to a square as possible, wider than high. 4: 2 x 2; 6: 2
// high, 3 wide.
PatchBlock pool_block(int64_t factor);

// Returns the number of rows after pooling an item of `rows` rows, whose first grid.rows x grid.columns are
// its patches. Blocks at the grid's far edges are smaller.
int64_t pooled_rows(int64_t rows, PatchGrid grid, int64_t factor);

// Pools rows: [n, dim], with n at least the grid's patches and factor at least 1. Returns the blocks' means
// in row-major order of the grid, normalized to length 1 (unless shorter than 1e-6). The rows that are not
// patches follow, unchanged.
Matrix<float> pool_patches(MatrixView<const float> rows, PatchGrid grid, int64_t factor);

// Returns the patches that a pooled row covers, or nullopt for a row that covers none.
std::optional<PatchBlock> patches_of_row(int64_t pooled_row, PatchGrid grid, int64_t factor);

}  // namespace saccade
