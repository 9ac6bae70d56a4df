// A composer's checkpoint as training writes it (model/composers/composer.h says what is
// in it). Internal to the module.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"
#include "saccade/model/composers/composer.h"
#include "lab/train/math/variable.h"

namespace saccade::lab {

// Into a folder that is there. Parameters are the kind's; a logit_scale of 0 joins them where there is none.
Status write_composer(const std::filesystem::path& folder, const ComposerConfig& config,
                      const TorchMap& parameters);

// The parameters as such a folder, or an encoder's, has them. kMismatch as begin_with.
Status take_up_weights(const std::filesystem::path& folder, const TorchMap& parameters);

}  // namespace saccade::lab
