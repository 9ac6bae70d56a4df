#include "saccade/data/manifest.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(Manifest, ReadsEveryField) {
  const auto dataset = parse_manifest(
      "{\"image\": \"a/1.png\", \"captions\": [\"one\", \"two\"], \"id\": \"x\", \"source\": \"s\", "
      "\"licence\": \"MIT\", \"group\": \"g\", \"split\": \"train\", \"more\": 1}\r\n\n"
      "{\"image\": \"/abs/2.png\", \"captions\": \"single\"}\n"
      "{\"image\": \"3.png\"}",
      "/data");
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->items.size(), 3U);
  const DatasetItem& first = dataset->items[0];
  EXPECT_EQ(first.image, "/data/a/1.png");
  EXPECT_EQ(first.captions, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(first.id + first.source + first.licence + first.group + first.split, "xsMITgtrain");
  EXPECT_EQ(dataset->items[1].image, "/abs/2.png");
  EXPECT_EQ(dataset->items[1].captions, std::vector<std::string>{"single"});
  EXPECT_EQ(dataset->items[2].id, "3.png");
  EXPECT_TRUE(dataset->items[2].captions.empty());
}

TEST(Manifest, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{\"image\": \"1.png\"}\nnot json\n", "line 2: not JSON"},
      {"{\"captions\": []}\n", "line 1: \"image\" is missing"},
      {"{\"image\": 3}\n", "line 1: \"image\" is a number (3), expected a string"},
      {"{\"image\": \"\"}\n", "line 1: \"image\" is empty"},
      {"[]\n", "line 1: an array, not an object"},
      {"{\"image\": \"1.png\", \"captions\": [1]}\n", "line 1: \"captions\" is a number"},
      {"{\"image\": \"1.png\", \"captions\": {}}\n", "line 1: \"captions\" is an object"},
      {"{\"image\": \"1.png\"}\n\n{\"image\": \"1.png\"}\n", "line 3: a second item with id \"1.png\""},
  };
  for (const auto& [text, expected] : kCases) {
    const auto dataset = parse_manifest(text, "");
    ASSERT_FALSE(dataset) << text;
    EXPECT_EQ(dataset.error().code, ErrorCode::kBadData);
    EXPECT_NE(dataset.error().message.find(expected), std::string::npos) << dataset.error().message;
  }
  EXPECT_EQ(read_manifest("/nonexistent.jsonl").error().code, ErrorCode::kNotFound);
}

TEST(Manifest, EmptyIsEmpty) {
  EXPECT_TRUE(parse_manifest("", "")->items.empty());
}

}  // namespace
}  // namespace saccade
