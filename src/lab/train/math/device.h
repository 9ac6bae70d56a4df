// The device of a training: from its option to libtorch's name. Internal to the module.
#pragma once

#include "lab/train/math/torch.h"
#include "lab/train/options/loop_options.h"
#include "saccade/core/error.h"

namespace saccade::lab {

inline torch::Device torch_device(TrainingDevice device) {
  return {device == TrainingDevice::kCuda ? torch::kCUDA : torch::kCPU};
}

// Returns kUnsupported for a device that this libtorch or machine does not have.
inline Status check_device(TrainingDevice device) {
  if (device != TrainingDevice::kCuda || torch::cuda::is_available()) return {};
  return fail(ErrorCode::kUnsupported, "device cuda: this libtorch or machine has none");
}

}  // namespace saccade::lab
