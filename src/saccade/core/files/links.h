// Paths of files to write, seen through symbolic links and through the process's own streams.
// Internal to the module.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"

namespace saccade {

// Returns the number of the open file of this process that `path` names, as /proc/self/fd/1 does, or -1.
int own_descriptor(const std::filesystem::path& path);

// Returns where writing to `path` would lead: links are followed one by one, up to a path that is no link or does
// not exist. Links to the process's own open files are not followed, as these may have no name. kIo for links
// that the kernel refuses to follow, or too many of them.
Result<std::filesystem::path> end_of_links(std::filesystem::path path);

}  // namespace saccade
