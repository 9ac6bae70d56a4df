// Options that all trainings share.
#pragma once

#include <cstdint>
#include <filesystem>

namespace saccade::lab {

struct TrainingLoopOptions {
  std::filesystem::path run;  // the folder it writes into

  int64_t steps = 10'000;       // 0: the untrained model, written and scored
  double learning_rate = 1e-3;  // the peak
  double warmup = 0.05;         // share of the steps, linear from 0; then a half cosine down to 0
  double weight_decay = 0.1;
  double max_gradient_norm = 1.0;
  int64_t evaluate_every = 500;    // steps
  int64_t checkpoint_every = 500;  // steps
  // Number of consecutive evaluations without a better figure after which the training stops; 0 disables
  // this.
  int64_t patience = 0;
  uint64_t seed = 1;
  bool dry_run = false;  // check everything, write nothing, train nothing
};

}  // namespace saccade::lab
