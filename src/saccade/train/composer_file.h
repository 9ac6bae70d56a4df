// A composer's checkpoint as training writes it (model/composer.h says what is
// in it). Internal to the module.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"
#include "saccade/model/composer.h"
#include "saccade/train/variable.h"

namespace saccade {

// Into a folder that is there. Parameters are the kind's; a logit_scale of 0 joins them where there is none.
Status write_composer(const std::filesystem::path& folder, const ComposerConfig& config,
                      const TorchMap& parameters);

// The parameters as such a folder, or an encoder's, has them. kMismatch as begin_with.
Status take_up_weights(const std::filesystem::path& folder, const TorchMap& parameters);

}  // namespace saccade
