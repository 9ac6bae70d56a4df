// State (size and times) of an image's file, by the image's name. A video frame has the state of its video.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"

namespace saccade {

struct FileState {
  int64_t size = 0;
  int64_t mtime_ns = 0;
  FileIdentity identity;
};
// Returns kNotFound for an item that was imported without its file.
Status check_file_here(const Item& item);
// kNotFound or kIo where it cannot be looked at.
Result<FileState> file_state(const std::string& path);
// True if certainly no file has this name any more: nothing has, or a folder. A folder that may not be listed is
// no proof.
bool is_gone(const std::string& path);

}  // namespace saccade
