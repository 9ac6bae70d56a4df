#include "lab/data/readers/manifest.h"

#include <gtest/gtest.h>

#include "lab/data/dataset_json.h"
#include "lab/data/read_dataset.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

TEST(Manifest, ReadsEveryField) {
  const auto dataset = parse_manifest(
      "{\"image\": \"a/1.png\", \"captions\": [\"one\", \"two\"], \"id\": \"x\", \"source\": \"s\", "
      "\"licence\": \"MIT\", \"group\": \"g\", \"split\": \"train\", \"more\": 1}\r\n\n"
      "{\"image\": \"/abs/2.png\", \"captions\": \"single\"}\n"
      "{\"image\": \"3.png\"}\n"
      "{\"image\": \"4.png\", \"caption\": \"alone\"}",
      "/data");
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->as<CaptionedImages>().items.size(), 4U);
  const DatasetItem& first = dataset->as<CaptionedImages>().items[0];
  EXPECT_EQ(first.image.path, "/data/a/1.png");
  EXPECT_EQ(first.captions, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(first.id + first.source + first.licence + first.group + first.split, "xsMITgtrain");
  EXPECT_EQ(dataset->as<CaptionedImages>().items[1].image.path, "/abs/2.png");
  EXPECT_EQ(dataset->as<CaptionedImages>().items[1].captions, std::vector<std::string>{"single"});
  EXPECT_EQ(dataset->as<CaptionedImages>().items[2].id, "3.png");
  EXPECT_TRUE(dataset->as<CaptionedImages>().items[2].captions.empty());
  EXPECT_EQ(dataset->as<CaptionedImages>().items[3].captions, std::vector<std::string>{"alone"});
}

// A blank text is no query: it would count as found or not by chance.
TEST(Manifest, BlankCaptionsAreLeftOutAndCounted) {
  const auto dataset = parse_manifest(
      "\xef\xbb\xbf{\"image\": \"1.png\", \"captions\": [\"\", \"one\", \" \\t\"]}\n"
      "{\"image\": \"2.png\", \"caption\": \"  \"}\n",
      "/data");
  ASSERT_TRUE(dataset) << dataset.error().message;
  const auto& items = dataset->as<CaptionedImages>().items;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].captions, std::vector<std::string>{"one"});
  EXPECT_TRUE(items[1].captions.empty());
  ASSERT_EQ(dataset->excluded.size(), 1U);
  EXPECT_EQ(dataset->excluded[0].reason, "empty captions");
  EXPECT_EQ(dataset->excluded[0].count, 3);
  EXPECT_EQ(exclusion_counts(dataset->excluded), (Json{{"empty captions", 3}}));
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
      {R"({"image": {"path": "a.tar"}})", "line 1: \"member\" is missing"},
      {R"({"image": {"path": "a.tar", "member": "1.png", "offset": -1, "size": 3}})", "from byte -1"},
      {R"({"image": {"path": "a.tar", "member": "1.png", "offset": 9223372036854775807, "size": 1}})",
       "no part of a file"},
      {R"({"images": [], "captions": ["a", "b"]})", "one or two images"},
      {R"({"images": ["1.png"], "captions": ["a"]})", "1 captions"},
      {R"({"images": ["1.png"], "image": "1.png", "captions": ["a", "b"]})", "both"},
      {"{\"image\": \"1.png\"}\n{\"images\": [\"2.png\"], \"captions\": [\"a\", \"b\"]}\n",
       "line 2: \"image\", \"images\""},
  };
  for (const auto& [text, expected] : kCases) {
    const auto dataset = parse_manifest(text, "");
    ASSERT_FALSE(dataset) << text;
    EXPECT_EQ(dataset.error().code, ErrorCode::kBadData);
    EXPECT_NE(dataset.error().message.find(expected), std::string::npos) << dataset.error().message;
  }
  EXPECT_EQ(read_dataset(test::TestFolder() / "missing.jsonl").error().code, ErrorCode::kNotFound);
}

TEST(Manifest, ReadsRatedTexts) {
  const auto dataset = parse_manifest(
      "{\"text\": \"two birds\", \"visual\": true, \"ratings\": [7, 6.5], \"image\": \"b.png\", \"split\": \"train\"}\n"
      "{\"text\": \"no warranty\", \"visual\": false, \"id\": \"n\", \"source\": \"s\", \"group\": \"g\"}\n"
      "{\"text\": \"one day\", \"visual\": null, \"image\": null}\n",
      "/data");
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->as<RatedTexts>().items.size(), 3U);
  const RatedText& first = dataset->as<RatedTexts>().items[0];
  EXPECT_EQ(first.id, "line 1");
  EXPECT_EQ(first.visual, std::optional(true));
  EXPECT_EQ(first.ratings, (std::vector<double>{7, 6.5}));
  ASSERT_TRUE(first.image);
  EXPECT_EQ(first.image->path, "/data/b.png");
  EXPECT_EQ(first.split, "train");
  const RatedText& second = dataset->as<RatedTexts>().items[1];
  EXPECT_EQ(second.visual, std::optional(false));
  EXPECT_EQ(second.id + second.source + second.group, "nsg");
  EXPECT_FALSE(second.image);
  EXPECT_FALSE(dataset->as<RatedTexts>().items[2].visual);
  EXPECT_EQ(dataset->kind(), "rated texts");
  EXPECT_EQ(dataset->size(), 3);
}

TEST(Manifest, RatedTextsComeBackFromTheirManifest) {
  const char* text =
      "{\"text\": \"two birds\", \"visual\": true, \"ratings\": [7, 6.5], \"image\": \"b.png\", \"licence\": \"MIT\"}\n"
      "{\"text\": \"no warranty\", \"visual\": false, \"group\": \"g\"}\n"
      "{\"text\": \"one day\", \"visual\": null}\n";
  const auto dataset = parse_manifest(text, "/data");
  ASSERT_TRUE(dataset) << dataset.error().message;
  const auto again = parse_manifest(format_manifest(*dataset, "/data").value(), "/data");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->as<RatedTexts>().items, dataset->as<RatedTexts>().items);
}

TEST(Manifest, ErrorsOfRatedTextsNameTheLine) {
  const std::pair<std::string, const char*> kCases[] = {
      {R"({"text": "a", "ratings": [1]})", "line 1: \"visual\" is missing"},
      {R"({"text": "a", "visual": "yes"})", "\"visual\" is a string, expected true, false or null"},
      {R"({"text": "  ", "visual": true})", "\"text\" is empty"},
      {R"({"text": 3, "visual": true})", "\"text\" is a number"},
      {R"({"text": "a", "visual": true, "ratings": [7, 8]})", "a rating of 8, expected 1 to 7"},
      {R"({"text": "a", "visual": true, "ratings": [0.5]})", "a rating of 0.5"},
      {R"({"text": "a", "visual": true, "ratings": 5})", "\"ratings\" is a number"},
      {R"({"text": "a", "visual": true, "ratings": ["5"]})", "\"ratings\" is a string"},
      {R"({"text": "a", "visual": true, "image": 5})", "\"image\" is a number"},
      {"{\"text\": \"a\", \"visual\": true}\n{\"image\": \"1.png\"}\n", "line 2: "},
      {"{\"text\": \"a\", \"visual\": true, \"id\": \"x\"}\n{\"text\": \"b\", \"visual\": null, \"id\": \"x\"}\n",
       "line 2: a second item with id \"x\""},
      {"{\"text\": \"" + std::string(70'000, 'a') + "\", \"visual\": true}", "70000 bytes"},
  };
  for (const auto& [text, expected] : kCases) {
    const auto dataset = parse_manifest(text, "");
    ASSERT_FALSE(dataset) << text;
    EXPECT_NE(dataset.error().message.find(expected), std::string::npos) << dataset.error().message;
  }
}

TEST(Manifest, EmptyIsEmpty) {
  EXPECT_TRUE(parse_manifest("", "")->as<CaptionedImages>().items.empty());
}

TEST(Manifest, WhatIsWrittenReadsTheSame) {
  const auto item = [](const std::string& id, ImageRef image) {
    DatasetItem made;
    made.id = id;
    made.image = std::move(image);
    return made;
  };
  Dataset dataset;
  dataset.as<CaptionedImages>().items = {
      item("a", {.path = "/data/photos/in/a.jpg", .member = {}}),
      item("b", {.path = "/data/photos/b.jpg", .member = {}}),
      item("c", {.path = "/elsewhere/c.jpg", .member = {}}),
      item("d", {.path = "/data/photos/0.tar", .member = "d.jpg", .offset = 512, .size = 9})};
  DatasetItem& full = dataset.as<CaptionedImages>().items[0];
  full.captions = {"x \"y\"\n", "\xc3\xa9"};
  full.source = "s";
  full.licence = "MIT";
  full.group = "g";
  full.split = "train";
  const auto text = format_manifest(dataset, "/data/photos/");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("\"image\":\"in/a.jpg\""), std::string::npos) << *text;
  EXPECT_NE(text->find("\"image\":\"/elsewhere/c.jpg\""), std::string::npos) << *text;
  EXPECT_EQ(parse_manifest(*text, "/data/photos")->as<CaptionedImages>().items,
            dataset.as<CaptionedImages>().items);

  Dataset pairs;
  pairs.content.emplace<CompositionTests>().items = {
      {.id = "0",
       .images = {{.path = "/data/0.png", .member = {}}, {.path = "/data/1.png", .member = {}}},
       .captions = {"some grass", "grass some"},
       .kind = "swap",
       .split = "test"},
      {.id = "1",
       .images = {{.path = "/data/2.png", .member = {}}},
       .captions = {"right", "wrong"},
       .kind = {},
       .split = {}}};
  const auto lines = format_manifest(pairs, "/data");
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_EQ(parse_manifest(*lines, "/data")->as<CompositionTests>().items,
            pairs.as<CompositionTests>().items);

  dataset.as<CaptionedImages>().items[0].captions = {"caf\xe9"};  // Latin-1
  const auto refused = format_manifest(dataset, "/data");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "item \"a\": a name or caption that is not UTF-8");
}

}  // namespace
}  // namespace saccade::lab
