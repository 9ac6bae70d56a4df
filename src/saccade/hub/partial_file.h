// Partially downloaded file, hashed as bytes arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "saccade/core/error.h"
#include "saccade/hub/content_hash.h"

namespace saccade::hub {

// Partial file for use by one thread at a time. The destructor keeps the file for the next attempt; finish()
// and discard() end it.
class PartialFile {
 public:
  // Opens the existing part and reads it once for the hash; restarts if it is larger than the whole file.
  // `expected`: the whole file's hash, of `kind`; `size`: its size in bytes.
  static Result<PartialFile> open(const std::filesystem::path& path, HashKind kind, std::string expected,
                                  int64_t size);
  PartialFile(PartialFile&& other) noexcept;
  PartialFile& operator=(PartialFile&& other) = delete;
  ~PartialFile();

  [[nodiscard]] int64_t filled() const { return filled_; }
  // Returns how many of these were present when the file was opened or last restarted.
  [[nodiscard]] int64_t found() const { return found_; }
  [[nodiscard]] int64_t size() const { return size_; }

  // Appends bytes. Returns kMismatch for more bytes than the file has, and kIo with the system's reason if
  // writing fails.
  Status append(std::span<const std::byte> bytes);
  // Discards the contents.
  Status restart();
  // Flushes the file to disk, checks its size and hash, and renames it to `destination`. Returns kMismatch if
  // they are not as expected; the file is then kept for restart() or discard().
  Status finish(const std::filesystem::path& destination);
  void discard();

 private:
  PartialFile(std::filesystem::path path, HashKind kind, std::string expected, int64_t size);
  Status take_up();

  std::filesystem::path path_;
  HashKind kind_;
  std::string expected_;
  int64_t size_ = 0;
  int64_t filled_ = 0;
  int64_t found_ = 0;
  int descriptor_ = -1;
  ContentHash hash_;
};

// Checks that a file has the size and the hash; kIo or kNotFound if it cannot be read. Reads all of it.
Result<bool> has_content(const std::filesystem::path& path, HashKind kind, const std::string& expected,
                         int64_t size);

}  // namespace saccade::hub
