// Products of rows with panels of weights: the results of a panel, and rows in chunks. Shared by the kernels for 8-bit integers and
// for bfloat16 by tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "saccade/nn/activation.h"

namespace saccade::nn {

// Number of outputs per panel of weights: [groups][kPanelOutputs][4 bytes], inputs in groups of four numbers of 8 bits or two of
// bfloat16.
inline constexpr int64_t kPanelOutputs = 64;

// Destination of a panel's results, and the steps from its sums to them. All memory is borrowed.
struct PanelResults {
  const float* bias = nullptr;  // [kPanelOutputs]
  Activation activation = Activation::kNone;
  bool accumulate = false;          // the results are added to `out`, which then is float32
  bool halves = false;              // `out` is bfloat16, not float32
  void* out = nullptr;              // the first row's first output of the panel
  int64_t out_stride = 0;           // from a row to the next, in elements
  int64_t outputs = kPanelOutputs;  // fewer in a last panel
};

// Sizes of the pieces of rows that a kernel prefers.
struct RowBlocks {
  // Number of rows that are computed at a time. Multiples of it are fastest; other numbers give the same results.
  int64_t rows = 1;
  // Size of the values of a chunk of rows, in bytes. They fit in a core's own cache, and the work with a panel of weights
  // (about 20 microseconds) makes the cost of taking an item negligible. Chosen for AVX-512 VNNI.
  int64_t chunk_bytes = int64_t{256} << 10;
};

// Rows of a product in chunks of about equal size. All chunks but the last have whole blocks of rows.
class RowChunks {
 public:
  // row_bytes: size of a row's values; rows: at least 1.
  RowChunks(const RowBlocks& blocks, int64_t rows, int64_t row_bytes)
      : rows_(rows), block_(blocks.rows), blocks_((rows + block_ - 1) / block_) {
    count_ = std::min(blocks_, (rows * row_bytes + blocks.chunk_bytes - 1) / blocks.chunk_bytes);
  }

  [[nodiscard]] int64_t count() const { return count_; }
  // Returns the first row of a chunk; that of chunk count() is the number of rows.
  [[nodiscard]] int64_t first(int64_t chunk) const {
    return std::min(rows_, blocks_ * chunk / count_ * block_);
  }
  // Returns the number of rows of the largest chunk.
  [[nodiscard]] int64_t most_rows() const {
    return std::min(rows_, (blocks_ + count_ - 1) / count_ * block_);
  }

 private:
  int64_t rows_, block_, blocks_, count_ = 0;
};

}  // namespace saccade::nn
