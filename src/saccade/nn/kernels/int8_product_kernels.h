// Kernels for products of 8-bit integers, with quantization from float32 and dequantization.
//
// A row x of activations, multiplied by its inputs' factors, is scale * (zero + low + 128 * high). Both
// digits are 8-bit integers. Each row has its own scale and `zero`; `zero` centers a one-sided row (such as
// an activation's output) in the 8-bit range. Few values need a second digit. It is stored and multiplied
// only for groups of four inputs with a value far larger than the row's others (the outlier channels of
// transformers: Dettmers et al. 2022, "LLM.int8()", section 3). Outliers are therefore as precise as other
// values and cost them no precision.
//
// Weights are 8 bits with one scale per output. They are stored unsigned, + 128, because the processors'
// instructions multiply signed by unsigned values. The offset's contribution is known from the row's sum and
// is subtracted. The contribution of `zero` is known from the sums of the weights. Sums are exact 32-bit
// integers, so all kernels give identical bits in any order of summation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"
#include "saccade/nn/activation.h"
#include "saccade/nn/kernels/int8_quantize_task.h"

namespace saccade::nn {

// Product of some rows with one panel of weights.
struct Int8PanelTask {
  int64_t groups = 0;
  const uint8_t* weights = nullptr;  // the panel
  const int32_t* sums = nullptr;     // [kPanelOutputs], of each output's weights
  const float* scales = nullptr;     // [kPanelOutputs], of the weights
  const float* bias = nullptr;       // [kPanelOutputs]
  const int8_t* low = nullptr;
  const SecondDigits* high = nullptr;
  const Int8Row* rows = nullptr;
  Activation activation = Activation::kNone;
  bool accumulate = false;  // the results are added to `out`, which then is float32
  bool halves = false;      // `out` is bfloat16, not float32
  void* out = nullptr;      // the first row's first output of the panel
  int64_t out_stride = 0;
  int64_t outputs = kPanelOutputs;  // fewer in a last panel
};

// Kernels for quantization and products; both process rows [first, last).
struct Int8Kernels {
  std::string_view name;  // "amx", "avx512_vnni", "avx_vnni", "avx2", "i8mm", "dotprod", "portable"
  CpuLevel level = CpuLevel::kPortable;
  void (*quantize)(const QuantizeTask& task, int64_t first, int64_t last) = nullptr;
  void (*multiply)(const Int8PanelTask& task, int64_t first, int64_t last) = nullptr;
  // Number of rows that `multiply` computes at a time. Multiples of it are fastest; other numbers give the same results.
  int64_t block_rows = 1;
  // Size of the values of a chunk of rows, in bytes. They fit in a core's own cache, and the work with a panel of weights
  // (about 20 microseconds) makes the cost of taking an item negligible. Chosen for AVX-512 VNNI.
  int64_t chunk_bytes = int64_t{256} << 10;
};

// Rows of a product in chunks of about equal size. All chunks but the last have whole blocks of rows.
class Int8Chunks {
 public:
  // row_bytes: size of a row's values; rows: at least 1.
  Int8Chunks(const Int8Kernels& kernel, int64_t rows, int64_t row_bytes)
      : rows_(rows), block_(kernel.block_rows), blocks_((rows + block_ - 1) / block_) {
    count_ = std::min(blocks_, (rows * row_bytes + kernel.chunk_bytes - 1) / kernel.chunk_bytes);
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

// Returns the kernels that this processor can run, fastest first; the last is always "portable".
std::span<const Int8Kernels> int8_kernels();
// Returns the kernels of "amx" with the tiles' instructions emulated in plain C++, for tests on any processor.
const Int8Kernels& emulated_int8_kernel();
// Returns true if two kernels give the same bits for small products. These have every kind of block of tiles, groups of inputs
// after the last whole tile, and second digits.
bool multiply_alike(const Int8Kernels& one, const Int8Kernels& other);
// Returns the one that layers compute with: the fastest.
const Int8Kernels& int8_kernel();

}  // namespace saccade::nn
