// saccade train where it cannot: without saccade-train, and where that finds no libtorch.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The program alone in a folder: nothing of the build is beside it.
class TrainElsewhere : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::create_directory(folder_ / "bin");
    fs::copy_file(SACCADE_PROGRAM, alone());
  }
  [[nodiscard]] fs::path alone() const { return folder_ / "bin" / "saccade"; }
};

TEST_F(TrainElsewhere, WithoutSaccadeTrainItNamesThePackage) {
  const RunOptions options{.program = alone().string()};
  for (const std::vector<std::string>& words : {std::vector<std::string>{"train"},
                                                {"train", "dual", "--steps", "3"},
                                                {"--quiet", "train", "--help"}}) {
    expect_failure(words, 1, {"libtorch-dev", "saccade-train, which is neither beside"}, options);
  }
  // All else is there.
  const Outcome version = run({"--version"}, options);
  EXPECT_EQ(version.code, 0) << version.err;
}

#ifdef SACCADE_TRAINS
TEST_F(TrainElsewhere, WhereNoLibtorchIsFoundItNamesThePackage) {
  // The very program, with libtorch's name in it changed into one that no library has.
  std::string program = read_file(fs::path(SACCADE_PROGRAM).parent_path() / "saccade-train", 1 << 30).value();
  constexpr std::string_view kName("\0libtorch", 9);
  int changed = 0;
  for (size_t at = program.find(kName); at != std::string::npos;
       at = program.find(kName, at + 1), ++changed) {
    program[at + kName.size() - 1] = 'X';
  }
  ASSERT_GT(changed, 0);
  const fs::path train = write("bin/saccade-train", program);
  fs::permissions(train, fs::perms::owner_exec, fs::perm_options::add);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train"}, {"train", "dual", "--help"}}) {
    expect_failure(words, 1, {"libtorch-dev", "saccade-train finds no libtorcX"},
                   {.program = alone().string()});
  }
}
#endif

}  // namespace
}  // namespace saccade::test
