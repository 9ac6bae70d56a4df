// The user's own folders, as the XDG Base Directory Specification has them.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"

namespace saccade {

// saccade in $XDG_CACHE_HOME, or in ~/.cache: what may be deleted at any time. kNotFound where neither the
// variable nor HOME is set to an absolute path. Makes nothing.
Result<std::filesystem::path> user_cache_folder();
// The same with $XDG_STATE_HOME and ~/.local/state: what is worth keeping between runs.
Result<std::filesystem::path> user_state_folder();

}  // namespace saccade
