// Attention whose products are made of bfloat16, by the processor's own instructions for them: twice as many
// numbers at once as in float32. For inference; sums and the softmax are float32, its weights are rounded.
#pragma once

#include <cstdint>

#include "saccade/nn/kernels/kernels.h"

namespace saccade::nn {

// Whether this processor has these instructions, and uses them for such a task: one in bfloat16 whose heads
// are even and no wider than 256. Not where SACCADE_CPU asks for narrower ones.
bool attends_in_bf16(const AttentionTask& task);

// Pairs [first, last) of an entry and a head, as Kernels::attend; attends_in_bf16(task) must hold.
void attend_bf16(const AttentionTask& task, int64_t first, int64_t last, float* scratch);

}  // namespace saccade::nn
