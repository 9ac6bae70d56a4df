// Tests of Parquet shards that Arrow has written (tools/reference/parquet.py), compared with the same data in other layouts, with
// Arrow's own reading of them, and of invalid ones.
#include "lab/data/readers/parquet.h"

#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/readers/parquet_columns.h"
#include "lab/data/readers/parquet_image.h"
#include "lab/data/readers/parquet_pages.h"
#include "lab/data/test_read.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::excluded;
using test::TestFolder;
using testing::ElementsAre;
using testing::HasSubstr;

// As tools/reference/parquet.py has them.
constexpr int kCount = 40;
std::string picture(int i) {
  std::string content;
  uint32_t state = 77 + static_cast<uint32_t>(i);
  for (int k = 0; k < 20 + 13 * (i % 11); ++k) {
    state = state * 1664525 + 1013904223;
    content += static_cast<char>(state >> 24);
  }
  return content;
}

fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden/parquet" / (name + ".parquet");
}

// Puts a fixture under a name in the folder.
fs::path put(const TestFolder& folder, const std::string& name, const std::string& fixture) {
  const fs::path path = folder.path() / name;
  fs::create_directories(path.parent_path());
  fs::copy_file(golden(fixture), path, fs::copy_options::overwrite_existing);
  return path;
}

Dataset read(const TestFolder& folder, const std::string& name, const std::string& keys = "") {
  Dataset dataset = test::read(folder, name, keys);
  EXPECT_EQ(dataset.layout, "parquet");
  return dataset;
}

Error error_of(const TestFolder& folder, const std::string& name, const std::string& keys = "") {
  const auto source = parse_dataset_source((folder.path() / name).string() + keys);
  const auto dataset = read_dataset(*source);
  EXPECT_FALSE(dataset);
  return dataset ? Error{} : dataset.error();
}

const std::vector<DatasetItem>& items(const Dataset& dataset) {
  return dataset.as<CaptionedImages>().items;
}

std::vector<std::vector<std::string>> captions(const Dataset& dataset) {
  std::vector<std::vector<std::string>> all;
  for (const DatasetItem& item : items(dataset)) all.push_back(item.captions);
  return all;
}

// 40 images, one or two captions each, as files and a manifest, and in Parquet in all ways of writing it.
class ParquetWritings : public testing::Test {
 protected:
  ParquetWritings() {
    std::string manifest;
    for (int i = 0; i < kCount; ++i) {
      const std::string name = fmt::format("{}.jpg", i);
      folder_.write("files/" + name, picture(i));
      std::vector<std::string> own = {fmt::format("picture {}", i % 7)};
      if (i % 3 == 0) own.push_back(fmt::format("als Bild {} \xc3\xbc", i));
      manifest +=
          Json{{"image", name}, {"captions", own}, {"split", i < 24 ? "train" : "test"}}.dump() + "\n";
    }
    folder_.write("files/all.jsonl", manifest);
    expected_ = read_dataset(folder_.path() / "files/all.jsonl").value();
  }

  void compare(const Dataset& dataset) const {
    ASSERT_EQ(items(dataset).size(), items(expected_).size());
    for (size_t i = 0; i < items(expected_).size(); ++i) {
      const DatasetItem& item = items(dataset)[i];
      EXPECT_EQ(item.captions, items(expected_)[i].captions);
      const auto content = read_image_bytes(item.image);
      ASSERT_TRUE(content) << content.error().message;
      EXPECT_EQ(*content, picture(static_cast<int>(i))) << item.image.name();
    }
  }

  TestFolder folder_;
  Dataset expected_;
};

TEST_F(ParquetWritings, AllAgreeWithTheFiles) {
  std::vector<std::string> fixtures = {"writing-no-statistics"};
  for (const char* codec : {"none", "snappy", "zstd", "gzip"}) {
    for (const char* dictionary : {"plain", "dictionary"}) {
      for (const char* version : {"1", "2"})
        fixtures.push_back(fmt::format("writing-{}-{}-{}", codec, dictionary, version));
    }
  }
  for (const std::string& fixture : fixtures) {
    SCOPED_TRACE(fixture);
    put(folder_, "x.parquet", fixture);
    compare(read(folder_, "x.parquet"));
  }
}

TEST_F(ParquetWritings, WhatIsNotReadIsNamed) {
  put(folder_, "x.parquet", "refused-brotli");
  const Error brotli = error_of(folder_, "x.parquet");
  EXPECT_EQ(brotli.code, ErrorCode::kUnsupported);
  EXPECT_THAT(brotli.message, HasSubstr("packed with Brotli; none, Snappy, gzip and Zstandard are read"));
  put(folder_, "x.parquet", "refused-delta");
  const Error delta = error_of(folder_, "x.parquet");
  EXPECT_EQ(delta.code, ErrorCode::kUnsupported);
  EXPECT_THAT(delta.message, HasSubstr("row group 0: column \"captions\": the encoding DELTA_BYTE_ARRAY"));
}

TEST_F(ParquetWritings, ShardsAndSplits) {
  put(folder_, "hub/data/train-00000-of-00002.parquet", "shard-train-0");
  put(folder_, "hub/data/train-00001-of-00002.parquet", "shard-train-1");
  put(folder_, "hub/data/test-00000-of-00001.parquet", "shard-test");
  const Dataset dataset = read(folder_, "hub");
  EXPECT_EQ(dataset.split_sizes, expected_.split_sizes);
  EXPECT_EQ(dataset.files.size(), 3U);
  EXPECT_EQ(items(dataset)[0].id, "test-00000-of-00001/0");
  const DatasetItem& one = items(dataset)[16 + 11];
  EXPECT_EQ(one.id, "train-00001-of-00002/1");
  EXPECT_EQ(one.image.name(),
            (folder_.path() / "hub/data/train-00001-of-00002.parquet").string() + ": row 1 of image");
  EXPECT_EQ(read_image_bytes(one.image).value(), picture(11));
  const Dataset test = read(folder_, "hub", "#split=test");
  ASSERT_EQ(items(test).size(), 16U);
  EXPECT_EQ(read_image_bytes(items(test)[15].image).value(), picture(39));
  // A single file has the same ids as in its folder.
  EXPECT_EQ(items(read(folder_, "hub/data/test-00000-of-00001.parquet")), items(test));
  fs::remove(folder_.path() / "hub/data/train-00000-of-00002.parquet");
  EXPECT_THAT(error_of(folder_, "hub").message, HasSubstr("has 2 shards by their names, 1 are there"));
}

TEST_F(ParquetWritings, ManyThreadsReadOneFile) {
  put(folder_, "x.parquet", "writing-zstd-plain-1");
  const Dataset dataset = read(folder_, "x.parquet");
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCount; ++i) {
        const auto content = read_image_bytes(items(dataset)[static_cast<size_t>(i)].image);
        right[t] += content && *content == picture(i) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(kCount));
}

// Every kind of column that has a role, against what Arrow reads.
TEST(ParquetCells, AreThoseThatArrowReads) {
  const Json expected = read_json(fs::path(test::kSourceDir) / "tests/golden/parquet/expected.json").value();
  for (const char* fixture : {"cells-plain", "cells-dictionary", "cells-second"}) {
    SCOPED_TRACE(fixture);
    const auto file = data::PieceFile::open(golden(fixture));
    ASSERT_TRUE(file);
    const auto footer = data::read_parquet_footer(*file);
    ASSERT_TRUE(footer) << footer.error().message;
    EXPECT_EQ(footer->groups.size(), 3U);
    for (const data::ParquetField& field : footer->root.children) {
      SCOPED_TRACE(field.name);
      const data::ParquetField* leaf = &field;
      while (!leaf->is_leaf()) leaf = &leaf->children.front();
      EXPECT_EQ(leaf->max_definition > 0, field.name != "required");
      Json read = Json::array();
      for (size_t group = 0; group < footer->groups.size(); ++group) {
        const auto texts = data::read_parquet_texts(*file, *footer, group, leaf->leaf);
        ASSERT_TRUE(texts) << texts.error().message;
        int64_t bytes = 0;
        for (const auto& value : texts->values) bytes += std::ssize(value.value_or(std::string()));
        EXPECT_EQ(texts->bytes,
                  bytes + std::ssize(texts->values) * int64_t{sizeof(std::optional<std::string>)});
        if (bytes > 0) {
          const auto less = data::read_parquet_texts(*file, *footer, group, leaf->leaf, texts->bytes - 1);
          ASSERT_FALSE(less);
          EXPECT_EQ(less.error().code, ErrorCode::kLimit);
          data::ParquetFooter fewer = *footer;
          --fewer.groups[group].rows;
          EXPECT_EQ(data::read_parquet_texts(*file, fewer, group, leaf->leaf).error().code,
                    ErrorCode::kBadData);
        }
        EXPECT_EQ(texts->listed, field.name == "lists");
        for (size_t row = 0; row + 1 < texts->begin.size(); ++row) {
          Json list = Json::array();
          for (auto v = texts->begin[row]; v < texts->begin[row + 1]; ++v) {
            const auto& value = texts->values[static_cast<size_t>(v)];
            list.push_back(value ? Json(*value) : Json());
          }
          read.push_back(texts->listed ? list : list.at(0));
        }
      }
      // Without elements, no list and an empty one are the same here.
      Json wanted = expected[field.name];
      if (field.name == "lists") {
        for (Json& one : wanted) one = one.is_null() ? Json::array() : one;
      }
      EXPECT_EQ(read, wanted);
    }
  }
}

TEST(Parquet, CaptionsOfEverySort) {
  const TestFolder folder;
  const auto captions_of = [&](const std::string& fixture) {
    put(folder, "x.parquet", "captions-" + fixture);
    return captions(read(folder, "x.parquet"));
  };
  const std::vector<std::string> a = {"one"};
  const std::vector<std::string> b = {"two", "zwei"};
  const std::vector<std::string> c = {"three"};
  EXPECT_THAT(captions_of("text"), ElementsAre(a, b, c));
  EXPECT_THAT(captions_of("large"), ElementsAre(a, b, c));
  EXPECT_THAT(captions_of("dictionary"), ElementsAre(a, a, c));
  EXPECT_THAT(captions_of("bytes"), ElementsAre(a, a, c));
  EXPECT_THAT(captions_of("list"), ElementsAre(a, b, c));
  EXPECT_THAT(captions_of("large-list"), ElementsAre(a, b, c));
  // Among the fields of structs, only the one with texts is read.
  EXPECT_THAT(captions_of("structs"), ElementsAre(a, b, c));
  EXPECT_THAT(captions_of("struct-of-list"), ElementsAre(a, b, c));
  // A text in a list stays a text, even if it looks like a list.
  EXPECT_THAT(captions_of("listed-json")[0], ElementsAre(R"(["x"])"));
  EXPECT_THAT(captions_of("numbered"),
              ElementsAre(ElementsAre("a", "d"), ElementsAre("b"), ElementsAre("c", "f")));
}

TEST(Parquet, PicturesOfEverySort) {
  const TestFolder folder;
  const auto contents = [&](const std::string& fixture, const std::string& keys = "") {
    put(folder, "x.parquet", "pictures-" + fixture);
    std::vector<std::string> all;
    const Dataset dataset = read(folder, "x.parquet", keys);
    for (const DatasetItem& item : items(dataset)) all.push_back(read_image_bytes(item.image).value());
    return all;
  };
  EXPECT_THAT(contents("bytes"), ElementsAre("A", "B"));
  EXPECT_THAT(contents("struct"), ElementsAre("A", "B"));
  EXPECT_THAT(contents("two"), ElementsAre("C", "D"));
  EXPECT_THAT(contents("named", "#image-column=back"), ElementsAre("C", "D"));
  EXPECT_THAT(error_of(folder, "x.parquet").message,
              HasSubstr("several columns of images (front, back): name one with image-column=NAME"));
  EXPECT_THAT(contents("alone"), ElementsAre("A", "B"));
  // The features tell which of two columns of bytes is the image.
  EXPECT_THAT(contents("features"), ElementsAre("C", "D"));
  EXPECT_THAT(contents("no-features"), ElementsAre("A", "B"));
  EXPECT_THAT(contents("bad-features"), ElementsAre("A", "B"));
}

TEST(Parquet, PicturesInFiles) {
  const TestFolder folder;
  folder.write("hub/train/1.jpg", "one");
  folder.write("hub/test/1.jpg", "eins");
  put(folder, "hub/train/metadata.parquet", "files-train");
  put(folder, "hub/test/metadata.parquet", "files-test");
  const Dataset dataset = read(folder, "hub");
  ASSERT_EQ(items(dataset).size(), 2U);
  EXPECT_EQ(items(dataset)[0].id, "test/1.jpg");
  EXPECT_EQ(items(dataset)[0].split, "test");
  EXPECT_EQ(read_image_bytes(items(dataset)[0].image).value(), "eins");
  EXPECT_EQ(items(dataset)[1].image.path, folder.path() / "hub/train/1.jpg");
  EXPECT_THAT(items(dataset)[1].captions, ElementsAre("a", "c"));
  EXPECT_THAT(excluded(dataset),
              ElementsAre("1 images that are web addresses, not files (http://example.org/2.jpg)",
                          "1 captions without an image (train/metadata/3)"));
  // Shards in data/ name files in images/, beside that folder.
  folder.write("apart/images/1.jpg", "uno");
  put(folder, "apart/data/train-00000-of-00001.parquet", "files-train");
  const Dataset apart = read(folder, "apart");
  ASSERT_EQ(items(apart).size(), 1U);
  EXPECT_EQ(items(apart)[0].image.path, folder.path() / "apart/images/1.jpg");
  EXPECT_EQ(read_image_bytes(items(apart)[0].image).value(), "uno");
  // Images in the file and beside it, in one column.
  folder.write("images/x.png", "X");
  put(folder, "data/train-00000-of-00001.parquet", "files-mixed");
  const std::string place = "images=" + (folder.path() / "images").string();
  for (const std::string& keys : {"#" + place, "#missing=skip," + place}) {
    const Dataset mixed = read(folder, "data/train-00000-of-00001.parquet", keys);
    ASSERT_EQ(items(mixed).size(), 2U);
    EXPECT_EQ(read_image_bytes(items(mixed)[0].image).value(), "X");
    EXPECT_EQ(read_image_bytes(items(mixed)[1].image).value(), "B");
    EXPECT_EQ(excluded(mixed).size(), 1U);
  }
}

TEST(Parquet, IdsSplitsAndGroups) {
  const TestFolder folder;
  put(folder, "train.parquet", "ids");
  const Dataset plain = read(folder, "train.parquet");
  EXPECT_EQ(plain.split_sizes, (std::map<std::string, int64_t>{{"restval", 2}, {"train", 1}}));
  EXPECT_EQ(items(plain)[2].id, "train/2");
  const Dataset named = read(folder, "train.parquet", "#id-column=cocoid,group-column=show");
  EXPECT_THAT(captions(named), ElementsAre(ElementsAre("one", "uno"), ElementsAre("three")));
  EXPECT_EQ(items(named)[0].id, "7");
  EXPECT_EQ(items(named)[1].group, "q");
  EXPECT_EQ(read_image_bytes(items(named)[1].image).value(), "C");
  EXPECT_EQ(items(read(folder, "train.parquet", "#split-column=caption"))[1].split, "uno");
  put(folder, "x.parquet", "ids-other-file");
  EXPECT_THAT(error_of(folder, "x.parquet", "#id-column=cocoid").message,
              HasSubstr("x.parquet: row group 0: row 1: id \"7\" has image \"b\", split \"t\" here, and "
                        "\"a\", \"t\" before"));
  put(folder, "x.parquet", "ids-other-split");
  EXPECT_EQ(error_of(folder, "x.parquet", "#id-column=cocoid").code, ErrorCode::kBadData);
}

TEST(Parquet, NullsAreCounted) {
  const TestFolder folder;
  for (const char* fixture : {"nulls-with-statistics", "nulls-without-statistics"}) {
    put(folder, "x.parquet", fixture);
    const Dataset dataset = read(folder, "x.parquet");
    EXPECT_THAT(captions(dataset), ElementsAre(ElementsAre("one"), ElementsAre("four")));
    EXPECT_THAT(excluded(dataset), ElementsAre("1 captions without an image (x/1)", "1 empty captions (x/3)",
                                               "2 images without captions (x/2)"));
    EXPECT_EQ(read_image_bytes(items(dataset)[1].image).value(), "D");
    const auto null = read_image_bytes(data::parquet_picture(folder.path() / "x.parquet", "image", 1));
    ASSERT_FALSE(null);
    EXPECT_THAT(null.error().message, HasSubstr("x.parquet: row 1 of image: null, no image"));
  }
  put(folder, "y.parquet", "nulls-key");
  EXPECT_THAT(error_of(folder, "y.parquet", "#id-column=key").message,
              HasSubstr("y.parquet: row group 1: row 3: column \"key\" is null, which is no id"));
}

TEST(Parquet, ErrorsNameTheColumnAndItsType) {
  const TestFolder folder;
  const auto message = [&](const std::string& fixture, const std::string& keys = "") {
    put(folder, "x.parquet", fixture);
    const Error error = error_of(folder, "x.parquet", keys);
    EXPECT_THAT(error.message, HasSubstr("x.parquet: "));
    return error.message;
  };
  EXPECT_THAT(message("error-image"),
              HasSubstr("column \"image\" is double, expected struct<bytes: binary, path: string>"));
  EXPECT_THAT(message("error-text"),
              HasSubstr("column \"text\" is double, expected a string, a list of strings"));
  EXPECT_THAT(message("error-struct"), HasSubstr("column \"text\" is struct<x: double, y: double>"));
  EXPECT_THAT(message("error-no-caption"),
              HasSubstr("no caption column is known among image, words; name it with caption-column=NAME"));
  EXPECT_THAT(message("error-no-image"), HasSubstr("no image column is known among where, text"));
  EXPECT_THAT(message("limits", "#caption-column=nope"),
              HasSubstr("no column \"nope\"; there are image, text"));
  EXPECT_THAT(message("error-id", "#id-column=n"),
              HasSubstr("column \"n\" is double, expected a string or an integer"));
  EXPECT_THAT(message("error-utf8"),
              HasSubstr("row group 0: row 1: column \"text\": the caption is not UTF-8"));
  folder.write("x.parquet", "PAR1 is all there is");
  EXPECT_EQ(error_of(folder, "x.parquet").code, ErrorCode::kBadData);
  folder.write("x.parquet", "");
  EXPECT_EQ(error_of(folder, "x.parquet").code, ErrorCode::kBadData);
}

TEST(Parquet, PicturesWithinLimits) {
  const TestFolder folder;
  const fs::path path = put(folder, "x.parquet", "limits");
  const auto error = [&](const ImageRef& image, int64_t max_bytes = 100) {
    const auto content = read_image_bytes(image, max_bytes);
    EXPECT_FALSE(content);
    return content ? Error{} : content.error();
  };
  EXPECT_EQ(read_image_bytes(data::parquet_picture(path, "image", 0), 4).value(), "AAAA");
  EXPECT_EQ(error(data::parquet_picture(path, "image", 0), 3).code, ErrorCode::kLimit);
  EXPECT_THAT(error(data::parquet_picture(path, "image", 2)).message,
              HasSubstr("row 2 of image: the file has 2 rows"));
  EXPECT_EQ(error(data::parquet_picture(path, "image", -1)).code, ErrorCode::kBadData);
  EXPECT_THAT(error(data::parquet_picture(path, "photo", 0)).message,
              HasSubstr("no column \"photo\" of bytes"));
  EXPECT_EQ(error(data::parquet_picture(folder.path() / "y.parquet", "image", 0)).code, ErrorCode::kNotFound);
}

// Any truncation or flipped byte gives an error or an answer, never a crash.
TEST(Parquet, CutAndCorrupted) {
  const TestFolder folder;
  const std::string whole = read_file(golden("damage")).value();
  const fs::path other = folder.path() / "other.parquet";
  const auto try_all = [&](const std::string& content) {
    folder.write("other.parquet", content);
    int errors = 0;
    if (!read_dataset(other)) ++errors;
    for (const int row : {0, 4}) {
      const auto bytes = read_image_bytes(data::parquet_picture(other, "image", row), 10000);
      if (!bytes || *bytes != picture(row)) ++errors;
    }
    return errors;
  };
  EXPECT_EQ(try_all(whole), 0);
  for (size_t length = 0; length < whole.size(); length += length + 100 < whole.size() ? 19 : 1) {
    ASSERT_EQ(try_all(whole.substr(0, length)), 3) << length;
  }
  int noticed = 0;
  for (size_t at = 0; at < whole.size(); at += 3) {
    constexpr unsigned char kFlips[] = {0x01, 0x80, 0xff};
    std::string content = whole;
    content[at] = static_cast<char>(static_cast<unsigned char>(content[at]) ^ kFlips[at / 3 % 3]);
    noticed += try_all(content) > 0 ? 1 : 0;
  }
  EXPECT_GT(noticed, 200);
}

// Another program truncates the file while it is read. With a mapping, this would end the process.
TEST(Parquet, AFileThatShrinksIsAnError) {
  const TestFolder folder;
  const fs::path path = put(folder, "x.parquet", "large");
  const auto file = data::PieceFile::open(path);
  ASSERT_TRUE(file);
  const auto footer = data::read_parquet_footer(*file);
  ASSERT_TRUE(footer) << footer.error().message;
  fs::resize_file(path, 2000);
  const auto texts = data::read_parquet_texts(*file, *footer, 0, 0);
  ASSERT_FALSE(texts);
  EXPECT_EQ(texts.error().code, ErrorCode::kIo);
}

TEST(ParquetRuns, AreReadToTheBit) {
  // A run of 5 times 3, then 8 values of 3 bits in one group: Arrow's own example, 0 to 7.
  const std::string bytes("\x0a\x03\x03\x88\xc6\xfa", 6);
  const auto values = data::read_runs(bytes, 3, 13);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_THAT(*values, ElementsAre(3, 3, 3, 3, 3, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_FALSE(data::read_runs(bytes, 3, 14));
  EXPECT_FALSE(data::read_runs(bytes.substr(0, 4), 3, 13));
  EXPECT_FALSE(data::read_runs(std::string_view("\x00\x00", 2), 3, 1));
  EXPECT_FALSE(data::read_runs(bytes, 33, 1));
  EXPECT_THAT(data::read_runs(std::string_view("\x06", 1), 0, 3).value(), ElementsAre(0, 0, 0));
}

TEST(ParquetPages, UnpackToExactlyTheirBytes) {
  for (const char* codec : {"none", "snappy", "zstd", "gzip"}) {
    SCOPED_TRACE(codec);
    const auto file = data::PieceFile::open(golden(fmt::format("writing-{}-plain-1", codec)));
    ASSERT_TRUE(file);
    const auto footer = data::read_parquet_footer(*file);
    ASSERT_TRUE(footer) << footer.error().message;
    const data::ParquetChunk& chunk = footer->groups[0].columns[0];
    std::string bytes(static_cast<size_t>(chunk.bytes), '\0');
    ASSERT_TRUE(file->read(chunk.begin, bytes));
    const auto header = data::parse_page_header(bytes);
    ASSERT_TRUE(header && *header);
    const auto at = static_cast<size_t>((*header)->header_bytes);
    const std::string packed = bytes.substr(at, static_cast<size_t>((*header)->bytes));
    const int64_t size = (*header)->unpacked_bytes;
    const auto whole = data::unpack_page(chunk.codec, packed, size);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(std::ssize(*whole), size);
    for (const int64_t other : {int64_t{0}, size / 2, size - 1, size + 1}) {
      const auto page = data::unpack_page(chunk.codec, packed, other);
      ASSERT_FALSE(page) << other;
      EXPECT_EQ(page.error().code, ErrorCode::kBadData);
    }
    EXPECT_FALSE(data::unpack_page(chunk.codec, packed.substr(0, packed.size() / 2), size));
    EXPECT_EQ(data::unpack_page(chunk.codec, "", 0).value(), "");
    EXPECT_FALSE(data::unpack_page(chunk.codec, "", 1));
  }
}

// A page of version 2 whose values are all null may have no bytes behind its levels, whatever its encoding.
TEST(ParquetPages, OfNullsAloneHaveNoValues) {
  const std::string nulls("\x06\x00", 2);         // levels: a run of 3 times 0
  const std::string none("\x15\x04\x15\x04", 4);  // 2 bytes, of the levels; packed as many
  for (const char encoding : {0, 3, 8}) {         // PLAIN, RLE, RLE_DICTIONARY
    SCOPED_TRACE(static_cast<int>(encoding));
    const std::string counts("\x5c\x15\x06\x15\x06\x15\x06", 7);  // 3 values, 3 nulls, 3 rows
    const std::string levels("\x15\x04\x15\x00\x00\x00", 6);  // of 2 bytes and none; the ends of both structs
    const std::string header = std::string("\x15\x06", 2) + none + counts + std::string("\x15", 1) +
                               std::string(1, static_cast<char>(2 * encoding)) + levels;
    const TestFolder folder;
    const auto file = data::PieceFile::open(folder.write("pages", header + nulls));
    ASSERT_TRUE(file) << file.error().message;
    data::ParquetField leaf;
    leaf.type = data::ParquetType::kBoolean;
    leaf.truth = true;
    leaf.max_definition = 1;
    data::ParquetChunk chunk;
    chunk.values = 3;
    chunk.bytes = std::ssize(header + nulls);
    data::ParquetPages pages(*file, leaf, chunk);
    const auto more = pages.next();
    ASSERT_TRUE(more) << more.error().message;
    ASSERT_TRUE(*more);
    const auto page = pages.read(true);
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_EQ(page->entries, 3);
    EXPECT_THAT(page->definition, ElementsAre(0U, 0U, 0U));
    EXPECT_TRUE(page->numbers.empty());
  }
}

TEST(ParquetHeaders, UnknownFieldsArePassedOver) {
  // A dictionary's page of 1 value in 5 bytes. In front of the end: a map of 2 bools by whole numbers, a list of 2 bools.
  const std::string known("\x15\x04\x15\x0a\x15\x0a\x4c\x15\x02\x15\x00\x00", 12);
  const std::string map("\x2b\x02\x51\x02\x01\x04\x02", 7);
  const std::string list("\x19\x21\x01\x02", 4);
  const std::string bytes = known + map + list + std::string(1, '\0');
  const auto header = data::parse_page_header(bytes + "pages");
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_TRUE(*header);
  EXPECT_EQ((*header)->kind, data::ParquetPageHeader::Kind::kDictionary);
  EXPECT_EQ((*header)->values, 1);
  EXPECT_EQ((*header)->header_bytes, std::ssize(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = data::parse_page_header(bytes.substr(0, size));
    EXPECT_TRUE(cut && !*cut) << size;
  }
}

TEST(Snappy, CopiesReachIntoWhatTheyWrite) {
  // "ab", then a copy of 6 bytes from 2 back: "abababab".
  const std::string bytes(
      "\x08\x04"
      "ab\x09\x02",
      6);
  EXPECT_EQ(data::unpack_snappy(bytes, 8).value(), "abababab");
  EXPECT_FALSE(data::unpack_snappy(bytes, 9));
  EXPECT_FALSE(data::unpack_snappy(bytes.substr(0, 5), 8));
  EXPECT_FALSE(data::unpack_snappy(std::string_view("\x08\x04"
                                                    "ab\x09\x03",
                                                    6),
                                   8));  // from 3 back
  EXPECT_FALSE(data::unpack_snappy(std::string_view("\xff\xff\xff\xff\x0f\x00", 6), (int64_t{1} << 32) - 1));
}

}  // namespace
}  // namespace saccade::lab
