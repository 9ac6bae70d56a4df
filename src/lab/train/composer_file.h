// Writing of a composer's checkpoint (its format is in model/composers/composer.h). Internal to the module.
#pragma once

#include <filesystem>

#include "lab/train/math/variable.h"
#include "saccade/core/error.h"
#include "saccade/model/composers/composer.h"

namespace saccade::lab {

// Writes a checkpoint into an existing folder. `parameters` are the kind's; a logit_scale of 0 is added if
// there is none.
Status write_composer(const std::filesystem::path& folder, const ComposerConfig& config,
                      const TorchMap& parameters);

// Loads the parameters from such a folder, or from an encoder's. Returns kMismatch as begin_with.
Status take_up_weights(const std::filesystem::path& folder, const TorchMap& parameters);

}  // namespace saccade::lab
