// A file of which parts are read, here and there. Nothing of it is mapped: what another program cuts off of
// it meanwhile is an error then, where reading a mapping would end the process. Internal to the module.
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
  // kNotFound, kIo; kBadData for what is no file.
  static Result<PieceFile> open(const std::filesystem::path& path);

  [[nodiscard]] int64_t size() const { return size_; }  // when it was opened
  [[nodiscard]] int descriptor() const { return file_.get(); }
  // The bytes from `offset` on, all of `out`. kIo where the file has become shorter, or the disk fails.
  Status read(int64_t offset, std::span<char> out) const;

 private:
  Descriptor file_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace saccade::lab::data
