// Tells whether a checkpoint stays on the processor although a device is asked for.
#pragma once

#include <filesystem>
#include <string>

#include "saccade/core/error.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Returns the reason why the options' device does not run the checkpoint in their precision, for callers that then
// take the processor; empty if it does. Errors: those of check_runs_on_device but for kUnsupported.
Result<std::string> off_device_reason(const std::filesystem::path& checkpoint, const BackendOptions& options);

}  // namespace saccade
