// Kernels for a transformer's operations between matrix products: layer normalization, for inference, and
// attention with its gradient. Each makes one pass over memory, in the widest instructions of the processor.
// The composed operations of layers.h are the oracle.
//
// All sums are float32; tensors are float32 or bfloat16. The result for a row (a head) does not depend on the
// rest of the batch, nor on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/core/cpu.h"
#include "saccade/nn/kernels/tasks.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {

// Kernels over ranges [first, last): rows of a normalization, or (batch, head) pairs of an attention, with
// the heads of one batch entry adjacent. `scratch`: attention_scratch(task) floats for each concurrent
// caller, attention_gradient_scratch(task) for the gradient.
struct Kernels {
  std::string_view name;  // "avx512", "avx2", "portable"
  CpuLevel level = CpuLevel::kPortable;
  void (*normalize)(const NormTask& task, int64_t first, int64_t last) = nullptr;
  void (*attend)(const AttentionTask& task, int64_t first, int64_t last, float* scratch) = nullptr;
  void (*attend_back)(const AttentionGradientTask& task, int64_t first, int64_t last,
                      float* scratch) = nullptr;
  void (*relate)(const RelevanceTask& task, int64_t first, int64_t last, float* scratch) = nullptr;
};
int64_t attention_scratch(const AttentionTask& task);
int64_t relevance_scratch(const RelevanceTask& task);
// Returns the scratch size of the gradient, which grows with the square of the tokens.
int64_t attention_gradient_scratch(const AttentionTask& task);

// Returns the kernels this processor runs (core/cpu.h), fastest first; the last is always "portable".
std::span<const Kernels> kernels();

// Run the whole task by the fastest kernel, on the workspace's threads, or only on the caller's if
// `workspace` is nullptr.
void normalize(const NormTask& task, Workspace* workspace);
void attend(const AttentionTask& task, Workspace* workspace);
void attend_back(const AttentionGradientTask& task, Workspace* workspace);
void relate(const RelevanceTask& task, Workspace* workspace);

}  // namespace saccade::nn
