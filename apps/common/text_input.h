// Texts from a file, a pipe or standard input, which "-" stands for, for the commands that take many.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::app {

// Reads all of a file, of a pipe (a shell's `<(command)`), or of standard input for "-". Returns the errors of opening and
// reading it, kBadData for a folder, and kLimit for more than `most_bytes`.
Result<std::string> read_input(const std::filesystem::path& path, int64_t most_bytes);

// A text a line, line ends of either sort, without a byte order mark. Errors of read_input; kBadData for an empty file and
// for one with a NUL, which is no text.
Result<std::vector<std::string>> read_texts(const std::filesystem::path& path);

// Lines one by one, each as soon as it is there: another program may write them and wait for the answer.
class LineSource {
 public:
  // A file, a pipe, or "-". kNotFound and kIo as of opening one, kBadData for a folder.
  static Result<LineSource> open(const std::filesystem::path& path);
  // Without its end, of either sort; nothing behind the last. kLimit for a line of more than 1 MiB.
  Result<std::optional<std::string>> next();

 private:
  explicit LineSource(std::shared_ptr<const int> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}
  std::shared_ptr<const int> file_;  // a descriptor
  std::string name_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace saccade::app
