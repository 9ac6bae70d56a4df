// Temporary folder of a test, removed with its owner.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <gtest/gtest.h>

namespace saccade::test {

// Temporary folder, usually a fixture's member. Threads may share it if they write different files.
class TestFolder {
 public:
  // Creates the folder in memory if possible. Its contents need not survive, and flushing to a disk takes
  // most of the time of tests that commit.
  TestFolder()
      : TestFolder(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path()) {}
  explicit TestFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "saccade-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::abort();
    }
    path_ = std::filesystem::canonical(name);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const {
    return path_ / name;
  }

  // Writes path()/name, replacing it and creating its folders, and returns its path.
  std::filesystem::path write(const std::filesystem::path& name, std::string_view content) const {
    std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary);
    stream << content;
    EXPECT_TRUE(stream.flush().good()) << file;
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace saccade::test
