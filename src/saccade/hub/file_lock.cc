#include "saccade/hub/file_lock.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace saccade::hub {

Result<FileLock> FileLock::take(const std::filesystem::path& path, const std::stop_token& stop,
                                const std::function<void()>& waiting) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail_errno(error.value(), path.parent_path().string());
  for (;;) {
    // For the group to write, so that people who share a cache can wait for each other.
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664));
    if (lock.descriptor_ < 0) return fail_errno(errno, path.string() + ": open");
    if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0) {
      // Some programs remove the file when they are done: a lock on what is no longer there holds nobody off.
      struct stat held {};
      if (::fstat(lock.descriptor_, &held) == 0 && held.st_nlink > 0) return lock;
      continue;
    }
    if (errno == ENOSYS || errno == ENOTSUP || errno == ENOLCK) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR && errno != EACCES)
      return fail_errno(errno, path.string() + ": lock");
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    if (waiting) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace saccade::hub
