#include "saccade/core/files/user_folders.h"

#include <cstdlib>

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Returns a variable's path. The specification requires relative paths to be ignored.
fs::path absolute_variable(const char* name) {
  const char* value = std::getenv(name);
  const fs::path path = value == nullptr ? "" : value;
  return path.is_absolute() ? path : fs::path();
}

Result<fs::path> user_folder(const char* variable, const char* below_home) {
  if (const fs::path named = absolute_variable(variable); !named.empty()) return named / "saccade";
  if (const fs::path home = absolute_variable("HOME"); !home.empty()) return home / below_home / "saccade";
  return fail(ErrorCode::kNotFound, "neither {} nor HOME is set to an absolute path", variable);
}

}  // namespace

Result<fs::path> user_cache_folder() {
  return user_folder("XDG_CACHE_HOME", ".cache");
}

Result<fs::path> user_state_folder() {
  return user_folder("XDG_STATE_HOME", ".local/state");
}

}  // namespace saccade
