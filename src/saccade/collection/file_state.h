// What a picture's file looks like from outside, by the picture's name; of a video's frame: the video.
#pragma once

#include <cstdint>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

struct FileState {
  int64_t size = 0;
  int64_t mtime_ns = 0;
};
// kNotFound or kIo where it cannot be looked at.
Result<FileState> file_state(const std::string& path);
// Certain that nothing has this name any more; a folder we may not look into is no proof.
bool is_gone(const std::string& path);

}  // namespace saccade
