// User-defined aliases of checkpoints. Each is a file in saccade/models of XDG_STATE_HOME (default:
// ~/.local/state), whose content is an absolute folder or a hub name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// Name of the checkpoint that comes with Saccade; reserved, not an alias.
inline constexpr const char* kStarterName = "starter";

// Returns the checkpoint behind an alias, or nullopt if there is no such alias.
std::optional<std::string> checkpoint_of_alias(const std::string& name);
// Returns all aliases with their checkpoints, sorted by name.
std::vector<std::pair<std::string, std::string>> checkpoint_aliases();
// Returns "; did you mean NAME?" for the nearest alias, or the starter, and "" if none is near.
std::string checkpoint_suggestion(const std::string& name);
// Sets an alias: letters, digits, "-", "_" and ".", beginning with a letter or digit, at most 64 characters.
// Returns kUsage for another name and for "starter", and errors of writing.
Status set_checkpoint_alias(const std::string& name, const std::string& target);
// Removes an alias; kNotFound if there is none.
Status remove_checkpoint_alias(const std::string& name);

}  // namespace saccade
