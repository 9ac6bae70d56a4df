// Tests of libraries loaded at their first use.
#include "saccade/core/process/late_library.h"

#include <filesystem>
#include <optional>
#include <vector>
#include <zlib.h>

#include <gtest/gtest.h>

#include "saccade/core/files/installed.h"
#include "saccade/core/test_folder.h"

namespace saccade {

namespace late {
SACCADE_LATE_DEFINE(zlibVersion)
}  // namespace late

namespace {

TEST(LateLibrary, BindsFunctionsByTheirNames) {
  ASSERT_EQ(late::zlibVersion, nullptr);
  LateLibrary library("libz.so.1");
  library.bind(late::zlibVersion, "zlibVersion");
  EXPECT_EQ(library.failure(), "");
  ASSERT_NE(late::zlibVersion, nullptr);
  EXPECT_EQ(late::zlibVersion()[0], '1');
}

TEST(LateLibrary, LibrariesInstalledWithSaccadeAreFound) {
  const test::TestFolder folder;
  const std::vector<std::filesystem::path> prefixes = {folder / "empty", folder / "whole"};
  EXPECT_EQ(bundled_libraries("libz.so.1", prefixes), std::nullopt);
  // A folder of that name is no library.
  std::filesystem::create_directories(folder / "empty/lib/saccade/libz.so.1");
  folder.write("whole/lib/saccade/libz.so.1", "");
  EXPECT_EQ(bundled_libraries("libz.so.1", prefixes), folder / "whole/lib/saccade");
  EXPECT_EQ(bundled_libraries("libvips.so.42", prefixes), std::nullopt);
}

TEST(LateLibrary, NamesWhatIsMissing) {
  LateLibrary absent("libsaccade-has-none.so.7");
  EXPECT_NE(absent.failure().find("libsaccade-has-none.so.7"), std::string::npos) << absent.failure();
  LateLibrary library("libz.so.1");
  int (*function)() = nullptr;
  library.bind(function, "no_such_function");
  library.bind(late::zlibVersion, "zlibVersion");
  EXPECT_EQ(function, nullptr);
  EXPECT_NE(library.failure().find("no_such_function"), std::string::npos) << library.failure();
}

}  // namespace
}  // namespace saccade
