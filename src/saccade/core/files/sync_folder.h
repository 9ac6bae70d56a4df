// Renames that last.
#pragma once

#include <filesystem>

namespace saccade {

// Makes a rename or a new file in `folder` durable. Best effort: some file systems refuse to sync folders.
void sync_folder(const std::filesystem::path& folder);

}  // namespace saccade
