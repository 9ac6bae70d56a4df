// Random-access file that is read in pieces and not mapped. If another program truncates it meanwhile, the
// read is an error, whereas reading a mapping would end the process. Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::lab::data {

// Thread-safe.
class PieceFile {
 public:
  // Opens a file. Returns kNotFound, kIo, and kBadData if it is not a regular file.
  static Result<PieceFile> open(const std::filesystem::path& path);

  [[nodiscard]] int64_t size() const { return size_; }  // when it was opened
  // Fills `out` with the bytes from `offset` on. Returns kIo if the file has become shorter, or the disk
  // fails.
  Status read(int64_t offset, std::span<char> out) const;

 private:
  Descriptor file_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace saccade::lab::data
