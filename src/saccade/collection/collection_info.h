// Names and paths of collections, and whose checkpoint made them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"

namespace saccade {

inline constexpr std::string_view kBackgroundName = "background.safetensors";

// kMismatch naming both checkpoints and their fingerprints, unless they are the same.
Status check_same_checkpoint(const CollectionInfo& collection, const CheckpointId& checkpoint);

// Returns a path as the catalog stores it: absolute, links of folders resolved, the file's own name kept (a
// link to an image stays under its own name). The time of a video frame is written as by frame_name(). The
// file need not exist.
std::string catalog_path(const std::filesystem::path& path);
// Returns the paths under which an item or a folder of items may be catalogued that is called `path`, each once: the
// path as it is, catalog_path(), and those with the links below a folder kept, since items that were found through a link to a
// folder have the link's name in their path.
std::vector<std::string> catalog_paths(const std::filesystem::path& path);

}  // namespace saccade
