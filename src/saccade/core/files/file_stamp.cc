#include "saccade/core/files/file_stamp.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <sys/stat.h>

namespace saccade {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

int64_t nanoseconds_of(const timespec& time) {
  using Limits = std::numeric_limits<int64_t>;
  int64_t result = 0;
  if (__builtin_mul_overflow(int64_t{time.tv_sec}, kSecond, &result) ||
      __builtin_add_overflow(result, int64_t{time.tv_nsec}, &result)) {
    return time.tv_sec < 0 ? Limits::min() : Limits::max();
  }
  return result;
}

std::string FileStamp::text() const {
  return fmt::format("{} {} {} {} {}", size, mtime_ns, ctime_ns, inode, device);
}

Result<FileStamp> file_stamp(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fail_errno(errno, path.string());
  return FileStamp{.size = info.st_size,
                   .mtime_ns = nanoseconds_of(info.st_mtim),
                   .ctime_ns = nanoseconds_of(info.st_ctim),
                   .inode = info.st_ino,
                   .device = info.st_dev};
}

bool is_settled(const FileStamp& stamp) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return std::max(stamp.mtime_ns, stamp.ctime_ns) < now_ns - 2 * kSecond;
}

}  // namespace saccade
