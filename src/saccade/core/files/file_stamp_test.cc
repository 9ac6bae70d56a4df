// Tests of file stamps and of the paths of the user's folders.
#include "saccade/core/files/file_stamp.h"

#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "saccade/core/files/user_folders.h"
#include "saccade/core/test_environment.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const char* text) {
  std::ofstream(path) << text;
}

// A file of the year 2400, or of 1600, is none of another century.
TEST(FileStamps, TimesBeyondSixtyFourBitsAreTheNearest) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr int64_t kYear2400 = 13'569'465'600;
  EXPECT_EQ(nanoseconds_of({.tv_sec = 1'700'000'000, .tv_nsec = 5}), 1'700'000'000 * kSecond + 5);
  EXPECT_EQ(nanoseconds_of({.tv_sec = -1, .tv_nsec = 999'999'999}), -1);
  EXPECT_EQ(nanoseconds_of({.tv_sec = 9'223'372'036, .tv_nsec = 854'775'807}),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(nanoseconds_of({.tv_sec = 9'223'372'036, .tv_nsec = 854'775'808}),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(nanoseconds_of({.tv_sec = kYear2400, .tv_nsec = 0}), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(nanoseconds_of({.tv_sec = -kYear2400, .tv_nsec = 1}), std::numeric_limits<int64_t>::min());
}

TEST(FileStamps, TellChangesAndFilesApart) {
  const test::TestFolder scratch;
  const fs::path path = scratch.path() / "a";
  write(path, "one");
  const FileStamp before = file_stamp(path).value();
  EXPECT_EQ(before.size, 3);
  EXPECT_EQ(file_stamp(path).value(), before);
  EXPECT_EQ(file_stamp(path).value().text(), before.text());
  fs::create_symlink("a", scratch.path() / "link");
  EXPECT_EQ(file_stamp(scratch.path() / "link").value(), before);

  write(path, "four");
  EXPECT_NE(file_stamp(path).value().text(), before.text());
  // Another file of the same size and modification time.
  fs::copy(path, scratch.path() / "b");
  fs::last_write_time(scratch.path() / "b", fs::last_write_time(path));
  EXPECT_NE(file_stamp(scratch.path() / "b").value().text(), file_stamp(path).value().text());

  const auto absent = file_stamp(scratch.path() / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
}

TEST(FileStamps, SettleAfterTwoSeconds) {
  const test::TestFolder scratch;
  write(scratch.path() / "a", "one");
  const FileStamp stamp = file_stamp(scratch.path() / "a").value();
  EXPECT_FALSE(is_settled(stamp));
  FileStamp older = stamp;
  older.mtime_ns -= 3'000'000'000;
  EXPECT_FALSE(is_settled(older));  // the time of the change of status counts too
  older.ctime_ns -= 3'000'000'000;
  EXPECT_TRUE(is_settled(older));
}

TEST(UserFolders, AreWhereTheEnvironmentSays) {
  const test::TestVariable home("HOME", "/home/me");
  {
    const test::TestVariable cache("XDG_CACHE_HOME", "/var/caches");
    const test::TestVariable state("XDG_STATE_HOME", std::nullopt);
    EXPECT_EQ(user_cache_folder().value(), "/var/caches/saccade");
    EXPECT_EQ(user_state_folder().value(), "/home/me/.local/state/saccade");
  }
  const test::TestVariable cache("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(user_cache_folder().value(), "/home/me/.cache/saccade");
  const test::TestVariable homeless("HOME", std::nullopt);
  const auto none = user_cache_folder();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().message.find("XDG_CACHE_HOME"), std::string::npos);
}

TEST(FileStamp, TimesBefore1970AreRoundedDown) {
  static_assert(whole_seconds(1'999'999'999) == 1);
  static_assert(whole_seconds(0) == 0);
  static_assert(whole_seconds(-1) == -1);
  static_assert(whole_seconds(-1'000'000'000) == -1);
  static_assert(whole_seconds(-1'500'000'000) == -2);
}

}  // namespace
}  // namespace saccade
