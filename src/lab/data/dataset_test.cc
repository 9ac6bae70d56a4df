#include "lab/data/dataset.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/read_dataset.h"
#include "lab/data/where_to_get.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

// Reads the dataset at a path, with "#key=value" behind it.
Result<Dataset> read(const std::filesystem::path& path, const std::string& keys = "") {
  SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(path.string() + keys));
  return read_dataset(source);
}

TEST(DatasetSource, SaysWhereAndHow) {
  const auto plain = parse_dataset_source("a/b.jsonl");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->path, "a/b.jsonl");
  DatasetOptions defaults;
  defaults.split = "train";
  defaults.images = "photos";
  const auto full = parse_dataset_source("a.csv#split=val+test,missing=skip,caption-column=title", defaults);
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_EQ(full->path, "a.csv");
  EXPECT_EQ(full->options.split, "val+test");
  EXPECT_EQ(full->options.images, "photos");
  EXPECT_TRUE(full->options.skip_missing);
  EXPECT_EQ(full->options.columns.at("caption"), "title");
  for (const char* wrong : {"a#test", "a#splits=test", "a#split=", "a#missing=drop"}) {
    const auto source = parse_dataset_source(wrong);
    ASSERT_FALSE(source) << wrong;
    EXPECT_EQ(source.error().code, ErrorCode::kUsage);
  }
  const test::TestFolder folder;
  folder.write("odd#split=x", "");
  const auto odd = parse_dataset_source((folder.path() / "odd#split=x").string());
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->path, folder.path() / "odd#split=x");
}

// The name of a public dataset in place of a path.
TEST(ReadDataset, SaysWhereAPublicDatasetComesFrom) {
  const auto coco = read("coco");
  ASSERT_FALSE(coco);
  EXPECT_EQ(coco.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(coco.error().message, testing::HasSubstr("images.cocodataset.org"));
  EXPECT_THAT(coco.error().message, testing::HasSubstr("captions_val2017.json"));
  EXPECT_EQ(where_to_get("COCO2017"), where_to_get("coco"));
  EXPECT_THAT(where_to_get("Fashion-IQ/"), testing::HasSubstr("fashion-iq"));
  EXPECT_THAT(where_to_get("flickr30k"), testing::HasSubstr("Flickr30k"));
  EXPECT_THAT(where_to_get("ROCO"), testing::HasSubstr("scripts/fetch.py"));
  for (const char* other : {"", "cocoa", "data/coco.json", "my-coco"})
    EXPECT_EQ(where_to_get(other), "") << other;
  EXPECT_THAT(read("cocoa").error().message, testing::Not(testing::HasSubstr("cocodataset")));
}

TEST(ReadDataset, SelectsSplitsAndCountsThem) {
  const test::TestFolder folder;
  folder.write("all.jsonl", R"({"image": "1.png", "captions": ["a"], "split": "train"}
{"image": "2.png", "captions": ["b"], "split": "test"}
{"image": "3.png", "captions": ["c"], "split": "val"}
{"image": "4.png", "captions": ["d"]}
)");
  const auto path = folder.path() / "all.jsonl";
  const auto all = read_dataset(path);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->as<CaptionedImages>().items.size(), 4U);
  EXPECT_EQ(all->name, "all");
  EXPECT_EQ(all->layout, "manifest");
  EXPECT_EQ(all->split_sizes,
            (std::map<std::string, int64_t>{{"", 1}, {"test", 1}, {"train", 1}, {"val", 1}}));
  ASSERT_EQ(all->files.size(), 1U);
  EXPECT_EQ(all->files[0].sha256.size(), 64U);

  const auto two = read(path, "#split=train+test");
  ASSERT_TRUE(two) << two.error().message;
  ASSERT_EQ(two->as<CaptionedImages>().items.size(), 2U);
  EXPECT_EQ(two->as<CaptionedImages>().items[1].id, "2.png");
  EXPECT_EQ(two->name, "all-train+test");
  EXPECT_NE(two->hash, all->hash);

  const auto none = read(path, "#split=dev");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUsage);
  EXPECT_NE(none.error().message.find("no split \"dev\"; there are test (1), train (1), val (1)"),
            std::string::npos)
      << none.error().message;
  EXPECT_FALSE(read(path, "#split=train+"));
  folder.write("plain.jsonl", R"({"image": "1.png"})");
  EXPECT_NE(read(folder.path() / "plain.jsonl", "#split=test").error().message.find("have none"),
            std::string::npos);
}

TEST(ReadDataset, HashIsOfWhatWentIn) {
  const test::TestFolder folder;
  folder.write("a.jsonl", R"({"image": "1.png", "captions": ["a", "b"], "id": "1"})");
  folder.write("elsewhere/b.jsonl",
               R"({"id": "1", "captions": ["a", "b"], "image": "../1.png", "licence": "MIT"})");
  folder.write("c.jsonl", R"({"image": "1.png", "captions": ["ab"], "id": "1"})");
  const auto a = read_dataset(folder.path() / "a.jsonl");
  const auto b = read_dataset(folder.path() / "elsewhere/b.jsonl");
  const auto c = read_dataset(folder.path() / "c.jsonl");
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->hash, b->hash);
  EXPECT_NE(a->hash, c->hash);
}

TEST(ReadDataset, SkipsMissingImagesOnlyWhenAskedAndCounts) {
  const test::TestFolder folder;
  folder.write("1.png", "x");
  folder.write("a.jsonl", "{\"image\": \"1.png\"}\n{\"image\": \"2.png\"}\n{\"image\": \"3.png\"}\n");
  EXPECT_EQ(read_dataset(folder.path() / "a.jsonl")->as<CaptionedImages>().items.size(), 3U);
  const auto there = read(folder.path() / "a.jsonl", "#missing=skip");
  ASSERT_TRUE(there);
  EXPECT_EQ(there->as<CaptionedImages>().items.size(), 1U);
  ASSERT_EQ(there->excluded.size(), 1U);
  EXPECT_EQ(there->excluded[0].count, 2);
  EXPECT_EQ(there->excluded[0].examples, (std::vector<std::string>{"2.png", "3.png"}));
  std::filesystem::remove(folder.path() / "1.png");
  const auto none = read(folder.path() / "a.jsonl", "#missing=skip");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("nothing in it; left out: image files"), std::string::npos)
      << none.error().message;
}

TEST(ReadDataset, RefusesWhatItCannotTell) {
  const test::TestFolder folder;
  folder.write("notes.md", "# hello\n");
  const auto unknown = read_dataset(folder.path() / "notes.md");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().message.find("manifest"), std::string::npos);
  EXPECT_EQ(read(folder.path() / "notes.md", "#format=xml").error().code, ErrorCode::kUsage);
  EXPECT_EQ(read(folder.path() / "notes.md", "#picture-column=x").error().code, ErrorCode::kUsage);
  folder.write("empty.jsonl", "\n");
  EXPECT_EQ(read_dataset(folder.path() / "empty.jsonl").error().code, ErrorCode::kBadData);
}

TEST(ReadImageBytes, ReadsFilesAndStretchesOfArchives) {
  const test::TestFolder folder;
  folder.write("a.bin", "0123456789");
  const auto path = folder.path() / "a.bin";
  EXPECT_EQ(read_image_bytes({.path = path, .member = {}}).value(), "0123456789");
  EXPECT_EQ(read_image_bytes({.path = path, .member = "m", .offset = 3, .size = 4}).value(), "3456");
  EXPECT_EQ(read_image_bytes({.path = path, .member = "m", .offset = 10, .size = 0}).value(), "");
  EXPECT_EQ(read_image_bytes({.path = path, .member = "m", .offset = 7, .size = 4}).error().code,
            ErrorCode::kBadData);
  EXPECT_EQ(read_image_bytes({.path = path, .member = "m", .offset = -1, .size = 4}).error().code,
            ErrorCode::kBadData);
  EXPECT_EQ(read_image_bytes({.path = path, .member = "m", .offset = 0, .size = 4}, 3).error().code,
            ErrorCode::kLimit);
  EXPECT_EQ(read_image_bytes({.path = folder.path(), .member = "m", .offset = 0, .size = 4}).error().code,
            ErrorCode::kBadData);
  EXPECT_EQ(read_image_bytes({.path = folder.path() / "b", .member = "m"}).error().code,
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace saccade::lab
