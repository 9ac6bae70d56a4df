// Options that all trainings share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

// Course of the learning rate after the warm-up.
enum class RateSchedule {
  kCosine,    // half a cosine, from the peak down to 0
  kConstant,  // the peak, to the last step
};
std::span<const EnumName<RateSchedule>> enum_names(RateSchedule);

enum class TrainingDevice { kCpu, kCuda };
std::span<const EnumName<TrainingDevice>> enum_names(TrainingDevice);  // "cpu", "cuda"

// Returns the options to load a training's encoder with: on the training's device if that encodes this checkpoint in this
// precision (check_runs_on_device), else as they are given. `named` is as for find_checkpoint. Errors: those of finding and
// opening the checkpoint.
Result<BackendOptions> encoder_options(TrainingDevice device, const std::string& named,
                                       const BackendOptions& options);

// Optimizer (AdamW) and learning rate of every training.
struct OptimizerOptions {
  double learning_rate = 1e-3;  // the peak
  double warmup = 0.05;         // share of the steps with a rising learning rate, linear from 0
  RateSchedule schedule = RateSchedule::kCosine;
  double weight_decay = 0.1;
  // Decay rates of the running means of gradients and of their squares, 0 to below 1. 0.98 and 1e-6 are
  // CLIP's values for vision transformers (Radford et al. 2021, table 18); PyTorch's defaults are 0.999 and
  // 1e-8.
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.98;
  double adam_epsilon = 1e-6;  // added to the root of the mean of squares, above 0
  double max_gradient_norm = 1.0;
};

// Memory of trained towers of transformer blocks.
struct ActivationOptions {
  // If true, the blocks of the trained towers keep their inputs alone for the backward pass, which computes the
  // rest again: less memory, one more forward pass. The training is the same.
  bool checkpoint_activations = false;
};

struct TrainingLoopOptions : OptimizerOptions {
  std::filesystem::path run;  // the folder it writes into

  int64_t steps = 10'000;          // 0: the untrained model, written and scored
  int64_t evaluate_every = 500;    // steps
  int64_t checkpoint_every = 500;  // steps
  // Number of consecutive evaluations without a better figure after which the training stops; 0 disables
  // this.
  int64_t patience = 0;
  uint64_t seed = 1;
  // Number of micro-batches of a step, from 1 to the batch size: gradient accumulation. `batch` of the recipes
  // is the global batch, and a training is the same for any number, up to rounding.
  int64_t accumulate = 1;
  TrainingDevice device = TrainingDevice::kCpu;  // kCuda if libtorch supports it
  bool dry_run = false;                          // check everything, write nothing, train nothing
};

}  // namespace saccade::lab
