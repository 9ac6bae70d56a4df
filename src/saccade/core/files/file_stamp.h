// What a file looks like without reading it, for remembering what reading it gave.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

// Size, times of the last change of content and of status (nanoseconds since 1970 UTC), inode and device: of
// what a link leads to.
struct FileStamp {
  int64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;

  bool operator==(const FileStamp&) const = default;
  // All five, to be compared as it is.
  [[nodiscard]] std::string text() const;
};

// Returns the second since 1970 UTC that a time in nanoseconds lies in; before 1970 it is rounded down too.
constexpr int64_t whole_seconds(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  return nanoseconds / kSecond - (nanoseconds % kSecond < 0 ? 1 : 0);
}

// kNotFound or kIo where the file cannot be looked at.
Result<FileStamp> file_stamp(const std::filesystem::path& path);

// Whether a change of the file from now on must show in its stamp. Not so in the first moments after the last
// change: clocks of file systems go in steps, of two seconds at most.
bool is_settled(const FileStamp& stamp);

}  // namespace saccade
