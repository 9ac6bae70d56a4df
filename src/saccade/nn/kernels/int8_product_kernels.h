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

#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"
#include "saccade/nn/kernels/int8_quantize_task.h"
#include "saccade/nn/kernels/panel_task.h"

namespace saccade::nn {

// Product of some rows with one panel of weights.
struct Int8PanelTask {
  int64_t groups = 0;
  const uint8_t* weights = nullptr;  // the panel
  const int32_t* sums = nullptr;     // [kPanelOutputs], of each output's weights
  const float* scales = nullptr;     // [kPanelOutputs], of the weights
  const int8_t* low = nullptr;
  const SecondDigits* high = nullptr;
  const Int8Row* rows = nullptr;
  PanelResults results;
};

// Kernels for quantization and products; both process rows [first, last).
struct Int8Kernels {
  std::string_view name;  // "amx", "avx512_vnni", "avx_vnni", "avx2", "i8mm", "dotprod", "portable"
  CpuLevel level = CpuLevel::kPortable;
  void (*quantize)(const QuantizeTask& task, int64_t first, int64_t last) = nullptr;
  void (*multiply)(const Int8PanelTask& task, int64_t first, int64_t last) = nullptr;
  RowBlocks blocks = {};
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
