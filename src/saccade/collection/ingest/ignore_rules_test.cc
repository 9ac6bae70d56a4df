#include "saccade/collection/ingest/ignore_rules.h"

#include <gtest/gtest.h>

#include "saccade/core/thread_seconds.h"

namespace saccade {
namespace {

// Patterns and paths with the results of `git check-ignore` of git 2.39.
struct Case {
  const char* rules;
  const char* path;
  bool folder;
  int decided;  // 1: excluded, 0: taken back, -1: no line speaks of it
};

TEST(IgnoreRules, DecideAsGitDoes) {
  const Case cases[] = {
      {"*.tmp", "a.tmp", false, 1},
      {"*.tmp", "x/y/a.tmp", false, 1},
      {"*.tmp", "a.tmpl", false, -1},
      {"drafts/", "drafts", true, 1},
      {"drafts/", "drafts", false, -1},
      {"drafts/", "x/drafts", true, 1},
      {"/private", "private", false, 1},
      {"/private", "x/private", false, -1},
      {"a/b", "a/b", false, 1},
      {"a/b", "x/a/b", false, -1},
      {"a/*", "a/b", false, 1},
      {"a/*", "a/b/c", false, -1},
      {"**/old", "old", true, 1},
      {"**/old", "x/y/old", true, 1},
      {"old/**", "old/x/y.jpg", false, 1},
      {"old/**", "old", true, -1},
      {"a/**/b", "a/b", false, 1},
      {"a/**/b", "a/x/y/b", false, 1},
      {"a/**/b", "ax/b", false, -1},
      {"*.jpg\n!keep.jpg", "keep.jpg", false, 0},
      {"!keep.jpg\n*.jpg", "keep.jpg", false, 1},
      {"# a comment\n\n\\#name", "#name", false, 1},
      {"# a comment", "# a comment", false, -1},
      {"\\!name", "!name", false, 1},
      {"name ", "name", false, 1},
      {"name\\ ", "name ", false, 1},
      {"[a-c]?.png", "b1.png", false, 1},
      {"[!a-c]?.png", "b1.png", false, -1},
      {"[!a-c]?.png", "d1.png", false, 1},
      {"a[", "a[", false, 1},
      {"*a*b*c", "xaybzc", false, 1},
      {"*a*b*c", "xaybz", false, -1},
      {"/*/thumb", "x/thumb", false, 1},
      {"/*/thumb", "x/y/thumb", false, -1},
      {"name\r", "name", false, 1},
      {"\xef\xbb\xbfname", "name", false, 1},
  };
  for (const Case& each : cases) {
    const auto decided = IgnoreRules(std::string_view(each.rules)).decide(each.path, each.folder);
    EXPECT_EQ(decided ? int{*decided} : -1, each.decided) << each.rules << " over " << each.path;
  }
}

TEST(IgnoreRules, AHundredThousandLinesCostLittle) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i)
    lines += "picture-" + std::to_string(i) + (i % 3 == 0 ? ".jpg\n" : "/below/\n");
  lines += "*.cr2\n!picture-30.jpg\n";
  const IgnoreRules rules{std::string_view(lines)};
  const double start = thread_seconds();
  int excluded = 0;
  for (int i = 0; i < 10'000; ++i) {
    excluded += rules.decide("a/b/picture-" + std::to_string(i) + ".jpg", false).value_or(false) ? 1 : 0;
  }
  EXPECT_EQ(excluded, 3'334 - 1);  // every third, but the one that is taken back
  EXPECT_LT(thread_seconds() - start, 1.0);
}

// Many stars against what nearly matches: no exponential search.
TEST(IgnoreRules, StarsDoNotExplode) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  const std::string text(2000, 'a');
  const double start = thread_seconds();
  EXPECT_FALSE(glob_matches(pattern + "b", text));
  std::string folders;
  for (int i = 0; i < 100; ++i) folders += "**/a/";
  std::string path;
  for (int i = 0; i < 500; ++i) path += "a/";
  EXPECT_FALSE(glob_matches(folders + "b", path + "c"));
  EXPECT_LT(thread_seconds() - start, 1.0);
}

}  // namespace
}  // namespace saccade
