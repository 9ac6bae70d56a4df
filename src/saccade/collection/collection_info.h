// Names and paths of collections, and whose checkpoint made them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

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

}  // namespace saccade
