// Texts from a file, a pipe or standard input, which "-" stands for, for the commands that take many.
#pragma once

#include <cstddef>
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

// Lines as soon as they are there: another program may write them one by one and wait for each answer.
class LineSource {
 public:
  // A file, a pipe, or "-". kNotFound and kIo as of opening one, kBadData for a folder.
  static Result<LineSource> open(const std::filesystem::path& path);
  // Waits for a line, and returns it with those behind it that can be read without waiting, at most `most` of them. Lines are
  // without their ends, of either sort, and without a byte order mark. Empty behind the last one. kLimit for a line of more
  // than 1 MiB.
  Result<std::vector<std::string>> next_lines(size_t most);

 private:
  explicit LineSource(std::shared_ptr<const int> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}
  // Takes a line out of the buffer, if a whole one is there.
  std::optional<std::string> take_line();
  std::shared_ptr<const int> file_;  // a descriptor
  std::string name_;
  std::string buffer_;
  bool first_ = true;  // no line was taken yet
  bool ended_ = false;
};

}  // namespace saccade::app
