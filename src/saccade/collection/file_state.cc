#include "saccade/collection/file_state.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sys/stat.h>

#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/image/frame_name.h"

namespace saccade {

Status check_file_here(const Item& item) {
  if (!item.file.elsewhere) return {};
  return fail(ErrorCode::kNotFound, "the file is not on this host: it was imported without");
}

Result<FileState> file_state(const std::string& path) {
  struct stat info {};
  const std::string file = file_of(path);
  if (::stat(file.c_str(), &info) != 0) return fail_errno(errno, "open");
  FileState state{info.st_size, nanoseconds_of(info.st_mtim), {}};
  state.identity.device = static_cast<int64_t>(info.st_dev);
  state.identity.inode = static_cast<int64_t>(info.st_ino);
  if (::stat(std::filesystem::path(file).parent_path().c_str(), &info) == 0) {
    state.identity.folder_device = static_cast<int64_t>(info.st_dev);
  }
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(file.c_str(), nullptr), std::free);
  state.identity.linked = real != nullptr && file != real.get();
  return state;
}

bool is_gone(const std::string& path) {
  struct stat info {};
  if (::lstat(file_of(path).c_str(), &info) == 0) return S_ISDIR(info.st_mode);
  return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
}

}  // namespace saccade
