// A lock on a file that other programs take too: flock, as Python's filelock has it.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>

#include "saccade/core/error.h"

namespace saccade::hub {

// Held while the object lives. Best effort: some network file systems have no such locks, or say yes to
// everybody; what is done under it must not break without.
class FileLock {
 public:
  // Waits until it is free, kCancelled when asked to stop. `waiting` is called now and then meanwhile; may be
  // empty. The file and its folder are made as needed; the file stays, as others may be waiting on it.
  static Result<FileLock> take(const std::filesystem::path& path, const std::stop_token& stop,
                               const std::function<void()>& waiting);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace saccade::hub
