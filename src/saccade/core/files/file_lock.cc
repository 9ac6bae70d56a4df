#include "saccade/core/files/file_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

namespace saccade {

Result<std::optional<Descriptor>> try_lock_file(const std::filesystem::path& path) {
  for (;;) {
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (lock.get() < 0) return fail_errno(errno, path.string());
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      // Some programs remove the file afterwards; a lock on a removed file has no effect.
      struct stat held {};
      if (::fstat(lock.get(), &held) == 0 && held.st_nlink > 0) return std::optional(std::move(lock));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK || errno == EACCES) return std::optional<Descriptor>();
    if (errno == ENOSYS || errno == ENOTSUP || errno == ENOLCK) {
      return fail(ErrorCode::kUnsupported, "{}: lock: {}", path.string(), std::strerror(errno));
    }
    return fail_errno(errno, path.string() + ": lock");
  }
}

Result<Descriptor> wait_for_lock_file(const std::filesystem::path& path, const std::stop_token& stop,
                                      const std::function<void()>& waiting) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail_errno(error.value(), path.parent_path().string());
  for (;;) {
    Result<std::optional<Descriptor>> lock = try_lock_file(path);
    if (!lock && lock.error().code == ErrorCode::kUnsupported) return Descriptor();
    if (!lock) return fail(std::move(lock).error());
    if (*lock) return **std::move(lock);
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    if (waiting) waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace saccade
