#include "saccade/core/files/file_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

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

Result<Descriptor> lock_file(const std::filesystem::path& path, std::string_view doing) {
  SACCADE_ASSIGN(std::optional<Descriptor> taken, try_lock_file(path));
  if (!taken) {
    const auto holder = read_file(path, 100);
    return fail(ErrorCode::kCancelled, "{}: process {} is {}; wait until it ends",
                path.parent_path().string(), holder && !holder->empty() ? *holder : "(unknown)", doing);
  }
  Descriptor lock = *std::move(taken);
  const auto before = read_file(path, 100);
  if (!before || before->find_first_not_of("0123456789") != std::string::npos) {
    return fail(ErrorCode::kUsage,
                "{}: not a lock of this program, which would hold a process id and no more", path.string());
  }
  const std::string id = std::to_string(::getpid());
  if (::ftruncate(lock.get(), 0) != 0) return fail_errno(errno, path.string() + ": truncate");
  SACCADE_TRY(write_all(lock.get(), std::as_bytes(std::span(id)), path.string()));
  return lock;
}

Result<Descriptor> wait_for_lock_file(const std::filesystem::path& path, const std::stop_token& stop,
                                      const std::function<void()>& waiting) {
  SACCADE_TRY(make_folders(path.parent_path()));
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
