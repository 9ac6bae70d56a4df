// The file of an approximate index: found where it belongs, and refused if it is damaged, of other rows, or outgrown.
#include "saccade/collection/rows/approximate_index.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "saccade/collection/build_approximate.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/test_folder.h"
#include "saccade/index/exact_search.h"

namespace saccade {
namespace {

using testing::HasSubstr;

class ApproximateFile : public testing::Test {
 protected:
  void put(int first, int last) {
    auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    for (int i = first; i <= last; ++i) change.puts.push_back(test::put_of(fmt::format("/{}", i), i));
    ASSERT_OK(writer->commit(change));
  }
  [[nodiscard]] CollectionReader open() const { return CollectionReader::open(folder_).value(); }
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "rows-1.lists"; }
  void build() {
    ThreadPool pool(2);
    const CollectionReader collection = open();
    ASSERT_OK(build_approximate(collection, {.from = 100}, pool));
  }
  // Checks that a search through all lists finds what exact search finds.
  void expect_right_answers(const CollectionReader& collection) const {
    ASSERT_NE(collection.approximate(), nullptr) << collection.why_not_approximate();
    const ApproximateIndex& index = *collection.approximate();
    ThreadPool pool(2);
    const SearchedRows searched{collection.rows(), collection.alive(), collection.int8_rows()};
    for (int seed = 0; seed < 10; ++seed) {
      const std::vector<float> row = test::unit_row(1'000 + seed);
      const auto found = find_near_rows(searched, index.lists, *index.checks, {10'000, 10'000}, row, 5, pool);
      const auto expected = exact_search(collection.rows(), {row.data(), 1, 8}, 5, pool, collection.alive());
      ASSERT_OK(found);
      ASSERT_EQ(found->best.front().size(), expected->front().size());
      for (size_t i = 0; i < expected->front().size(); ++i) {
        EXPECT_EQ(found->best.front()[i].row, expected->front()[i].row);
        EXPECT_EQ(found->best.front()[i].score, expected->front()[i].score);
      }
    }
  }

  test::TestFolder temporary_;
  std::filesystem::path folder_ = temporary_.path() / "c";
};

TEST_F(ApproximateFile, IsBuiltOpenedAndRemoved) {
  put(1, 600);
  EXPECT_EQ(open().approximate(), nullptr);
  EXPECT_EQ(open().why_not_approximate(), "");
  build();
  const CollectionReader collection = open();
  expect_right_answers(collection);
  EXPECT_EQ(collection.approximate()->lists.covered, 600);
  EXPECT_EQ(collection.approximate()->from, 100);
  EXPECT_FALSE(collection.approximate()->texts.known());
  EXPECT_GE(collection.approximate()->images.measured, 0.95);
  EXPECT_EQ(test::faults(folder_), "");
  // One that is built anew meanwhile, and may be smaller, does not concern an open snapshot.
  put(601, 610);
  build();
  ASSERT_OK(collection.check_files());
  expect_right_answers(collection);
  const auto removed = remove_approximate(collection);
  ASSERT_OK(removed);
  EXPECT_TRUE(*removed);
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(open().approximate(), nullptr);
}

TEST_F(ApproximateFile, IsNotBegunForARecallThatCannotBeReached) {
  put(1, 100);
  ThreadPool pool(1);
  const auto built = build_approximate(open(), {.recall = 1}, pool,
                                       [](const ProgressUpdate& update) { ADD_FAILURE() << update.what; });
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(built.error().code, ErrorCode::kUsage);
}

TEST_F(ApproximateFile, OfACollectionThatIsCompactedMeanwhileIsAnError) {
  put(1, 300);
  ThreadPool pool(1);
  bool compacted = false;
  const auto built = build_approximate(open(), {}, pool, [&](const ProgressUpdate&) {
    if (std::exchange(compacted, true)) return;
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    ASSERT_OK(writer->remove_ids(std::vector<int64_t>{3}));
    ASSERT_OK(writer->compact());
  });
  EXPECT_TRUE(compacted);
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(built.error().code, ErrorCode::kMismatch);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

// The file's name has the generation of its rows, and its contents a sample of them.
TEST_F(ApproximateFile, OfRowsBeforeACompactionIsNeverUsed) {
  put(1, 300);
  build();
  CollectionReader collection = open();
  ASSERT_NE(collection.approximate(), nullptr);
  ASSERT_OK(check_not_compacted(collection));
  const auto before = read_file(file());
  ASSERT_OK(before);
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    ASSERT_OK(writer->remove_ids(std::vector<int64_t>{3}));
    ASSERT_OK(writer->compact());
  }
  // A snapshot keeps its rows and their index.
  EXPECT_EQ(collection.rows().rows(), 300);
  expect_right_answers(collection);
  // A builder that was slower than the compaction may leave its file behind.
  std::ofstream(file(), std::ios::binary) << *before;
  const Status checked = check_not_compacted(collection);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kMismatch);
  EXPECT_FALSE(std::filesystem::exists(file()));
  std::ofstream(file(), std::ios::binary) << *before;
  const auto old = collection.generation();
  ASSERT_OK(collection.refresh());
  ASSERT_NE(collection.generation(), old);
  EXPECT_EQ(collection.approximate(), nullptr);
  EXPECT_EQ(collection.why_not_approximate(), "");
  std::ofstream(approximate_path(collection.files(), collection.generation()), std::ios::binary) << *before;
  ASSERT_OK(collection.refresh());
  EXPECT_EQ(collection.approximate(), nullptr);
  EXPECT_THAT(open().why_not_approximate(), HasSubstr("built from other rows"));
}

// As a writer does that opens while the file is being written.
TEST_F(ApproximateFile, IsWrittenThoughItsTemporaryFileIsRemoved) {
  put(1, 2'000);
  std::atomic<bool> ended = false;
  std::thread writer([&] {
    std::error_code error;
    while (!ended) {
      for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
           entry.increment(error)) {
        if (temporary_of(entry->path().filename().string()) != file().filename().string()) continue;
        if (std::filesystem::remove(entry->path(), error)) return;
      }
    }
  });
  build();
  ended = true;
  writer.join();
  expect_right_answers(open());
}

TEST_F(ApproximateFile, StaysRightAsRowsComeAndGoUntilItIsOutgrown) {
  put(1, 400);
  build();
  put(401, 480);
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    ASSERT_OK(writer->remove_ids(std::vector<int64_t>{3, 7, 450}));
  }
  expect_right_answers(open());
  put(481, 520);
  const CollectionReader grown = open();
  EXPECT_EQ(grown.approximate(), nullptr);
  EXPECT_THAT(grown.why_not_approximate(), HasSubstr("120 rows of 520 were added"));
  build();
  expect_right_answers(open());
  // Compaction makes other rows of them.
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    ASSERT_OK(writer->compact());
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(open().approximate(), nullptr);
}

TEST_F(ApproximateFile, OfOtherRowsIsNotUsed) {
  put(1, 300);
  build();
  const std::string other = read_file(file()).value();
  std::filesystem::remove_all(folder_);
  put(1001, 1300);
  std::ofstream(file(), std::ios::binary) << other;
  EXPECT_EQ(open().approximate(), nullptr);
  EXPECT_THAT(open().why_not_approximate(), HasSubstr("built from other rows"));
}

TEST_F(ApproximateFile, WithMoreEffortThanThereAreRowsIsNotUsed) {
  put(1, 100);
  ThreadPool pool(1);
  const CollectionReader collection = open();
  const auto lists = build_lists(collection.rows(), {}, {}, pool);
  ASSERT_OK(lists);
  for (const ListProbe& probe : {ListProbe{100, 64}, ListProbe{101, 64}, ListProbe{100, int64_t{1} << 62}}) {
    ApproximateIndex figures;
    figures.texts.probe = probe;
    ASSERT_OK(write_approximate(collection.files(), 1, collection.rows(), *lists, figures));
    const bool possible = probe.scanned == 100 && probe.rescored == 64;
    EXPECT_EQ(open().approximate() != nullptr, possible) << open().why_not_approximate();
  }
}

TEST_F(ApproximateFile, DamagedOrCutOffIsNotUsed) {
  put(1, 300);
  build();
  const std::string whole = read_file(file()).value();
  const auto write = [&](std::string_view content) { std::ofstream(file(), std::ios::binary) << content; };
  for (size_t length = 0; length < whole.size(); length += 1 + whole.size() / 97) {
    write(std::string_view(whole).substr(0, length));
    const CollectionReader collection = open();
    EXPECT_EQ(collection.approximate(), nullptr) << length;
    EXPECT_NE(collection.why_not_approximate(), "") << length;
  }
  // A changed byte is found when the file is opened, or when a list is read; a figure may be another one, the answers not.
  ThreadPool pool(1);
  const std::vector<float> row = test::unit_row(5);
  const auto expected = exact_search(open().rows(), {row.data(), 1, 8}, 5, pool);
  int64_t refused = 0;
  for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 211) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    write(damaged);
    const CollectionReader collection = open();
    if (collection.approximate() == nullptr) {
      ++refused;
      continue;
    }
    const ApproximateIndex& index = *collection.approximate();
    const auto found =
        find_near_rows({collection.rows()}, index.lists, *index.checks, {10'000, 10'000}, row, 5, pool);
    if (!found) {
      EXPECT_EQ(found.error().code, ErrorCode::kBadData);
      ++refused;
      continue;
    }
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(found->best.front()[i].row, expected->front()[i].row) << at;
  }
  EXPECT_GT(refused, 150);
  write(whole);
  expect_right_answers(open());
}

}  // namespace
}  // namespace saccade
