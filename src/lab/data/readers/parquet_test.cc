// Tests of Parquet shards written by Arrow itself, compared with the same data in other layouts, and of
// invalid ones.
#include "lab/data/readers/parquet.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/compression.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <parquet/arrow/writer.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/read_dataset.h"
#include "lab/data/readers/manifest.h"
#include "lab/data/readers/parquet_file.h"
#include "lab/data/readers/parquet_image.h"
#include "saccade/core/json.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::TestFolder;
using testing::ElementsAre;
using testing::HasSubstr;

using Text = std::optional<std::string>;
using Array = std::shared_ptr<arrow::Array>;

template <typename Builder>
Array finish(Builder& builder) {
  Array array;
  PARQUET_THROW_NOT_OK(builder.Finish(&array));
  return array;
}

template <typename Builder = arrow::StringBuilder>
Array texts(const std::vector<Text>& values) {
  Builder builder;
  for (const Text& value : values) {
    PARQUET_THROW_NOT_OK(value ? builder.Append(*value) : builder.AppendNull());
  }
  return finish(builder);
}

Array bytes(const std::vector<Text>& values) {
  return texts<arrow::BinaryBuilder>(values);
}

Array structs(const std::vector<std::pair<std::string, Array>>& fields) {
  std::vector<std::string> names;
  std::vector<Array> arrays;
  for (const auto& [name, array] : fields) {
    names.push_back(name);
    arrays.push_back(array);
  }
  return arrow::StructArray::Make(arrays, names).ValueOrDie();
}

// Returns lists of `sizes` over values, -1 for a null.
Array lists(const std::vector<int>& sizes, const Array& values) {
  arrow::Int32Builder offsets;
  int at = 0;
  for (const int size : sizes) {
    PARQUET_THROW_NOT_OK(size < 0 ? offsets.AppendNull() : offsets.Append(at));
    at += std::max(size, 0);
  }
  PARQUET_THROW_NOT_OK(offsets.Append(at));
  return arrow::ListArray::FromArrays(*finish(offsets), *values).ValueOrDie();
}

using Columns = std::vector<std::pair<std::string, Array>>;

struct Writing {
  arrow::Compression::type codec = arrow::Compression::UNCOMPRESSED;
  bool dictionary = false;
  bool second_pages = false;  // data pages of version 2
  bool statistics = true;
  int64_t group_rows = 1 << 20;
  int64_t page_bytes = 1 << 20;
  std::string features;  // the "huggingface" metadata
};

fs::path write(const fs::path& path, const Columns& columns, const Writing& how = {}) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  auto schema = arrow::schema(fields);
  if (!how.features.empty()) {
    schema = schema->WithMetadata(arrow::key_value_metadata({"huggingface"}, {how.features}));
  }
  const auto table = arrow::Table::Make(schema, arrays);
  parquet::WriterProperties::Builder properties;
  properties.compression(how.codec)->data_pagesize(how.page_bytes)->write_batch_size(2);
  properties.max_row_group_length(how.group_rows);
  how.dictionary ? properties.enable_dictionary() : properties.disable_dictionary();
  how.statistics ? properties.enable_statistics() : properties.disable_statistics();
  if (how.second_pages) properties.data_page_version(parquet::ParquetDataPageVersion::V2);
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  fs::create_directories(path.parent_path());
  const auto file = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  PARQUET_THROW_NOT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file, how.group_rows,
                                                  properties.build(), arrow_properties));
  PARQUET_THROW_NOT_OK(file->Close());
  return path;
}

// Returns bytes that compress poorly, each time of another length.
std::string picture(int i) {
  std::string content;
  uint32_t state = 77 + static_cast<uint32_t>(i);
  for (int k = 0; k < 60 + 37 * (i % 11); ++k) {
    state = state * 1664525 + 1013904223;
    content += static_cast<char>(state >> 24);
  }
  return content;
}

std::vector<Text> pictures(int count) {
  std::vector<Text> all;
  for (int i = 0; i < count; ++i) all.push_back(picture(i));
  return all;
}

Array image_structs(const std::vector<Text>& contents, const std::vector<Text>& paths) {
  return structs({{"bytes", bytes(contents)}, {"path", texts(paths)}});
}

// Reads the dataset, and checks that conversion to a manifest and back changes nothing.
Dataset read(const TestFolder& folder, const std::string& name, const std::string& keys = "") {
  const auto source = parse_dataset_source((folder.path() / name).string() + keys);
  auto dataset = read_dataset(*source);
  EXPECT_TRUE(dataset) << dataset.error().message;
  if (!dataset) return {};
  EXPECT_EQ(dataset->layout, "parquet");
  const auto manifest = format_manifest(*dataset, folder.path());
  const auto again = read_dataset(folder.write("converted.jsonl", manifest.value()));
  fs::remove(folder.path() / "converted.jsonl");
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->as<CaptionedImages>().items, dataset->as<CaptionedImages>().items);
  EXPECT_EQ(again->hash, dataset->hash);
  return *std::move(dataset);
}

Error error_of(const TestFolder& folder, const std::string& name, const std::string& keys = "") {
  const auto source = parse_dataset_source((folder.path() / name).string() + keys);
  const auto dataset = read_dataset(*source);
  EXPECT_FALSE(dataset);
  return dataset ? Error{} : dataset.error();
}

std::vector<std::vector<std::string>> captions(const Dataset& dataset) {
  std::vector<std::vector<std::string>> all;
  for (const DatasetItem& item : dataset.as<CaptionedImages>().items) all.push_back(item.captions);
  return all;
}

std::vector<std::string> excluded(const Dataset& dataset) {
  std::vector<std::string> all;
  for (const Exclusion& exclusion : dataset.excluded) {
    all.push_back(fmt::format("{} {} ({})", exclusion.count, exclusion.reason, exclusion.examples.front()));
  }
  return all;
}

// 100 images, one or two captions each, as files and a manifest, and in Parquet in all ways of writing it.
class ParquetWritings : public testing::Test {
 protected:
  static constexpr int kCount = 100;

  ParquetWritings() {
    std::string manifest;
    std::vector<Text> all;
    for (int i = 0; i < kCount; ++i) {
      const std::string name = fmt::format("{}.jpg", i);
      folder_.write("files/" + name, picture(i));
      std::vector<std::string> captions = {fmt::format("picture {}", i % 7)};
      if (i % 3 == 0) captions.push_back(fmt::format("als Bild {} \xc3\xbc", i));
      sizes_.push_back(static_cast<int>(captions.size()));
      for (const std::string& caption : captions) all.emplace_back(caption);
      paths_.emplace_back(name);
      manifest +=
          Json{{"image", name}, {"captions", captions}, {"split", i < 60 ? "train" : "test"}}.dump() + "\n";
    }
    captions_ = texts(all);
    folder_.write("files/all.jsonl", manifest);
    expected_ = read_dataset(folder_.path() / "files/all.jsonl").value();
  }

  void compare(const Dataset& dataset) const {
    ASSERT_EQ(dataset.as<CaptionedImages>().items.size(), expected_.as<CaptionedImages>().items.size());
    for (size_t i = 0; i < expected_.as<CaptionedImages>().items.size(); ++i) {
      const DatasetItem& item = dataset.as<CaptionedImages>().items[i];
      EXPECT_EQ(item.captions, expected_.as<CaptionedImages>().items[i].captions);
      const auto content = read_image_bytes(item.image);
      ASSERT_TRUE(content) << content.error().message;
      EXPECT_EQ(*content, read_image_bytes(expected_.as<CaptionedImages>().items[i].image).value())
          << item.image.name();
    }
  }

  TestFolder folder_;
  std::vector<int> sizes_;
  std::vector<Text> paths_;
  Array captions_;
  Dataset expected_;
};

TEST_F(ParquetWritings, AllAgreeWithTheFiles) {
  const Array images = image_structs(pictures(kCount), paths_);
  const Columns columns = {{"image", images}, {"captions", lists(sizes_, captions_)}};
  int codecs = 0;
  for (const auto codec :
       {arrow::Compression::UNCOMPRESSED, arrow::Compression::SNAPPY, arrow::Compression::ZSTD,
        arrow::Compression::GZIP, arrow::Compression::BROTLI, arrow::Compression::LZ4}) {
    if (!arrow::util::Codec::IsAvailable(codec)) continue;
    ++codecs;
    for (const bool dictionary : {false, true}) {
      for (const bool second : {false, true}) {
        SCOPED_TRACE(
            fmt::format("codec {} dictionary {} second {}", static_cast<int>(codec), dictionary, second));
        // Uses row groups of 23, and pages of a few rows.
        write(folder_.path() / "x.parquet", columns,
              {.codec = codec,
               .dictionary = dictionary,
               .second_pages = second,
               .group_rows = 23,
               .page_bytes = 700,
               .features = {}});
        compare(read(folder_, "x.parquet"));
      }
    }
  }
  EXPECT_GE(codecs, 3);
  write(folder_.path() / "x.parquet", columns,
        {.statistics = false, .group_rows = 23, .page_bytes = 700, .features = {}});
  compare(read(folder_, "x.parquet"));
}

TEST_F(ParquetWritings, ShardsAndSplits) {
  const Array images = image_structs(pictures(kCount), paths_);
  const Array all = lists(sizes_, captions_);
  const auto shard = [&](const char* name, int begin, int count) {
    write(folder_.path() / name,
          {{"image", images->Slice(begin, count)}, {"captions", all->Slice(begin, count)}},
          {.group_rows = 7, .features = {}});
  };
  shard("hub/data/train-00000-of-00002.parquet", 0, 25);
  shard("hub/data/train-00001-of-00002.parquet", 25, 35);
  shard("hub/data/test-00000-of-00001.parquet", 60, 40);
  const Dataset dataset = read(folder_, "hub");
  EXPECT_EQ(dataset.split_sizes, expected_.split_sizes);
  EXPECT_EQ(dataset.files.size(), 3U);
  EXPECT_EQ(dataset.as<CaptionedImages>().items[0].id, "test-00000-of-00001/0");
  EXPECT_EQ(dataset.as<CaptionedImages>().items[40 + 26].id, "train-00001-of-00002/1");
  EXPECT_EQ(dataset.as<CaptionedImages>().items[40 + 26].image.name(),
            (folder_.path() / "hub/data/train-00001-of-00002.parquet").string() + ": row 1 of image");
  EXPECT_EQ(read_image_bytes(dataset.as<CaptionedImages>().items[40 + 26].image).value(), picture(26));
  const Dataset test = read(folder_, "hub", "#split=test");
  ASSERT_EQ(test.as<CaptionedImages>().items.size(), 40U);
  EXPECT_EQ(read_image_bytes(test.as<CaptionedImages>().items[39].image).value(), picture(99));
  // A single file has the same ids as in its folder.
  EXPECT_EQ(read(folder_, "hub/data/test-00000-of-00001.parquet").as<CaptionedImages>().items,
            test.as<CaptionedImages>().items);
  fs::remove(folder_.path() / "hub/data/train-00000-of-00002.parquet");
  EXPECT_THAT(error_of(folder_, "hub").message, HasSubstr("has 2 shards by their names, 1 are there"));
}

TEST_F(ParquetWritings, ManyThreadsReadOneFile) {
  write(folder_.path() / "x.parquet",
        {{"image", image_structs(pictures(kCount), paths_)}, {"captions", lists(sizes_, captions_)}},
        {.codec = arrow::Compression::ZSTD, .group_rows = 40, .page_bytes = 700, .features = {}});
  const Dataset dataset = read(folder_, "x.parquet");
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCount; ++i) {
        const auto content =
            read_image_bytes(dataset.as<CaptionedImages>().items[static_cast<size_t>(i)].image);
        right[t] += content && *content == picture(i) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(kCount));
}

TEST(Parquet, CaptionsOfEverySort) {
  const TestFolder folder;
  const Array images = image_structs({"A", "B", "C"}, {"a.jpg", "b.jpg", "c.jpg"});
  const auto captions_of = [&](const std::string& column, const Array& array) {
    write(folder.path() / "x.parquet", {{"image", images}, {"number", array}, {column, array}});
    return captions(read(folder, "x.parquet"));
  };
  const std::vector<std::string> a = {"one"};
  const std::vector<std::string> b = {"two", "zwei"};
  const std::vector<std::string> c = {"three"};
  const std::vector<Text> all = {"one", "two", "zwei", "three"};
  EXPECT_THAT(captions_of("text", texts({"one", R"(["two", "zwei"])", "three"})), ElementsAre(a, b, c));
  EXPECT_THAT(
      captions_of("Caption", texts<arrow::LargeStringBuilder>({"one", R"(["two", "zwei"])", "three"})),
      ElementsAre(a, b, c));
  EXPECT_THAT(captions_of("raw", texts<arrow::StringViewBuilder>(
                                     {"one", "a text longer than a view holds", "three"}))[1],
              ElementsAre("a text longer than a view holds"));
  EXPECT_THAT(captions_of("text", texts<arrow::StringDictionary32Builder>({"one", "one", "three"})),
              ElementsAre(a, a, c));
  EXPECT_THAT(captions_of("caption", bytes({"one", "one", "three"})), ElementsAre(a, a, c));
  EXPECT_THAT(captions_of("captions", lists({1, 2, 1}, texts(all))), ElementsAre(a, b, c));
  // Among the fields of structs, only the one with texts is read.
  const Array sentences = structs({{"tokens", lists({0, 1, 0, 2}, texts({"x", "y", "z"}))},
                                   {"raw", texts(all)},
                                   {"sentid", texts({"7", "8", "9", "10"})}});
  EXPECT_THAT(captions_of("sentences", lists({1, 2, 1}, sentences)), ElementsAre(a, b, c));
  EXPECT_THAT(captions_of("sentences",
                          structs({{"ids", texts({"7", "8", "9"})}, {"raw", lists({1, 2, 1}, texts(all))}})),
              ElementsAre(a, b, c));
  // A text in a list stays a text, even if it looks like a list.
  EXPECT_THAT(captions_of("captions", lists({1, 1, 1}, texts({R"(["x"])", "y", "z"})))[0],
              ElementsAre(R"(["x"])"));
  write(folder.path() / "x.parquet", {{"image", images},
                                      {"caption_0", texts({"a", "b", "c"})},
                                      {"caption_1", texts({"d", std::nullopt, "f"})}});
  EXPECT_THAT(captions(read(folder, "x.parquet")),
              ElementsAre(ElementsAre("a", "d"), ElementsAre("b"), ElementsAre("c", "f")));
}

TEST(Parquet, PicturesOfEverySort) {
  const TestFolder folder;
  const Array words = texts({"one", "two"});
  const auto contents = [&](const Columns& columns, const std::string& keys = "",
                            const std::string& features = "") {
    write(folder.path() / "x.parquet", columns, {.features = features});
    std::vector<std::string> all;
    for (const DatasetItem& item : read(folder, "x.parquet", keys).as<CaptionedImages>().items) {
      all.push_back(read_image_bytes(item.image).value());
    }
    return all;
  };
  const Array first = image_structs({"A", "B"}, {std::nullopt, std::nullopt});
  const Array second = image_structs({"C", "D"}, {"c", "d"});
  EXPECT_THAT(contents({{"text", words}, {"jpg", bytes({"A", "B"})}}), ElementsAre("A", "B"));
  EXPECT_THAT(contents({{"text", words}, {"photo", first}}), ElementsAre("A", "B"));
  EXPECT_THAT(contents({{"thumbnail", first}, {"text", words}, {"image", second}}), ElementsAre("C", "D"));
  EXPECT_THAT(contents({{"front", first}, {"text", words}, {"back", second}}, "#image-column=back"),
              ElementsAre("C", "D"));
  EXPECT_THAT(error_of(folder, "x.parquet").message,
              HasSubstr("several columns of pictures (front, back): name one with image-column=NAME"));
  EXPECT_THAT(contents({{"text", words}, {"photo", structs({{"bytes", bytes({"A", "B"})}})}}),
              ElementsAre("A", "B"));
  // The features tell which of two columns of bytes is the image.
  const std::string features =
      R"({"info": {"features": {"image": {"dtype": "binary", "_type": "Value"}, "scan": {"_type": "Image"}, "text": {"dtype": "string", "_type": "Value"}}}})";
  const Columns both = {{"image", bytes({"A", "B"})}, {"scan", bytes({"C", "D"})}, {"text", words}};
  EXPECT_THAT(contents(both, "", features), ElementsAre("C", "D"));
  EXPECT_THAT(contents(both), ElementsAre("A", "B"));
  EXPECT_THAT(contents(both, "", "no JSON"), ElementsAre("A", "B"));
}

TEST(Parquet, PicturesInFiles) {
  const TestFolder folder;
  folder.write("hub/train/1.jpg", "one");
  folder.write("hub/test/1.jpg", "eins");
  write(folder.path() / "hub/train/metadata.parquet",
        {{"file_name", texts({"1.jpg", "http://example.org/2.jpg", "1.jpg", std::nullopt})},
         {"text", texts({"a", "b", "c", "d"})}});
  write(folder.path() / "hub/test/metadata.parquet",
        {{"file_name", texts({"1.jpg"})}, {"text", texts({"e"})}});
  const Dataset dataset = read(folder, "hub");
  ASSERT_EQ(dataset.as<CaptionedImages>().items.size(), 2U);
  EXPECT_EQ(dataset.as<CaptionedImages>().items[0].id, "test/1.jpg");
  EXPECT_EQ(dataset.as<CaptionedImages>().items[0].split, "test");
  EXPECT_EQ(read_image_bytes(dataset.as<CaptionedImages>().items[0].image).value(), "eins");
  EXPECT_EQ(dataset.as<CaptionedImages>().items[1].image.path, folder.path() / "hub/train/1.jpg");
  EXPECT_THAT(dataset.as<CaptionedImages>().items[1].captions, ElementsAre("a", "c"));
  EXPECT_THAT(excluded(dataset),
              ElementsAre("1 images that are web addresses, not files (http://example.org/2.jpg)",
                          "1 captions without an image (train/metadata/3)"));
  // Images in the file and beside it, in one column.
  folder.write("images/x.png", "X");
  write(folder.path() / "data/train-00000-of-00001.parquet",
        {{"image", image_structs({std::nullopt, "B", std::nullopt}, {"x.png", "y.png", "https://z"})},
         {"text", texts({"a", "b", "c"})}});
  for (const char* keys : {"", "#missing=skip"}) {
    const Dataset mixed =
        read(folder, "data/train-00000-of-00001.parquet",
             std::string(keys).empty() ? "#images=" + (folder.path() / "images").string()
                                       : keys + (",images=" + (folder.path() / "images").string()));
    ASSERT_EQ(mixed.items.size(), 2U);
    EXPECT_EQ(read_image_bytes(mixed.items[0].image).value(), "X");
    EXPECT_EQ(read_image_bytes(mixed.items[1].image).value(), "B");
    EXPECT_EQ(excluded(mixed).size(), 1U);
  }
}

TEST(Parquet, IdsSplitsAndGroups) {
  const TestFolder folder;
  arrow::Int64Builder numbers;
  PARQUET_THROW_NOT_OK(numbers.AppendValues({7, 7, 9}));
  const Array ids = finish(numbers);
  const auto columns = [&](const std::vector<Text>& paths, const std::vector<Text>& splits) -> Columns {
    return {{"cocoid", ids},
            {"image", image_structs({"A", "A", "C"}, paths)},
            {"caption", texts({"one", "uno", "three"})},
            {"split", texts(splits)},
            {"show", texts<arrow::StringDictionaryBuilder>({"p", "p", "q"})}};
  };
  write(folder.path() / "train.parquet", columns({"a", "a", "c"}, {"restval", "restval", std::nullopt}));
  const Dataset plain = read(folder, "train.parquet");
  EXPECT_EQ(plain.split_sizes, (std::map<std::string, int64_t>{{"restval", 2}, {"train", 1}}));
  EXPECT_EQ(plain.as<CaptionedImages>().items[2].id, "train/2");
  const Dataset named = read(folder, "train.parquet", "#id-column=cocoid,group-column=show");
  EXPECT_THAT(captions(named), ElementsAre(ElementsAre("one", "uno"), ElementsAre("three")));
  EXPECT_EQ(named.as<CaptionedImages>().items[0].id, "7");
  EXPECT_EQ(named.as<CaptionedImages>().items[1].group, "q");
  EXPECT_EQ(read_image_bytes(named.as<CaptionedImages>().items[1].image).value(), "C");
  EXPECT_EQ(read(folder, "train.parquet", "#split-column=caption").as<CaptionedImages>().items[1].split,
            "uno");
  write(folder.path() / "x.parquet", columns({"a", "b", "c"}, {"t", "t", "t"}));
  EXPECT_THAT(error_of(folder, "x.parquet", "#id-column=cocoid").message,
              HasSubstr("x.parquet: row group 0: row 1: id \"7\" has image \"b\", split \"t\" here, and "
                        "\"a\", \"t\" before"));
  write(folder.path() / "x.parquet", columns({"a", "a", "c"}, {"t", "u", "t"}));
  EXPECT_EQ(error_of(folder, "x.parquet", "#id-column=cocoid").code, ErrorCode::kBadData);
}

TEST(Parquet, NullsAreCounted) {
  const TestFolder folder;
  const Array images = structs({{"bytes", bytes({"A", std::nullopt, "C", "D", "E"})},
                                {"path", texts({"a", std::nullopt, "c", "d", "e"})}});
  const Array list = lists({1, 1, -1, 2, 0}, texts({"one", "lost", std::nullopt, "four"}));
  for (const bool statistics : {true, false}) {
    write(folder.path() / "x.parquet", {{"image", images}, {"captions", list}},
          {.statistics = statistics, .group_rows = 2, .features = {}});
    const Dataset dataset = read(folder, "x.parquet");
    EXPECT_THAT(captions(dataset), ElementsAre(ElementsAre("one"), ElementsAre("four")));
    EXPECT_THAT(excluded(dataset), ElementsAre("1 captions without an image (x/1)", "1 empty captions (x/3)",
                                               "2 images without captions (x/2)"));
    EXPECT_EQ(read_image_bytes(dataset.as<CaptionedImages>().items[1].image).value(), "D");
    const auto null = read_image_bytes(data::parquet_picture(folder.path() / "x.parquet", "image", 1));
    ASSERT_FALSE(null);
    EXPECT_THAT(null.error().message, HasSubstr("x.parquet: row 1 of image: null, no picture"));
  }
  write(folder.path() / "y.parquet",
        {{"image", images},
         {"caption", texts({"a", "b", "c", "d", "e"})},
         {"key", texts({"1", "2", "3", std::nullopt, "5"})}},
        {.group_rows = 2, .features = {}});
  EXPECT_THAT(error_of(folder, "y.parquet", "#id-column=key").message,
              HasSubstr("y.parquet: row group 1: row 3: column \"key\" is null, which is no id"));
}

TEST(Parquet, ErrorsNameTheColumnAndItsType) {
  const TestFolder folder;
  const Array images = image_structs({"A", "B"}, {"a", "b"});
  arrow::DoubleBuilder numbers;
  PARQUET_THROW_NOT_OK(numbers.AppendValues({1, 2}));
  const Array doubles = finish(numbers);
  const auto message = [&](const Columns& columns, const std::string& keys = "") {
    write(folder.path() / "x.parquet", columns);
    const Error error = error_of(folder, "x.parquet", keys);
    EXPECT_THAT(error.message, HasSubstr("x.parquet: "));
    return error.message;
  };
  EXPECT_THAT(message({{"image", doubles}, {"text", texts({"a", "b"})}}),
              HasSubstr("column \"image\" is double, expected struct<bytes: binary, path: string>"));
  EXPECT_THAT(message({{"image", images}, {"text", doubles}}),
              HasSubstr("column \"text\" is double, expected a string, a list of strings"));
  EXPECT_THAT(message({{"image", images}, {"text", structs({{"x", doubles}, {"y", doubles}})}}),
              HasSubstr("column \"text\" is struct<x: double, y: double>"));
  EXPECT_THAT(message({{"image", images}, {"words", texts({"a", "b"})}}),
              HasSubstr("no caption column is known among image, words; name it with caption-column=NAME"));
  EXPECT_THAT(message({{"where", doubles}, {"text", texts({"a", "b"})}}),
              HasSubstr("no image column is known among where, text"));
  EXPECT_THAT(message({{"image", images}, {"text", texts({"a", "b"})}}, "#caption-column=nope"),
              HasSubstr("no column \"nope\"; there are image, text"));
  EXPECT_THAT(message({{"image", images}, {"text", texts({"a", "b"})}, {"n", doubles}}, "#id-column=n"),
              HasSubstr("column \"n\" is double, expected a string or an integer"));
  EXPECT_THAT(message({{"image", images}, {"text", bytes({"a", "caf\xe9"})}}),
              HasSubstr("row group 0: row 1: column \"text\": the caption is not UTF-8"));
  folder.write("x.parquet", "PAR1 is all there is");
  EXPECT_EQ(error_of(folder, "x.parquet").code, ErrorCode::kBadData);
  folder.write("x.parquet", "");
  EXPECT_EQ(error_of(folder, "x.parquet").code, ErrorCode::kBadData);
}

TEST(Parquet, PicturesWithinLimits) {
  const TestFolder folder;
  const fs::path path =
      write(folder.path() / "x.parquet",
            {{"image", image_structs({"AAAA", "B"}, {"a", "b"})}, {"text", texts({"a", "b"})}});
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
  std::vector<Text> words;
  for (int i = 0; i < 6; ++i) words.emplace_back(fmt::format("w{}", i % 2));
  const fs::path path = write(
      folder.path() / "x.parquet",
      {{"image", image_structs(pictures(6), words)}, {"captions", lists({1, 1, 1, 1, 1, 1}, texts(words))}},
      {.codec = arrow::Compression::SNAPPY, .dictionary = true, .group_rows = 3, .features = {}});
  std::ifstream stream(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(stream), {}};
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
  const fs::path path =
      write(folder.path() / "x.parquet", {{"image", bytes(pictures(3000))}, {"text", texts(pictures(3000))}});
  const auto source = data::ParquetSource::open(path);
  ASSERT_TRUE(source) << source.error().message;
  const auto stream = source->stream();
  const auto read = data::guarded([&]() -> Status {
    const auto file = parquet::ParquetFileReader::Open(stream, parquet::ReaderProperties(source->pool()));
    fs::resize_file(path, 5000);
    const auto pages = file->RowGroup(0)->GetColumnPageReader(0);
    while (pages->NextPage()) {
    }
    return {};
  });
  ASSERT_FALSE(read);
  std::string end(100, '\0');
  EXPECT_EQ(source->file().read(6000, end).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace saccade::lab
