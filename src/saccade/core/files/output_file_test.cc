#include "saccade/core/files/output_file.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using testing::HasSubstr;

constexpr std::string_view kPage = "<!DOCTYPE html>\n<html>";
constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n";

class OutputFileTest : public testing::Test {
 protected:
  void refused(const fs::path& path, OutputKind kind, const OutputRules& rules, ErrorCode code,
               std::string_view part) const {
    const auto before = read_file(path);
    const Status status = write_output(path, kind, rules, "new");
    ASSERT_FALSE(status.has_value()) << path;
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr(part));
    EXPECT_THAT(status.error().message, HasSubstr(path.string()));
    const auto after = read_file(path);
    EXPECT_EQ(after.has_value(), before.has_value()) << path;
    if (after && before) {
      EXPECT_EQ(*after, *before) << path;
    }
  }
  void written(const fs::path& path, OutputKind kind, const OutputRules& rules = {}) const {
    const Status status = write_output(path, kind, rules, "new");
    ASSERT_TRUE(status.has_value()) << status.error().message;
    EXPECT_EQ(read_file(path).value(), "new");
  }
  // Names of what is in the test's folder.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_.path())) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }

  test::TestFolder folder_;
};

TEST_F(OutputFileTest, ReplacesItsOwnKindAlone) {
  const std::string safetensors = "\x40\0\0\0\0\0\0\0"s + R"({"__metadata__":{"checkpoint":"m")";
  const std::string weights = "\x40\0\0\0\0\0\0\0"s + R"({"__metadata__":{"format":"pt"}})";
  const std::string tar = std::string(257, 'x') + "ustar";
  const std::vector<std::pair<OutputKind, std::vector<std::string>>> own = {
      {OutputKind::kHtml, {std::string(kPage), "\xEF\xBB\xBF\n <!doctype HTML>", "<html lang>"}},
      {OutputKind::kJson, {"{\"a\": 1}", "\n{\n}"}},
      {OutputKind::kJsonLines, {"{\"image\": \"a.png\"}\n{broken", "{}"}},
      {OutputKind::kNumpy, {"\x93NUMPY\x01"}},
      {OutputKind::kSafetensors, {safetensors}},
      {OutputKind::kShellScript, {"#!/bin/sh\n# Removes"}},
      {OutputKind::kDocument, {}},
  };
  const std::vector<std::pair<std::string, std::string>> others = {
      {std::string(kPng), "an image"},      {"\xFF\xD8\xFF\xE0", "an image"},
      {"SQLite format 3\0"s, "a database"}, {tar, "an archive"},
      {"PAR1", "a Parquet file"},           {weights, "other safetensors"},
      {"{\n  \"pretty\": 1\n}", ""},        {"a,b\n1,2\n", ""},
  };
  for (const auto& [kind, contents] : own) {
    for (const std::string& content : contents) written(folder_.write("own", content), kind);
    written(folder_.write("empty", ""), kind);
    fs::remove(folder_ / "new");
    written(folder_ / "new", kind);
    for (const auto& [content, name] : others) {
      if (kind == OutputKind::kJson && content.starts_with('{')) continue;
      const fs::path path = folder_.write("other", content);
      refused(path, kind, {}, ErrorCode::kUsage, "is there already");
      if (kind != OutputKind::kDocument) refused(path, kind, {}, ErrorCode::kUsage, name);
      written(path, kind, {.overwrite = true});
    }
  }
}

TEST_F(OutputFileTest, KeepsInputsByWhateverName) {
  const fs::path input = folder_.write("in.jsonl", "{}\n");
  fs::create_hard_link(input, folder_ / "hard.jsonl");
  fs::create_symlink("in.jsonl", folder_ / "soft.jsonl");
  fs::create_symlink(folder_.path(), folder_ / "around");
  const OutputRules rules{.inputs = {"", folder_ / "missing", input}};
  for (const char* name : {"in.jsonl", "hard.jsonl", "soft.jsonl", "around/in.jsonl"}) {
    refused(folder_ / name, OutputKind::kJsonLines, rules, ErrorCode::kUsage, "what this command reads");
  }
  OutputRules other = rules;
  other.overwrite = true;
  written(folder_ / "soft.jsonl", OutputKind::kJsonLines, other);
  EXPECT_TRUE(fs::is_symlink(folder_ / "soft.jsonl"));
  EXPECT_EQ(read_file(input).value(), "new");
}

TEST_F(OutputFileTest, KeepsWhatLiesBelowAnInput) {
  const fs::path there = folder_.write("set/deep/there.jsonl", "{}\n");
  fs::create_symlink(folder_ / "set", folder_ / "other name");
  fs::create_symlink(there, folder_ / "link.jsonl");
  const OutputRules rules{.inputs = {folder_ / "set"}};
  refused(there, OutputKind::kJsonLines, rules, ErrorCode::kUsage, "lies in");
  refused(folder_ / "other name/deep/there.jsonl", OutputKind::kJsonLines, rules, ErrorCode::kUsage,
          "lies in");
  refused(folder_ / "link.jsonl", OutputKind::kJsonLines, rules, ErrorCode::kUsage, "lies in");
  refused(folder_ / "set/1.tar", OutputKind::kJsonLines, rules, ErrorCode::kUsage, "ends in .jsonl");
  written(folder_ / "set/new.jsonl", OutputKind::kJsonLines, rules);
  written(folder_ / "settled", OutputKind::kJsonLines, rules);
}

TEST_F(OutputFileTest, WritesNothingInClosedFolders) {
  const fs::path there = folder_.write("c/page.html", kPage);
  fs::create_symlink(folder_ / "c", folder_ / "other name");
  fs::create_symlink("c/yet to be.html", folder_ / "link.html");
  for (const bool overwrite : {false, true}) {
    const OutputRules rules{.closed = {"", folder_ / "c", folder_ / "missing"}, .overwrite = overwrite};
    for (const char* name : {"c/page.html", "c/new.html", "other name/new.html", "link.html"}) {
      refused(folder_ / name, OutputKind::kHtml, rules, ErrorCode::kUsage, "belong together");
    }
    EXPECT_EQ(check_output_folder(folder_ / "c", rules).error().code, ErrorCode::kUsage);
    EXPECT_EQ(check_output_folder(folder_ / "c/new/deeper", rules).error().code, ErrorCode::kUsage);
    EXPECT_EQ(check_output_folder(folder_ / "other name", rules).error().code, ErrorCode::kUsage);
    EXPECT_TRUE(check_output_folder(folder_ / "elsewhere/new", rules));
  }
}

TEST_F(OutputFileTest, DevicesAndPlacesThatAreNone) {
  EXPECT_TRUE(write_output("/dev/null", OutputKind::kHtml, {.inputs = {"/dev/null"}}, "x"));
  const fs::path log = folder_.write("log", "text that is no page");
  std::FILE* own = std::fopen(log.c_str(), "a");
  ASSERT_NE(own, nullptr);
  EXPECT_TRUE(write_output(fmt::format("/dev/fd/{}", ::fileno(own)), OutputKind::kHtml, {}, " and more"));
  std::fclose(own);
  EXPECT_EQ(read_file(log).value(), "text that is no page and more");
  EXPECT_EQ(check_output(folder_.path(), OutputKind::kHtml, {}).error().code, ErrorCode::kBadData);
  EXPECT_EQ(check_output("-", OutputKind::kHtml, {.overwrite = true}).error().code, ErrorCode::kUsage);
  EXPECT_TRUE(check_output("./-", OutputKind::kHtml, {}));
  EXPECT_EQ(check_output(folder_ / "gone/page.html", OutputKind::kHtml, {}).error().code,
            ErrorCode::kNotFound);
}

// A failure at the last step of the second file: a folder has taken its place.
TEST_F(OutputFileTest, TwoThatBelongTogether) {
  for (const bool replaces : {false, true}) {
    if (replaces) folder_.write("names", "{\"old\": 1}");
    auto first = OutputFile::open(folder_ / "names", OutputKind::kJson, {});
    auto second = OutputFile::open(folder_ / "rows", OutputKind::kNumpy, {});
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(first->file().write("{\"new\": 1}") && second->file().write("rows"));
    fs::create_directories(folder_ / "rows/in the way");
    EXPECT_FALSE(commit_both(*first, *second));
    if (replaces) {
      EXPECT_EQ(read_file(folder_ / "names").value(), "{\"old\": 1}");
    } else {
      EXPECT_FALSE(fs::exists(folder_ / "names"));
    }
    fs::remove_all(folder_ / "rows");
  }
  {
    auto first = OutputFile::open(folder_ / "names", OutputKind::kJson, {});
    auto second = OutputFile::open(folder_ / "rows", OutputKind::kNumpy, {});
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(first->file().write("{\"new\": 1}") && second->file().write("rows"));
    ASSERT_TRUE(commit_both(*first, *second));
  }
  EXPECT_EQ(read_file(folder_ / "names").value(), "{\"new\": 1}");
  EXPECT_EQ(read_file(folder_ / "rows").value(), "rows");
  EXPECT_EQ(names(), (std::vector<std::string>{"names", "rows"}));  // no temporary files
}

}  // namespace
}  // namespace saccade
