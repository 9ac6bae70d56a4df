// Attention with bfloat16 products, by the processor's native instructions: twice as many values per
// instruction as in float32, or by tiles (AMX). For inference. Sums and the softmax are float32; the attention weights are
// rounded.
#pragma once

#include <cstdint>

#include "saccade/nn/kernels/tasks.h"

namespace saccade::nn {

// Returns true if this processor has these instructions and uses them for this task. The task must be in
// bfloat16, with an even head width of at most 256 and a positive scale. Returns false if SACCADE_CPU asks for narrower
// instructions.
bool attends_in_bf16(const AttentionTask& task);

// Returns the number of floats of scratch memory of attend_bf16().
int64_t attention_bf16_scratch(const AttentionTask& task);
// Computes pairs [first, last) of an entry and a head, like Kernels::attend; attends_in_bf16(task) must hold. The products are by
// tiles where bf16_kernel() is (kernels/bf16_product_kernels.h).
void attend_bf16(const AttentionTask& task, int64_t first, int64_t last, float* scratch);
// The same with emulated tiles, for tests, and the number of floats of its scratch memory; attends_in_bf16(task) must hold.
int64_t emulated_tiles_scratch(const AttentionTask& task);
void attend_bf16_by_emulated_tiles(const AttentionTask& task, int64_t first, int64_t last, float* scratch);

}  // namespace saccade::nn
