// User folders of the XDG Base Directory Specification.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"

namespace saccade {

// Returns saccade in $XDG_CACHE_HOME, or in ~/.cache, for data that may be deleted at any time. Returns
// kNotFound if neither the variable nor HOME is an absolute path. Creates nothing.
Result<std::filesystem::path> user_cache_folder();
// Returns the same for $XDG_STATE_HOME and ~/.local/state, for data to keep between runs.
Result<std::filesystem::path> user_state_folder();

}  // namespace saccade
