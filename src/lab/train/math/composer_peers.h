// Operations of the composers that this project compares itself with (the Combiner, textual inversion), with
// gradients: torch's own operations, with any floating type. Internal to the module.
#pragma once

#include <cstdint>

#include "lab/train/math/variable.h"

namespace saccade::lab {

// Counterpart of the function in model/composers/combiner.h.
inline Variable gated_mean(const Variable& logits, const Variable& a, const Variable& b) {
  return Variable(b.tensor() + at::sigmoid(logits.tensor()) * (a.tensor() - b.tensor()));
}

// Dropout (Srivastava et al. 2014) for one forward pass. Its masks are a function of seed, step and place
// alone, so that a resumed training is the same one.
class StepDropout {
 public:
  StepDropout(double share, uint64_t seed, int64_t step)
      : share_(share),
        generator_(at::detail::createCPUGenerator(seed * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(step))) {
  }

  Variable operator()(const Variable& x) {
    if (share_ <= 0) return x;
    // Drawn on the CPU, so that the draws do not depend on the device.
    const torch::Tensor kept =
        torch::empty(x.tensor().sizes(), x.tensor().options().device(at::kCPU).requires_grad(false))
            .bernoulli_(1 - share_, generator_)
            .to(x.tensor().device());
    return Variable(x.tensor() * kept / (1 - share_));
  }

 private:
  double share_;
  torch::Generator generator_;
};

}  // namespace saccade::lab
