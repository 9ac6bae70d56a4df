// The version of Saccade.
#pragma once

#include <string_view>

#pragma GCC visibility push(default)
namespace saccade {

// Returns the version as "MAJOR.MINOR.PATCH" (semantic versioning). Thread-safe.
std::string_view version();

}  // namespace saccade
#pragma GCC visibility pop
