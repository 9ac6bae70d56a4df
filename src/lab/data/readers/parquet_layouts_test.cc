// Tests of Winoground's and MTEB's Parquet files, as Arrow has written them (tools/reference/parquet.py).
#include "lab/data/readers/parquet_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/read_dataset.h"
#include "lab/data/readers/manifest.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// As tools/reference/parquet.py has it.
std::string generated_image(int i) {
  std::string content;
  uint32_t state = 77 + static_cast<uint32_t>(i);
  for (int k = 0; k < 20 + 13 * (i % 11); ++k) {
    state = state * 1664525 + 1013904223;
    content += static_cast<char>(state >> 24);
  }
  return content;
}

class ParquetLayouts : public testing::Test {
 protected:
  // Puts a fixture under a name in the folder.
  void put(const std::string& name, const std::string& fixture) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    fs::copy_file(fs::path(test::kSourceDir) / "tests/golden/parquet" / (fixture + ".parquet"), path,
                  fs::copy_options::overwrite_existing);
  }
  // Writes the three configurations of text to image.
  void put_text_to_image() const {
    put("set/corpus/test-00000-of-00001.parquet", "mteb-images");
    put("set/queries/test-00000-of-00001.parquet", "mteb-texts");
    put("set/qrels/test-00000-of-00001.parquet", "mteb-qrels");
  }
  [[nodiscard]] Result<Dataset> read(const std::string& name) const {
    return read_dataset(*parse_dataset_source((folder_.path() / name).string()));
  }
  [[nodiscard]] Error refusal(const std::string& name) const {
    const auto dataset = read(name);
    EXPECT_FALSE(dataset);
    return dataset ? Error{} : dataset.error();
  }
  static void expect_image(const ImageRef& image, int number) {
    const auto content = read_image_bytes(image);
    ASSERT_TRUE(content) << content.error().message;
    EXPECT_EQ(*content, generated_image(number)) << image.name();
  }

  test::TestFolder folder_;
};

TEST_F(ParquetLayouts, WinogroundIsATestOfComposition) {
  put("winoground/data/test-00000-of-00001.parquet", "winoground");
  const auto dataset = read("winoground");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->layout, "parquet");
  ASSERT_NE(dataset->find<CompositionTests>(), nullptr);
  const std::vector<CompositionItem>& items = dataset->as<CompositionTests>().items;
  ASSERT_EQ(items.size(), 3U);
  const std::vector<std::string> kinds = {"Object", "Both", "Relation"};
  for (size_t i = 0; i < 3; ++i) {
    const int number = static_cast<int>(i);
    EXPECT_EQ(items[i].id, std::to_string(i));
    EXPECT_THAT(items[i].captions, ElementsAre(fmt::format("an old person kisses a young person {}", i),
                                               fmt::format("a young person kisses an old person {}", i)));
    EXPECT_EQ(items[i].kind, kinds[i]);
    EXPECT_EQ(items[i].split, "test");
    ASSERT_EQ(items[i].images.size(), 2U);
    expect_image(items[i].images[0], 2 * number);
    expect_image(items[i].images[1], 2 * number + 1);
  }
  // A manifest of it is the same dataset.
  const auto manifest = format_manifest(*dataset, folder_.path());
  ASSERT_TRUE(manifest) << manifest.error().message;
  const auto again = read_dataset(folder_.write("converted.jsonl", *manifest));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->hash, dataset->hash);
  ASSERT_NE(again->find<CompositionTests>(), nullptr);
  EXPECT_EQ(again->as<CompositionTests>().items, items);
}

TEST_F(ParquetLayouts, WinogroundWithoutIdsAndWithNulls) {
  put("test.parquet", "winoground-tag");
  const auto dataset = read("test.parquet");
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_NE(dataset->find<CompositionTests>(), nullptr);
  const std::vector<CompositionItem>& items = dataset->as<CompositionTests>().items;
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0].id, "test/0");
  EXPECT_EQ(items[0].kind, "Adjective-Age");
  put("null.parquet", "winoground-null");
  const Error error = refusal("null.parquet");
  EXPECT_EQ(error.code, ErrorCode::kBadData);
  EXPECT_THAT(error.message, HasSubstr("row 1: column \"image_1\" has no image"));
  // A column that is named for a role makes it a dataset of images and captions, as any other file.
  const auto captioned = read("test.parquet#image-column=image_0,caption-column=caption_1");
  ASSERT_TRUE(captioned) << captioned.error().message;
  ASSERT_NE(captioned->find<CaptionedImages>(), nullptr);
  EXPECT_THAT(captioned->as<CaptionedImages>().items[0].captions,
              ElementsAre("a young person kisses an old person 0"));
}

TEST_F(ParquetLayouts, TextToImageOfMtebKeepsTheWholeGallery) {
  put_text_to_image();
  const auto dataset = read("set");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->layout, "parquet");
  ASSERT_NE(dataset->find<CaptionedImages>(), nullptr);
  const std::vector<DatasetItem>& items = dataset->as<CaptionedImages>().items;
  ASSERT_EQ(items.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(items[i].id, fmt::format("i{}", i));
    EXPECT_EQ(items[i].split, "test");
    expect_image(items[i].image, static_cast<int>(i));
  }
  // Texts in their own order; a score of 0 relates nothing; "an animal" belongs to two images.
  EXPECT_THAT(items[0].captions, ElementsAre("a cat", "two cats", "an animal"));
  EXPECT_THAT(items[1].captions, ElementsAre("a dog", "an animal"));
  EXPECT_THAT(items[2].captions, IsEmpty());
  EXPECT_THAT(items[3].captions, IsEmpty());
  ASSERT_EQ(dataset->excluded.size(), 1U);
  EXPECT_EQ(dataset->excluded[0].count, 1);
  EXPECT_THAT(dataset->excluded[0].examples, ElementsAre("q3"));
  EXPECT_EQ(dataset->files.size(), 3U);
}

TEST_F(ParquetLayouts, ImageToTextOfMtebHasImagesAsQueries) {
  // Names of older data: one split of the corpus, which is called "corpus".
  put("set/corpus/corpus-00000-of-00001.parquet", "mteb-captions");
  put("set/query/test-00000-of-00001.parquet", "mteb-numbered-images");
  put("set/qrels/test-00000-of-00001.parquet", "mteb-numbered-qrels");
  const auto dataset = read("set#split=test");
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_NE(dataset->find<CaptionedImages>(), nullptr);
  const std::vector<DatasetItem>& items = dataset->as<CaptionedImages>().items;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].id, "7");
  EXPECT_THAT(items[0].captions, ElementsAre("two", "three"));
  expect_image(items[0].image, 7);
  EXPECT_EQ(items[1].id, "8");
  EXPECT_THAT(items[1].captions, ElementsAre("one"));
  ASSERT_EQ(dataset->excluded.size(), 1U);  // the query that is not judged
  EXPECT_THAT(dataset->excluded[0].examples, ElementsAre("9"));
}

TEST_F(ParquetLayouts, MtebSplitsAndErrorsAreNamed) {
  put_text_to_image();
  put("set/qrels/train-00000-of-00001.parquet", "mteb-lost-qrels");
  const Error several = refusal("set");
  EXPECT_EQ(several.code, ErrorCode::kUsage);
  EXPECT_THAT(several.message, HasSubstr("qrels of several splits (test, train)"));
  EXPECT_THAT(refusal("set#split=val").message,
              HasSubstr("no split \"val\" of qrels; there are test, train"));
  EXPECT_TRUE(read("set#split=test"));
  EXPECT_THAT(refusal("set#split=train").message, HasSubstr("the corpus has no id \"i9\""));
  put("set/corpus/test-00000-of-00001.parquet", "mteb-both");
  EXPECT_THAT(refusal("set#split=test").message, HasSubstr("id \"i0\" has an image and a text"));
  put("set/corpus/test-00000-of-00001.parquet", "mteb-texts");
  EXPECT_THAT(refusal("set#split=test").message, HasSubstr("queries and corpus are both texts"));
}

}  // namespace
}  // namespace saccade::lab
