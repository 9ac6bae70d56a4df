// File metadata that identifies a file's state, for cached results of reading it.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

// Size, modification and status change times (nanoseconds since 1970 UTC), inode and device. A link is
// followed.
struct FileStamp {
  int64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;

  bool operator==(const FileStamp&) const = default;
  // Returns all five values as a text that can be compared.
  [[nodiscard]] std::string text() const;
};

// Returns a time in nanoseconds since 1970 UTC. 64 bits hold the years 1678 to 2261; the first or the last of these stands for
// times beyond.
int64_t nanoseconds_of(const timespec& time);

// Returns the second since 1970 UTC that a time in nanoseconds lies in; before 1970 it is rounded down too.
constexpr int64_t whole_seconds(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  return nanoseconds / kSecond - (nanoseconds % kSecond < 0 ? 1 : 0);
}

// kNotFound or kIo where the file cannot be looked at.
Result<FileStamp> file_stamp(const std::filesystem::path& path);

// Returns true if any later change of the file must show in its stamp. This is false shortly after a change,
// because file systems' clocks advance in steps of up to two seconds.
bool is_settled(const FileStamp& stamp);

}  // namespace saccade
