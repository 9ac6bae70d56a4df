#include "saccade/collection/exchange.h"

#include <gmock/gmock.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/rows.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

class Exchange : public testing::Test {
 protected:
  fs::path make(const std::string& name, std::vector<CollectionChange::Put> puts,
                const IngestSettings& settings = {},
                const CheckpointId& checkpoint = test::fake_checkpoint()) {
    const fs::path folder = temporary_.path() / name;
    auto writer = CollectionWriter::create(folder, checkpoint, settings);
    EXPECT_TRUE(writer);
    CollectionChange change;
    change.puts = std::move(puts);
    const Status done = writer->commit(change);
    EXPECT_TRUE(done) << done.error().message;
    return folder;
  }
  static CollectionChange::Put described(const std::string& path, int seed) {
    auto put = test::put_of(path, seed);
    put.item.caption = "of " + path;
    put.facts.emplace();
    put.facts->read = FactsRead::kEverything;
    put.facts->picture.camera = "Canon";
    put.facts->picture.taken = 1'717'198'259;
    put.facts->picture.keywords = {"one", "two"};
    put.facts->picture.latitude = 48.5;
    put.facts->picture.longitude = -2.25;
    put.facts->picture.rating = 4;
    put.facts->picture.zone_minutes = 120;
    put.facts->picture.title = "A title";
    put.facts->caption = caption_of(put.facts->picture);
    put.facts->place = "Lamballe";
    put.facts->look = 0x8000'0000'0000'0001;
    put.facts->grain = 0.75;
    return put;
  }
  std::vector<float> row_of(const fs::path& folder, const std::string& path) {
    const auto collection = Collection::open(folder);
    const auto row = collection->rows().row(collection->item_of_path(path)->row);
    return {row.begin(), row.end()};
  }

  test::TestFolder temporary_;
};

TEST_F(Exchange, MergeAddsWhatIsNotThereAsItIs) {
  const fs::path a = make("a", {test::put_of("/1", 1), test::put_of("/2", 2), test::put_of("/out", 9)});
  const fs::path b =
      make("b", {test::put_of("/2", 2), test::put_of("/1", 11), described("/3", 3), test::put_of("/out", 9)});
  auto writer = CollectionWriter::open(a);
  ASSERT_OK(writer);
  ASSERT_OK(writer->remove_path("/out"));
  const auto from = Collection::open(b);
  const auto report = merge_collection(*writer, *from);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->same, 1);
  EXPECT_EQ(report->different, 1);
  EXPECT_EQ(report->stayed_out, 1);
  EXPECT_EQ(row_of(a, "/3"), test::unit_row(3));
  EXPECT_EQ(row_of(a, "/1"), test::unit_row(1));
  const auto into = Collection::open(a);
  const auto item = into->item_of_path("/3");
  EXPECT_EQ(item->caption, "of /3");
  EXPECT_EQ(into->facts(item->id)->picture.camera, "Canon");
  EXPECT_EQ(test::faults(a), "");
  EXPECT_EQ(merge_collection(*writer, *from)->added, 0);  // again it is no work
}

TEST_F(Exchange, MergeTakesLateRowsAlong) {
  const fs::path a = make("a", {test::late_put_of("/1", 1)}, test::late_settings_of());
  const fs::path b = make("b", {test::late_put_of("/2", 2)}, test::late_settings_of());
  auto writer = CollectionWriter::open(a);
  ASSERT_OK(merge_collection(*writer, *Collection::open(b)));
  const auto into = Collection::open(a);
  const Matrix<float> late = restore_rows(into->late_rows(into->item_of_path("/2")->row));
  EXPECT_EQ(late.rows(), test::late_rows_of(2).rows());
  EXPECT_EQ(test::faults(a), "");
}

TEST_F(Exchange, MergeRefusesRowsOfAnotherMaking) {
  const fs::path a = make("a", {});
  auto writer = CollectionWriter::open(a);
  CheckpointId other = test::fake_checkpoint();
  other.fingerprint = sha256_hex("another");
  IngestSettings white;
  white.background = BackgroundPolicy::kWhite;
  const auto refused = [&](const fs::path& folder) {
    const auto report = merge_collection(*writer, *Collection::open(folder));
    return report ? std::string("merged") : report.error().message;
  };
  EXPECT_THAT(refused(make("b", {}, {}, other)), HasSubstr("cannot be used with"));
  EXPECT_THAT(refused(make("c", {}, white)), HasSubstr("--background"));
  EXPECT_THAT(refused(make("d", {}, test::late_settings_of())), HasSubstr("late rows"));
}

TEST_F(Exchange, WhatIsExportedIsImportedTheSame) {
  const fs::path a = make("a", {described("/pictures/1.jpg", 1), test::put_of("/pictures/2.jpg", 2)});
  const fs::path out = temporary_.path() / "out";
  EXPECT_EQ(export_collection(*Collection::open(a), out).value(), 2);
  EXPECT_THAT(export_collection(*Collection::open(a), out).error().message, HasSubstr("not empty"));
  const std::string lines = read_file(out / "items.jsonl").value();
  EXPECT_THAT(lines, HasSubstr("\"taken\":\"2024-05-31T23:30:59\""));
  EXPECT_THAT(lines, HasSubstr("\"keywords\":[\"one\",\"two\"]"));
  const fs::path b = make("b", {});
  auto writer = CollectionWriter::open(b);
  const auto report = import_rows(*writer, out, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 2);
  EXPECT_THAT(report->failed, IsEmpty());
  const std::vector<float> row = row_of(b, "/pictures/2.jpg");
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], test::unit_row(2)[i], 1e-6);
  EXPECT_EQ(Collection::open(b)->item_of_path("/pictures/1.jpg")->caption, "of /pictures/1.jpg");
  const auto facts = [](const fs::path& collection, const std::string& path) {
    const auto opened = Collection::open(collection);
    return opened->facts(opened->item_of_path(path)->id).value();
  };
  const ItemFacts before = facts(a, "/pictures/1.jpg");
  const ItemFacts after = facts(b, "/pictures/1.jpg");
  EXPECT_EQ(after.picture, before.picture);
  EXPECT_EQ(after.place, "Lamballe");
  EXPECT_EQ(after.look, before.look);
  EXPECT_EQ(after.grain, before.grain);
  EXPECT_EQ(after.read, FactsRead::kEverything);
  EXPECT_EQ(after.caption, before.caption);
  EXPECT_EQ(facts(b, "/pictures/2.jpg").read, FactsRead::kNothing);
  EXPECT_EQ(test::faults(b), "");
  EXPECT_EQ(import_rows(*writer, out, {})->same, 2);
  // Another checkpoint's rows are refused where the export says so.
  CheckpointId other = test::fake_checkpoint();
  other.fingerprint = sha256_hex("another");
  auto foreign = CollectionWriter::open(make("c", {}, {}, other));
  EXPECT_EQ(import_rows(*foreign, out, {}).error().code, ErrorCode::kMismatch);
}

// Rows of length 1 are not scaled once more, which would change the last bits of some.
TEST_F(Exchange, RowsAreImportedBitByBit) {
  std::vector<CollectionChange::Put> puts;
  constexpr int kItems = 400;
  int changed = 0;
  for (int i = 0; i < kItems; ++i) {
    puts.push_back(test::put_of(fmt::format("/pictures/{}.jpg", i), i));
    // As encoders give them that divide by a length in float.
    for (float& value : puts.back().values) value *= 1.0000002F;
    std::vector<float> again = puts.back().values;
    normalize_row(again);
    changed += again == puts.back().values ? 0 : 1;
  }
  ASSERT_GT(changed, kItems / 2);
  const fs::path a = make("a", puts);
  const fs::path out = temporary_.path() / "out";
  ASSERT_EQ(export_collection(*Collection::open(a), out).value(), kItems);
  const fs::path b = make("b", {});
  {
    auto writer = CollectionWriter::open(b);
    ASSERT_EQ(import_rows(*writer, out, {})->added, kItems);
  }
  for (const auto& put : puts) EXPECT_EQ(row_of(b, put.item.path), put.values) << put.item.path;
}

// Format that clip-retrieval and scripts write: rows of any length, and paths.
TEST_F(Exchange, RowsOfOthersNeedNoMoreThanPaths) {
  const fs::path folder = temporary_.path() / "others";
  test::write_text(folder / "a.png", test::png(1));
  Matrix<float> rows(4, 8);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < 8; ++c) rows(r, c) = static_cast<float>(5 * (r + c + 1));
  }
  ASSERT_OK(write_npy(folder / "rows.npy", rows.view()));
  test::write_text(
      folder / "items.jsonl",
      "{\"path\": \"a.png\", \"caption\": \"a\"}\n{\"path\": \"missing.png\"}\nno json\n{\"path\": \"a.png\"}\n");
  const fs::path into = make("b", {});
  auto writer = CollectionWriter::open(into);
  const auto report = import_rows(*writer, folder, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 1);
  ASSERT_EQ(report->failed.size(), 3U);
  EXPECT_EQ(report->failed[0].path, "items.jsonl:2");
  EXPECT_THAT(report->failed[2].reason, HasSubstr("length"));  // a row of zeros is no direction
  const auto collection = Collection::open(into);
  const auto item = collection->item_of_path(folder / "a.png");
  ASSERT_OK(item);
  EXPECT_EQ(item->width, 20);
  EXPECT_EQ(item->format, "png");
  EXPECT_EQ(item->hash, sha256_hex(test::png(1)));
  EXPECT_EQ(test::faults(into, true), "");
  test::write_text(folder / "items.jsonl", "{\"path\": \"a.png\"}\n");
  EXPECT_THAT(import_rows(*writer, folder, {}).error().message, HasSubstr("has 1 lines, rows.npy 4 rows"));
}

// Imported metadata is kept beside the file's own, and impossible values are dropped.
TEST_F(Exchange, WhatOthersSayOfPicturesStaysWhereTheFileSaysNothing) {
  const fs::path folder = temporary_.path() / "others";
  test::write_text(folder / "a.png", test::png(1));
  Matrix<float> rows(4, 8);
  for (int64_t r = 0; r < 4; ++r) rows(r, r) = 1;
  ASSERT_OK(write_npy(folder / "rows.npy", rows.view()));
  test::write_text(
      folder / "items.jsonl",
      "{\"path\": \"a.png\", \"taken\": \"2020-02-29\", \"camera\": \"Leica\", \"latitude\": 91, "
      "\"longitude\": 1, \"keywords\": [\"sea\"], \"place\": \"Here\\nthere\"}\n"
      "{\"path\": \"\"}\n{\"path\": \"a.png\", \"taken\": \"2020-02-30\"}\n"
      "{\"path\": \"a.png\", \"keywords\": \"sea\"}\n");
  const fs::path into = make("b", {});
  {
    auto writer = CollectionWriter::open(into);
    const auto report = import_rows(*writer, folder, {});
    ASSERT_OK(report);
    EXPECT_EQ(report->added, 1);
    ASSERT_EQ(report->failed.size(), 3U);
    EXPECT_THAT(report->failed[0].reason, HasSubstr("\"path\" is empty"));
    EXPECT_THAT(report->failed[1].reason, HasSubstr("\"taken\" is \"2020-02-30\""));
    EXPECT_THAT(report->failed[2].reason, HasSubstr("\"keywords\" is a string"));
    test::FakeEncoder encoder;
    ThreadPool pool(1);
    const auto indexed = ingest(*writer, encoder, std::vector<fs::path>{folder / "a.png"}, {}, pool);
    ASSERT_OK(indexed);
    EXPECT_EQ(indexed->facts_read, 1);
  }
  const auto collection = Collection::open(into);
  const auto item = collection->item_of_path(folder / "a.png");
  ASSERT_OK(item);
  EXPECT_EQ(item->caption, "sea");
  const auto facts = collection->facts(item->id);
  EXPECT_NE(facts->look, 0U);
  EXPECT_EQ(facts->picture.camera, "Leica");
  EXPECT_EQ(facts->picture.taken, 1'582'934'400);
  EXPECT_EQ(facts->picture.latitude, std::nullopt);
  EXPECT_EQ(facts->place, "Here there");
  EXPECT_EQ(test::faults(into, true), "");
}

}  // namespace
}  // namespace saccade
