// Tests of the files that `cmake --install` installs, run from their place.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Installed : public ProgramTest {};

TEST_F(Installed, TheProgramFindsWhatComesWithIt) {
  // Installs the program's component, which is all there is to install. Installing the whole build would also
  // overwrite a user's list of files in the build folder.
  const fs::path prefix = fs::canonical(folder_.path()) / "prefix";
  const Outcome installed = run({"-DCMAKE_INSTALL_PREFIX=" + prefix.string(), "-P", SACCADE_INSTALL_SCRIPT},
                                {.program = SACCADE_CMAKE});
  ASSERT_EQ(installed.code, 0) << installed.err;
  for (const char* file :
       {"bin/saccade", "bin/saccade-lab", "libexec/saccade/saccade-decode", "share/man/man1/saccade.1",
        "share/man/man1/saccade-lab.1", "share/bash-completion/completions/saccade"}) {
    EXPECT_TRUE(fs::exists(prefix / file)) << file;
  }
#ifdef SACCADE_TRAINS
  EXPECT_TRUE(fs::exists(prefix / "lib/saccade/libsaccade-torch.so"));
#endif
  // Uses its own path. The sources' folder, where an uninstalled program finds the files, exists too.
  const RunOptions program{.program = (prefix / "bin/saccade").string()};
  const Json starter = json_of(run({"model", "show", "starter", "--json"}, program));
  EXPECT_EQ(starter["path"], (prefix / "share/saccade/models/starter").string());
  const fs::path red = picture("pictures/red.png", 220, 10, 10);
  picture("pictures/green.png", 20, 200, 40);
  const Outcome indexed = run({"index", "pictures", "-c", "c"}, program);
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  EXPECT_THAT(indexed.out, HasSubstr("2  added"));
  const Json found = json_of(run(
      {"search", "-c", "c", "--image", red.string(), "--compose", "starter", "in green", "--json"}, program));
  EXPECT_EQ(found["query"]["compose"]["composer"], "starter-composer");
  const Outcome named = run({"collection", "composer", "-c", "c", "starter"}, program);
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(read_file(folder_ / "c/composer.json", 1 << 16).value(),
              HasSubstr((prefix / "share/saccade/models/starter-composer").string()));
}

}  // namespace
}  // namespace saccade::test
