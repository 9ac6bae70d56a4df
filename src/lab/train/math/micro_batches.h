// Gradient accumulation: a step's batch in several parts, of which one at a time is in memory with its
// activations. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lab/train/math/torch.h"

namespace saccade::lab {

// Rows of a micro-batch: [first, last).
struct MicroBatch {
  int64_t first = 0;
  int64_t last = 0;

  [[nodiscard]] int64_t size() const { return last - first; }
};
// Cuts `count` rows into at most `parts` micro-batches, whose sizes differ by one at most. None is empty.
std::vector<MicroBatch> micro_batches(int64_t count, int64_t parts);

// Encodes `count` rows in micro-batches: encode(micro_batch) -> [size, ...]; returns all rows, [count, ...].
//
// With gradients, this is GradCache (Gao et al. 2021, "Scaling deep contrastive learning batch size under
// memory limited setup"). The rows of all micro-batches are computed without gradients first. The backward
// pass takes the loss's gradient with respect to the rows, and computes each micro-batch again, with
// gradients. So a contrastive loss of the rows has the whole batch's negatives, and its gradients are those
// of the whole batch. Cost: one more forward pass. `encode` gives the same result at every call, and what it
// refers to lives until the backward pass has run.
torch::Tensor encode_in_micro_batches(int64_t count, int64_t parts,
                                      const std::function<torch::Tensor(MicroBatch)>& encode);

}  // namespace saccade::lab
