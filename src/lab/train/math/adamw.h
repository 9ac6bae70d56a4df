// AdamW (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2), with its state in
// named tensors that a checkpoint can hold.
#pragma once

#include <map>
#include <string>

#include "lab/train/math/variable.h"

namespace saccade::lab {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-6;
  // Weight decay of matrices and larger tensors (two dimensions or more). Gains, biases and scalars have
  // none.
  double weight_decay = 0.1;
  // Learning rates of parameters, relative to that of the others.
  std::map<std::string, double> rates = {};
};

class AdamW {
 public:
  AdamW(TorchMap parameters, const AdamWOptions& options);

  // Applies one update from the parameters' gradients, then clears them. Parameters without a gradient stay.
  void step(double learning_rate);
  // Scales the gradients so that their joint L2 norm is at most `max_norm`; returns the norm before.
  double clip_gradients(double max_norm);

  // Returns "first.<name>", "second.<name>" and "step", for saving, and for copying into after loading.
  [[nodiscard]] TorchMap state() const;
  void restore(const TorchMap& state);

 private:
  AdamWOptions options_;
  TorchMap parameters_;
  TorchMap first_;   // running means of gradients
  TorchMap second_;  // and of their squares
  int64_t steps_ = 0;
};

}  // namespace saccade::lab
