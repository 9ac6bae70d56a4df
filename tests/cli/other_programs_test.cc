// Tests of commands in other programs: saccade without saccade-lab, and saccade-lab train if it cannot run.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The programs lie alone in a folder, without the rest of the build.
class OtherPrograms : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::create_directory(folder_ / "bin");
    fs::copy_file(SACCADE_PROGRAM, folder_ / "bin" / "saccade");
    fs::copy_file(built("saccade-lab"), folder_ / "bin" / "saccade-lab");
  }
  [[nodiscard]] static fs::path built(const char* name) {
    return fs::path(SACCADE_PROGRAM).parent_path() / name;
  }
  [[nodiscard]] RunOptions alone(const char* name) const {
    return {.program = (folder_ / "bin" / name).string()};
  }
};

TEST_F(OtherPrograms, WithoutTheLaboratoryOneSentenceSaysHowToGetIt) {
  fs::remove(folder_ / "bin" / "saccade-lab");
  for (const char* command : {"train", "eval", "dataset", "generate", "report"}) {
    expect_failure({command, "--help"}, 1, {command, "saccade-lab", "./dev install"}, alone("saccade"));
  }
  // All other commands exist.
  const Outcome version = run({"--version"}, alone("saccade"));
  EXPECT_EQ(version.code, 0) << version.err;
  EXPECT_THAT(run({"--help"}, alone("saccade")).out, HasSubstr("Laboratory"));
}

TEST_F(OtherPrograms, SaccadeStartsTheLaboratory) {
  const Outcome help = run({"--quiet", "eval", "--help"}, alone("saccade"));
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_THAT(help.out, HasSubstr("saccade-lab eval"));
  EXPECT_EQ(run({"help", "dataset", "info"}, alone("saccade")).out,
            run({"help", "dataset", "info"}, alone("saccade-lab")).out);
}

TEST_F(OtherPrograms, WithoutTheTrainingProgramTheLaboratoryNamesThePackage) {
  for (const char* program : {"saccade", "saccade-lab"}) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"train"},
                                                  {"train", "dual", "--steps", "3"},
                                                  {"--quiet", "train", "--help"}}) {
      expect_failure(words, 1, {"libtorch-dev", "saccade-lab-train, which is neither beside"},
                     alone(program));
    }
  }
}

#ifdef SACCADE_TRAINS
TEST_F(OtherPrograms, WhereNoLibtorchIsFoundTheLaboratoryNamesThePackage) {
  // A copy of the program, with libtorch's name replaced by one that no library has.
  std::string program = read_file(built("saccade-lab-train"), 1 << 30).value();
  constexpr std::string_view kName("\0libtorch", 9);
  int changed = 0;
  for (size_t at = program.find(kName); at != std::string::npos;
       at = program.find(kName, at + 1), ++changed) {
    program[at + kName.size() - 1] = 'X';
  }
  ASSERT_GT(changed, 0);
  const fs::path train = write("bin/saccade-lab-train", program);
  fs::permissions(train, fs::perms::owner_exec, fs::perm_options::add);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train"}, {"train", "dual", "--help"}}) {
    expect_failure(words, 1, {"libtorch-dev", "saccade-lab-train finds no libtorcX"}, alone("saccade-lab"));
  }
}
#endif

}  // namespace
}  // namespace saccade::test
