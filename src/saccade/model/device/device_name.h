// Names of the devices that encode.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade {

// Device of our own kernels, the default.
inline constexpr std::string_view kProcessor = "cpu";

// Checks a device's name: "cpu", "cuda", "cuda:1"; also "torch-cpu", which runs a GPU's code on the processor
// and serves tests. kUsage for another one.
Status check_device_name(std::string_view device);

// Returns true if our own kernels encode.
inline bool is_processor(std::string_view device) {
  return device.empty() || device == kProcessor;
}

// Returns libtorch's name of a device other than the processor.
std::string torch_name(std::string_view device);

}  // namespace saccade
