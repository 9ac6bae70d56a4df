// Kernels for products in bfloat16 by tiles (tiles.h). Processors without tiles have oneDNN's products alone.
//
// Weights are packed as the tiles take them, and rows are read as they are. Sums are float32. They depend neither on the other rows
// nor on the number of threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "saccade/nn/kernels/panel_task.h"

namespace saccade::nn {

// Product of some rows with one panel of weights.
struct Bf16PanelTask {
  int64_t inputs = 0;
  const uint16_t* x = nullptr;        // [rows, inputs]
  const uint16_t* weights = nullptr;  // [(inputs + 1) / 2, kPanelOutputs, 2]; zero behind the last input
  PanelResults results;
};

struct Bf16Kernel {
  std::string_view name;  // "amx", "emulated_amx"
  // Computes rows [first, last).
  void (*multiply)(const Bf16PanelTask& task, int64_t first, int64_t last) = nullptr;
  RowBlocks blocks;
};

// Returns the kernel that layers compute with, or nullptr if this processor has no tiles, if the system denies them, or if they
// give other sums than they should. Thread-safe; the first call multiplies some numbers.
const Bf16Kernel* bf16_kernel();
// Returns the same kernel with the tiles' instructions emulated in plain C++, for tests on any processor.
const Bf16Kernel& emulated_bf16_kernel();
// Returns true if a kernel's products of small whole numbers, which bfloat16 and float32 hold exactly, are right. They have every
// kind of block that layers' products have, and inputs after the last whole tile.
bool multiplies_exactly(const Bf16Kernel& kernel);

}  // namespace saccade::nn
