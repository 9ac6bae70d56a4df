// Temporary folder for files written by other programs, removed with the object.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade {

// Folder accessible only to its user (0700), in the system's temporary folder. A killed process leaves it
// behind.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "saccade-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) return fail_errno(errno, "make a temporary folder");
    TemporaryFolder folder;
    folder.path_ = name;
    return folder;
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder() = default;
  std::filesystem::path path_;
};

}  // namespace saccade
