// Names that a user gave to checkpoints. Each is a file in saccade/models of XDG_STATE_HOME (default:
// ~/.local/state), whose content is the folder, absolute, or the hub's name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// The name of the checkpoint that comes with Saccade; nobody's alias.
inline constexpr const char* kStarterName = "starter";

// Letters, digits, "-", "_" and ".", the first of them a letter or digit, 64 at most.
bool is_alias_name(const std::string& name);

// What the name stands for; nothing for a name that nobody gave.
std::optional<std::string> checkpoint_of_alias(const std::string& name);
// All of them, by name: name and what it stands for.
std::vector<std::pair<std::string, std::string>> checkpoint_aliases();
// kUsage for what is no such name, and for "starter"; errors of writing.
Status set_checkpoint_alias(const std::string& name, const std::string& target);
// kNotFound where there is none.
Status remove_checkpoint_alias(const std::string& name);

}  // namespace saccade
