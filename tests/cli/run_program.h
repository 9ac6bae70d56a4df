// Runs the built program in a folder of its own and captures its output.
#pragma once

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"

namespace saccade::test {

// A program with a sanitizer is several times slower, so it gets less work and more time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSlower = 4;
#else
inline constexpr int kSlower = 1;
#endif

// Seconds after which a program counts as hanging and is killed. It is less than the test's own limit, and
// enough for a busy machine.
inline constexpr unsigned kProgramSeconds = 400;

struct Outcome {
  int code = -1;  // exit code, or 128 + the signal that ended it
  std::string out;
  std::string err;
};

struct RunOptions {
  std::string program = {};                   // another one than the built program
  std::string input = {};                     // on stdin
  std::string output_file = {};               // stdout goes there instead, e.g. /dev/full
  bool close_output = false;                  // the reader of stdout is gone from the start
  bool without_streams = false;               // all three standard streams are closed
  int64_t max_file_bytes = 0;                 // RLIMIT_FSIZE, which simulates a full disk; 0: none
  bool terminal_errors = false;               // stderr is a terminal
  bool plain_rights = false;                  // files' permissions hold even for root
  std::vector<std::string> environment = {};  // "NAME=value", over the test's own
  // Called every few milliseconds with the contents of stderr so far. The first true sends stop_signal, once.
  std::function<bool(std::string_view errors)> stop_when = {};
  int stop_signal = SIGINT;
};

// Path of the program saccade-lab, which lies beside the built saccade.
std::string laboratory();

// A fresh folder for each test, with a small checkpoint in it: the CLIP of tests/golden/clip-gelu (random
// weights, 64 x 64 pixels, 16 text positions) and a vocabulary of the letters.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Runs the program in the test's folder. The hub's cache and the program's state are in "home" below it,
  // and no hub settings come from outside. A run of more than kProgramSeconds is killed, with code 128 +
  // SIGALRM.
  Outcome run(const std::vector<std::string>& arguments, const RunOptions& options = {}) const;
  // Runs the program, and expects an exit code, one line on stderr with each of `parts`, and nothing on
  // stdout.
  void expect_failure(const std::vector<std::string>& arguments, int code,
                      const std::vector<std::string>& parts, const RunOptions& options = {}) const;

  // Writes a file below the test's folder, making folders as needed, and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const;
  // Writes a PNG of one colour with a darker corner.
  std::filesystem::path picture(const std::string& name, int red, int green, int blue) const;
  // Returns the path of a folder below tests/golden; its absence fails the test.
  static std::filesystem::path golden(const std::string& name);
  // Makes a collection "c" of four images in "pictures".
  void make_collection() const;
  // Returns names, sizes, times and bytes of all files below `name` except the lock and SQLite's shared
  // memory. Equal results before and after mean that nothing was changed.
  std::string snapshot(const std::string& name) const;

  TestFolder folder_;
};

// Expects one line that begins with "saccade: " and is not empty.
void expect_one_line(const Outcome& outcome);

}  // namespace saccade::test
