// Rows in eight bits beside a collection's rows: made by changes and compaction, found wanting by verify, and
// never in the way of an answer. (Kills and full disks: crash_test.cc.)
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"
#include "saccade/index/exact_search.h"

namespace saccade {
namespace {

IngestSettings settings_of(Int8Policy policy) {
  IngestSettings settings;
  settings.int8_rows = policy;
  return settings;
}

class Int8File : public testing::Test {
 protected:
  // Items first to last, those already in with new rows.
  void put(int first, int last, Int8Policy policy = Int8Policy::kOn, const WriterOptions& options = {}) {
    auto writer =
        CollectionWriter::open_or_create(folder_, test::fake_checkpoint(), settings_of(policy), options);
    ASSERT_OK(writer);
    CollectionChange change;
    for (int i = first; i <= last; ++i) change.puts.push_back(test::put_of(fmt::format("/{}", i), i));
    ASSERT_OK(writer->commit(change));
  }
  void update() {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    ASSERT_OK(writer->update_int8_rows());
  }
  [[nodiscard]] CollectionReader open() const { return CollectionReader::open(folder_).value(); }
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "rows-1.i8"; }

  // Checks that searches over the int8 rows return the same answers as searches without them.
  void expect_right_answers() const {
    const CollectionReader collection = open();
    ThreadPool pool(2);
    for (int seed = 0; seed < 20; ++seed) {
      const std::vector<float> row = test::unit_row(1'000 + seed);
      const MatrixView<const float> query(row.data(), 1, 8);
      const auto found =
          find_rows({collection.rows(), collection.alive(), collection.int8_rows()}, query, 3, pool);
      const auto expected = exact_search(collection.rows(), query, 3, pool, collection.alive());
      ASSERT_OK(found);
      ASSERT_EQ(found->best.front().size(), expected->front().size());
      for (size_t i = 0; i < expected->front().size(); ++i) {
        EXPECT_EQ(found->best.front()[i].row, expected->front()[i].row);
        EXPECT_EQ(found->best.front()[i].score, expected->front()[i].score);
      }
    }
  }
  void expect_whole(int64_t rows) const {
    const CollectionReader collection = open();
    EXPECT_EQ(collection.int8_rows().count, rows);
    EXPECT_EQ(collection.summary()->int8_rows, rows);
    EXPECT_EQ(collection.summary()->int8_bytes, static_cast<int64_t>(std::filesystem::file_size(file())));
    EXPECT_EQ(test::faults(folder_), "");
    expect_right_answers();
  }
  void overwrite(int64_t offset, std::string_view bytes) const {
    std::fstream stream(file(), std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(offset);
    stream << bytes;
  }

  test::TestFolder temporary_;
  std::filesystem::path folder_ = temporary_.path() / "c";
};

TEST_F(Int8File, GrowsWithTheRows) {
  put(1, 50);
  expect_whole(50);
  const CollectionReader before = open();
  put(51, 300);
  expect_whole(300);
  EXPECT_EQ(before.int8_rows().count, 50);  // a snapshot stays what it was
  EXPECT_EQ(open().info().settings.int8_rows, Int8Policy::kOn);
}

TEST_F(Int8File, IsKeptOnlyWhereItIsWanted) {
  put(1, 50, Int8Policy::kOff);
  EXPECT_FALSE(std::filesystem::exists(file()));
  std::filesystem::remove_all(folder_);
  put(1, 50, Int8Policy::kAuto);  // too few rows
  update();
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(open().int8_rows().count, 0);
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(Int8File, IsMadeForACollectionOfManyRows) {
  EXPECT_EQ(WriterOptions{}.int8_auto_rows, 50'000);
  WriterOptions options;
  options.int8_auto_rows = 300;
  put(1, 299, Int8Policy::kAuto, options);
  EXPECT_FALSE(std::filesystem::exists(file()));
  put(300, 300, Int8Policy::kAuto, options);
  expect_whole(300);
}

TEST_F(Int8File, IsWrittenAnewByCompaction) {
  put(1, 100);
  auto writer = CollectionWriter::open(folder_);
  ASSERT_OK(writer);
  ASSERT_OK(writer->remove_path("/7"));
  ASSERT_OK(writer->compact());
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(open().int8_rows().count, 99);
  EXPECT_EQ(test::faults(folder_), "");
  expect_right_answers();
}

TEST_F(Int8File, IsMadeUpForWhereItIsGoneOrCutOff) {
  put(1, 100);
  const auto whole = read_file(file()).value();
  std::filesystem::remove(file());
  EXPECT_EQ(open().int8_rows().count, 0);
  EXPECT_EQ(test::faults(folder_), "");
  update();
  EXPECT_EQ(read_file(file()).value(), whole);
  for (const size_t size : {0, 5, 63, 64, 100, 500, 5'000}) {
    std::filesystem::resize_file(file(), size);
    EXPECT_LT(open().int8_rows().count, 100);
    expect_right_answers();
    update();
    EXPECT_EQ(read_file(file()).value(), whole) << size;
  }
  expect_whole(100);
}

TEST_F(Int8File, OfAnotherVersionIsLeftAsideAndReplaced) {
  put(1, 100);
  const auto whole = read_file(file()).value();
  overwrite(13, "9");
  EXPECT_EQ(open().int8_rows().count, 0);
  expect_right_answers();
  EXPECT_THAT(test::faults(folder_), testing::HasSubstr("not of this program's version, and not used"));
  update();
  EXPECT_EQ(read_file(file()).value(), whole);
}

TEST_F(Int8File, DamageIsFoundByVerifyAndChangesNoAnswer) {
  put(1, 100);
  const auto whole = read_file(file()).value();
  for (size_t at = 64; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    std::ofstream(file(), std::ios::binary) << damaged;
    EXPECT_THAT(test::faults(folder_),
                testing::HasSubstr(fmt::format("1 of 100 rows, the first of them row {}, are not what",
                                               (at - 64) / static_cast<size_t>(int8_row_bytes(8)))));
    expect_right_answers();
  }
}

TEST_F(Int8File, OfOtherRowsIsReplaced) {
  put(1, 100);
  const auto other = read_file(file()).value();
  std::filesystem::remove_all(folder_);
  put(101, 200);
  const auto own = read_file(file()).value();
  std::ofstream(file(), std::ios::binary) << other;
  EXPECT_THAT(test::faults(folder_), testing::HasSubstr("100 of 100 rows"));
  update();
  EXPECT_EQ(read_file(file()).value(), own);
  // One with more rows than there are.
  std::ofstream(file(), std::ios::binary) << own << own.substr(64);
  update();
  EXPECT_EQ(read_file(file()).value(), own);
}

TEST_F(Int8File, AFileThatIsCutOffUnderAReaderIsSaid) {
  put(1, 100);
  const CollectionReader collection = open();
  ASSERT_OK(collection.check_files());
  std::filesystem::resize_file(file(), 1'000);
  const auto status = collection.check_files();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              testing::HasSubstr("rows-1.i8: cut off to 1000 bytes since it was opened"));
}

TEST_F(Int8File, ACollectionMadeBeforeThereWereAnyGetsThem) {
  put(1, 20, Int8Policy::kAuto);
  Json info = read_json(folder_ / "collection.json", 1 << 20).value();
  info["settings"].erase("int8_rows");
  std::ofstream(folder_ / "collection.json") << info.dump();
  EXPECT_EQ(open().info().settings.int8_rows, Int8Policy::kAuto);
  info["settings"]["int8_rows"] = "sometimes";
  std::ofstream(folder_ / "collection.json") << info.dump();
  EXPECT_THAT(CollectionReader::open(folder_).error().message,
              testing::HasSubstr("\"int8_rows\" is \"sometimes\", expected one of auto, on, off"));
}

}  // namespace
}  // namespace saccade
