// Tests of the files of a Parquet dataset, found by name, and of the names of its images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/readers/manifest.h"
#include "lab/data/readers/parquet.h"
#include "lab/data/readers/parquet_image.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab::data {
namespace {

using test::TestFolder;
using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<ParquetShard>> shards_of(const std::filesystem::path& path) {
  SACCADE_ASSIGN(const Candidate candidate, look_at(path));
  EXPECT_TRUE(kParquet.recognizes(candidate)) << path;
  return find_parquet_shards(candidate);
}

// Returns a shard as "name prefix split".
std::vector<std::string> shown(const std::filesystem::path& path) {
  const auto shards = shards_of(path);
  EXPECT_TRUE(shards) << shards.error().message;
  std::vector<std::string> all;
  if (!shards) return all;
  for (const ParquetShard& shard : *shards) {
    EXPECT_TRUE(std::filesystem::exists(shard.path)) << shard.path;
    all.push_back(fmt::format("{} {} {}", shard.name, shard.prefix, shard.split));
  }
  return all;
}

TEST(ParquetShards, SplitsComeFromNames) {
  const TestFolder folder;
  for (const char* name :
       {"hub/data/train-00000-of-00002.parquet", "hub/data/train-00001-of-00002-0a1b2c.parquet",
        "hub/data/flickr-test-00000-of-00001.parquet", "hub/README.md", "hub/.cache/x.parquet",
        "converted/default/partial-train/0000.parquet", "converted/default/partial-train/0001.parquet",
        "converted/default/test_sft/0000.parquet", "plain/validation.parquet", "plain/test_1.parquet",
        "plain/other.parquet", "folders/train/metadata.parquet", "folders/test/metadata.parquet",
        "numbers/data/10.parquet", "numbers/data/9.parquet"}) {
    folder.write(name, "PAR1");
  }
  const auto& root = folder.path();
  EXPECT_THAT(shown(root / "hub"),
              ElementsAre("data/flickr-test-00000-of-00001.parquet flickr-test-00000-of-00001/ test",
                          "data/train-00000-of-00002.parquet train-00000-of-00002/ train",
                          "data/train-00001-of-00002-0a1b2c.parquet train-00001-of-00002-0a1b2c/ train"));
  EXPECT_THAT(shown(root / "converted"),
              ElementsAre("default/partial-train/0000.parquet default/partial-train/0000/ train",
                          "default/partial-train/0001.parquet default/partial-train/0001/ train",
                          "default/test_sft/0000.parquet default/test_sft/0000/ test_sft"));
  EXPECT_THAT(shown(root / "plain"), ElementsAre("other.parquet other/ ", "test_1.parquet test_1/ test",
                                                 "validation.parquet validation/ validation"));
  EXPECT_THAT(shown(root / "folders"), ElementsAre("test/metadata.parquet test/metadata/ test",
                                                   "train/metadata.parquet train/metadata/ train"));
  EXPECT_THAT(shown(root / "numbers"), ElementsAre("data/9.parquet 9/ ", "data/10.parquet 10/ "));
  // A single file need not have its whole series.
  EXPECT_THAT(shown(root / "hub/data/train-00000-of-00002.parquet"),
              ElementsAre("train-00000-of-00002.parquet train-00000-of-00002/ train"));
  EXPECT_THAT(shown(root / "folders/test/metadata.parquet"), ElementsAre("metadata.parquet metadata/ test"));
}

TEST(ParquetShards, IncompleteAndSeveral) {
  const TestFolder folder;
  const auto error_of = [&](const char* name) {
    const auto shards = shards_of(folder.path() / name);
    EXPECT_FALSE(shards);
    return shards ? Error{} : shards.error();
  };
  folder.write("part/train-00000-of-00003.parquet", "");
  folder.write("part/train-00002-of-00003.parquet", "");
  EXPECT_EQ(error_of("part").message, "train has 3 shards by their names, 2 are there");
  folder.write("two/train-00000-of-00001.parquet", "");
  folder.write("two/train-00000-of-00002.parquet", "");
  EXPECT_THAT(error_of("two").message, HasSubstr("shards of train \"-of-00001\" and \"-of-00002\""));
  folder.write("twice/train-00000-of-00002-aa.parquet", "");
  folder.write("twice/train-00000-of-00002-bb.parquet", "");
  EXPECT_THAT(error_of("twice").message, HasSubstr("two shards 00000 of train"));
  folder.write("several/en/train-00000-of-00001.parquet", "");
  folder.write("several/de/test/0000.parquet", "");
  EXPECT_THAT(error_of("several").message, HasSubstr("several configurations (de, en), name one: "));
  EXPECT_EQ(error_of("several").code, ErrorCode::kUsage);
}

TEST(ParquetShards, RecognizedBesideOtherLayouts) {
  const TestFolder folder;
  folder.write("pictures/a.jpg", "x");
  folder.write("empty/deep/er/and/x.parquet", "");
  for (const char* name : {"pictures", "pictures/a.jpg", "empty"}) {
    const auto candidate = look_at(folder.path() / name);
    ASSERT_TRUE(candidate);
    EXPECT_FALSE(kParquet.recognizes(*candidate)) << name;
  }
  folder.write("unnamed", "PAR1...");
  EXPECT_TRUE(kParquet.recognizes(*look_at(folder.path() / "unnamed")));
}

TEST(ParquetShards, PicturesInManifests) {
  const std::string line =
      R"({"id":"a","image":{"path":"data/0.parquet","column":"image","row":17},"captions":["x"]})"
      "\n";
  const auto dataset = parse_manifest(line, "/somewhere");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->as<CaptionedImages>().items[0].image,
            parquet_picture("/somewhere/data/0.parquet", "image", 17));
  EXPECT_EQ(dataset->as<CaptionedImages>().items[0].image.name(),
            "/somewhere/data/0.parquet: row 17 of image");
  EXPECT_EQ(format_manifest(*dataset, "/somewhere").value(), line);
  const auto error_of = [](std::string_view text) { return parse_manifest(text, "/").error().message; };
  EXPECT_THAT(error_of(R"({"image": {"path": "a", "column": "image", "row": -1}})"),
              HasSubstr("line 1: \"row\" is -1, rows count from 0"));
  EXPECT_THAT(error_of(R"({"image": {"path": "a", "column": "", "row": 1}})"),
              HasSubstr("\"column\" is empty"));
  EXPECT_THAT(error_of(R"({"image": {"path": "a", "column": "image"}})"), HasSubstr("\"row\" is missing"));
  // Without an id, rows of one file are distinct.
  EXPECT_EQ(parse_manifest(R"({"image": {"path": "a", "column": "i", "row": 3}})", "/")
                ->as<CaptionedImages>()
                .items[0]
                .id,
            "a: row 3");
}

}  // namespace
}  // namespace saccade::lab::data
