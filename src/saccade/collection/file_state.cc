#include "saccade/collection/file_state.h"

#include <cerrno>
#include <sys/stat.h>

#include "saccade/core/files/files.h"
#include "saccade/image/frame_name.h"

namespace saccade {

Result<FileState> file_state(const std::string& path) {
  struct stat info {};
  if (::stat(file_of(path).c_str(), &info) != 0) return fail_errno(errno, "open");
  return FileState{info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool is_gone(const std::string& path) {
  struct stat info {};
  return ::lstat(file_of(path).c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

}  // namespace saccade
