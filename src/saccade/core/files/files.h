// File access: reading with limits, mapping, and atomic writes, which leave the old or the new file after a
// crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "saccade/core/error.h"

namespace saccade {

// File descriptor with RAII.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int get() const { return value_; }  // -1 if there is none

 private:
  int value_ = -1;
};

// File mapped read-only. Movable; the bytes are valid as long as the object. A file that another process
// truncates while it is mapped raises SIGBUS, so map only files that are not rewritten in place.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Reads a regular file; kLimit if it has more than max_bytes.
Result<std::string> read_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{1} << 30);

// Creates the folder, and those above it, unless it is there; kIo with its name and the reason.
Status make_folders(const std::filesystem::path& folder);

// Checks that an external name is a single file name in any folder: not empty, "." or "..", without "/" and
// NUL.
bool is_plain_file_name(std::string_view name);

// Writes a temporary file beside `path`, flushes it to disk, and renames it over `path`. After a crash the
// file is either the old one or the new one. The folder must exist.
//
// A link is kept, and its target is written, even if the target does not exist yet. A device or a pipe cannot
// be replaced and is written directly. So are the process's own open files (/dev/stdout, /dev/fd/3), from
// their current position. Opening a pipe without a reader waits for one. Returns kBadData for a folder.
Status write_file_atomic(const std::filesystem::path& path, std::string_view content);

// Incremental writer with the guarantee of write_file_atomic. The file is discarded unless commit() is
// called, except for existing devices and pipes, which are written directly.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Status commit();

 private:
  AtomicFile() = default;
  Status open_beside();
  std::filesystem::path path_;       // final target of the write, with links resolved
  std::filesystem::path temporary_;  // empty where path_ itself is written
  int descriptor_ = -1;
};

// Writes all bytes to an open descriptor; continues after short writes and EINTR. `name` is for the message.
Status write_all(int descriptor, std::span<const std::byte> bytes, std::string_view name);

}  // namespace saccade
