#include "saccade/collection/exchange.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>

#include "saccade/collection/catalog/item_json.h"
#include "saccade/collection/catalog/words/word_match.h"
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
    const auto collection = CollectionReader::open(folder);
    const auto row = collection->rows().row(collection->item_of_path(path)->row);
    return {row.begin(), row.end()};
  }

  test::TestFolder temporary_;
  ThreadPool pool_{2};
};

TEST_F(Exchange, MergeAddsWhatIsNotThereAsItIs) {
  const fs::path a = make("a", {test::put_of("/1", 1), test::put_of("/2", 2), test::put_of("/out", 9)});
  const fs::path b =
      make("b", {test::put_of("/2", 2), test::put_of("/1", 11), described("/3", 3), test::put_of("/out", 9)});
  auto writer = CollectionWriter::open(a);
  ASSERT_OK(writer);
  ASSERT_OK(writer->remove_path("/out"));
  const auto from = CollectionReader::open(b);
  const auto report = merge_collection(*writer, *from);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->same, 1);
  EXPECT_EQ(report->different, 1);
  EXPECT_EQ(report->stayed_out, 1);
  EXPECT_EQ(row_of(a, "/3"), test::unit_row(3));
  EXPECT_EQ(row_of(a, "/1"), test::unit_row(1));
  const auto into = CollectionReader::open(a);
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
  ASSERT_OK(merge_collection(*writer, *CollectionReader::open(b)));
  const auto into = CollectionReader::open(a);
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
    const auto report = merge_collection(*writer, *CollectionReader::open(folder));
    return report ? std::string("merged") : report.error().message;
  };
  EXPECT_THAT(refused(make("b", {}, {}, other)), HasSubstr("cannot be used with"));
  EXPECT_THAT(refused(make("c", {}, white)), HasSubstr("--background"));
  EXPECT_THAT(refused(make("d", {}, test::late_settings_of())), HasSubstr("late rows"));
  IngestSettings fast;
  fast.fast_decode = true;
  EXPECT_THAT(refused(make("e", {}, fast)),
              HasSubstr("large JPEGs were decoded at a reduced size, those of this collection at their full "
                        "size: add them to a collection made with --fast-decode"));
  writer = CollectionWriter::open(make("f", {}, fast));
  ASSERT_OK(writer);
  EXPECT_THAT(refused(make("g", {})), HasSubstr("add them to a collection made with --exact-decode"));
}

TEST_F(Exchange, WhatIsExportedIsImportedTheSame) {
  const fs::path a = make("a", {described("/pictures/1.jpg", 1), test::put_of("/pictures/2.jpg", 2)});
  const fs::path out = temporary_.path() / "out";
  EXPECT_EQ(export_collection(*CollectionReader::open(a), out).value(), 2);
  EXPECT_THAT(export_collection(*CollectionReader::open(a), out).error().message, HasSubstr("not empty"));
  const std::string lines = read_file(out / "items.jsonl").value();
  EXPECT_THAT(lines, HasSubstr("\"taken\":\"2024-05-31T23:30:59\""));
  EXPECT_THAT(lines, HasSubstr("\"keywords\":[\"one\",\"two\"]"));
  const fs::path b = make("b", {});
  auto writer = CollectionWriter::open(b);
  const auto report = import_rows(*writer, out, {}, pool_);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 2);
  EXPECT_THAT(report->failed, IsEmpty());
  const std::vector<float> row = row_of(b, "/pictures/2.jpg");
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], test::unit_row(2)[i], 1e-6);
  EXPECT_EQ(CollectionReader::open(b)->item_of_path("/pictures/1.jpg")->caption, "of /pictures/1.jpg");
  const auto facts = [](const fs::path& collection, const std::string& path) {
    const auto opened = CollectionReader::open(collection);
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
  EXPECT_EQ(import_rows(*writer, out, {}, pool_)->same, 2);
  // Another checkpoint's rows are refused where the export says so.
  CheckpointId other = test::fake_checkpoint();
  other.fingerprint = sha256_hex("another");
  auto foreign = CollectionWriter::open(make("c", {}, {}, other));
  EXPECT_EQ(import_rows(*foreign, out, {}, pool_).error().code, ErrorCode::kMismatch);
}

TEST_F(Exchange, AnExportSaysHowItsRowsWereMade) {
  IngestSettings settings = test::late_settings_of();
  settings.fast_decode = true;
  settings.precision = Precision::kInt8;
  settings.background = BackgroundPolicy::kWhite;
  const fs::path a = make("a", {test::late_put_of("/1", 1)}, settings);
  const fs::path out = temporary_.path() / "out";
  ASSERT_OK(export_collection(*CollectionReader::open(a), out));
  const auto recorded = exported_settings(out);
  ASSERT_OK(recorded);
  ASSERT_TRUE(recorded->has_value());
  EXPECT_TRUE((*recorded)->fast_decode);
  EXPECT_EQ((*recorded)->precision, Precision::kInt8);
  EXPECT_EQ((*recorded)->background, BackgroundPolicy::kWhite);
  EXPECT_FALSE((*recorded)->late.has_value());  // the rows are the means
  const auto imported = [&](const std::string& name, const IngestSettings& into) {
    auto writer = CollectionWriter::open(make(name, {}, into));
    if (!writer) return writer.error().message;
    ImportOptions options;
    options.no_files = true;
    const auto report = import_rows(*writer, out, options, pool_);
    return report ? fmt::format("{} added", report->added) : report.error().message;
  };
  EXPECT_EQ(imported("b", **recorded), "1 added");
  IngestSettings exact = **recorded;
  exact.fast_decode = false;
  EXPECT_THAT(imported("c", exact), HasSubstr("a collection made with --fast-decode"));

  // An export of an earlier version, and rows of other programs, say nothing of it.
  auto about = read_json(out / "export.json");
  ASSERT_OK(about);
  ASSERT_EQ(about->erase("settings"), 1U);
  test::write_text(out / "export.json", dump_json(*about));
  EXPECT_FALSE(exported_settings(out).value().has_value());
  EXPECT_EQ(imported("d", exact), "1 added");
  ASSERT_TRUE(fs::remove(out / "export.json"));
  EXPECT_FALSE(exported_settings(out).value().has_value());
  (*about)["settings"] = {{"fast_decode", true}};
  test::write_text(out / "export.json", dump_json(*about));
  EXPECT_THAT(exported_settings(out).error().message, HasSubstr("export.json: \"settings\": "));
}

TEST_F(Exchange, AFolderIsCheckedBeforeACollectionIsMade) {
  const fs::path out = temporary_.path() / "out";
  const CheckpointId checkpoint = test::fake_checkpoint();
  EXPECT_THAT(check_import(checkpoint, {}, out).error().message, HasSubstr("rows.npy"));
  ASSERT_OK(export_collection(*CollectionReader::open(make("a", {test::put_of("/1", 1)})), out));
  ASSERT_OK(check_import(checkpoint, {}, out));
  IngestSettings other;
  other.fast_decode = !other.fast_decode;
  EXPECT_EQ(check_import(checkpoint, other, out).error().code, ErrorCode::kMismatch);
  CheckpointId foreign = checkpoint;
  foreign.fingerprint = std::string(64, 'f');
  EXPECT_EQ(check_import(foreign, {}, out).error().code, ErrorCode::kMismatch);
  ASSERT_TRUE(fs::remove(out / "export.json"));
  ++foreign.dim;
  EXPECT_THAT(check_import(foreign, {}, out).error().message, HasSubstr("columns"));
  ASSERT_TRUE(fs::remove(out / "items.jsonl"));
  EXPECT_THAT(check_import(checkpoint, {}, out).error().message, HasSubstr("items.jsonl: no such file"));
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
  ASSERT_EQ(export_collection(*CollectionReader::open(a), out).value(), kItems);
  const fs::path b = make("b", {});
  {
    auto writer = CollectionWriter::open(b);
    ASSERT_EQ(import_rows(*writer, out, {}, pool_)->added, kItems);
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
  const auto report = import_rows(*writer, folder, {}, pool_);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 1);
  ASSERT_EQ(report->failed.size(), 3U);
  EXPECT_EQ(report->failed[0].path, "items.jsonl:2");
  EXPECT_EQ(report->failed[2].reason, "an embedding of length 0, expected a finite length above 0");
  const auto collection = CollectionReader::open(into);
  const auto item = collection->item_of_path(folder / "a.png");
  ASSERT_OK(item);
  EXPECT_EQ(item->width, 20);
  EXPECT_EQ(item->format, "png");
  EXPECT_EQ(item->hash, sha256_hex(test::png(1)));
  EXPECT_EQ(test::faults(into, true), "");
  test::write_text(folder / "items.jsonl", "{\"path\": \"a.png\"}\n");
  EXPECT_THAT(import_rows(*writer, folder, {}, pool_).error().message,
              HasSubstr("has 1 lines, rows.npy 4 rows"));
  // Without an end of its last line, with an empty one, and without any end.
  test::write_text(folder / "items.jsonl",
                   "{\"path\": \"a.png\"}\n\n{\"path\": \"b.png\"}\n{\"path\": \"a.png\"}");
  const auto again = import_rows(*writer, folder, {}, pool_);
  ASSERT_OK(again);
  EXPECT_EQ(again->same, 1);
  EXPECT_EQ(again->failed.size(), 3U);
  // A misspelled key would be ignored in every line; a key of others' is.
  const std::string lines = "{\"path\": \"b.png\"}\n{\"path\": \"b.png\"}\n{\"path\": \"b.png\"}\n";
  test::write_text(folder / "items.jsonl", "{\"path\": \"a.png\", \"captions\": \"x\"}\n" + lines);
  EXPECT_THAT(import_rows(*writer, folder, {}, pool_).error().message,
              HasSubstr("items.jsonl:1: \"captions\" is not known here; did you mean \"caption\"?"));
  for (const char* others : {"key", "weight", "token"}) {
    test::write_text(folder / "items.jsonl",
                     fmt::format("{{\"path\": \"a.png\", \"{}\": 1}}\n{}", others, lines));
    ASSERT_OK(import_rows(*writer, folder, {}, pool_));
  }
  test::write_text(folder / "items.jsonl", std::string((size_t{16} << 20) + 1, 'a'));
  const auto endless = import_rows(*writer, folder, {}, pool_);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, ErrorCode::kLimit);
  EXPECT_THAT(endless.error().message, HasSubstr("items.jsonl has a line of more than 16777216 bytes"));
  fs::remove(folder / "items.jsonl");
  fs::create_directory(folder / "items.jsonl");
  EXPECT_EQ(import_rows(*writer, folder, {}, pool_).error().code, ErrorCode::kIo);
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
    const auto report = import_rows(*writer, folder, {}, pool_);
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
  const auto collection = CollectionReader::open(into);
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

// A collection of embeddings that were made on another host.
class WithoutFiles : public Exchange {
 protected:
  // Writes a folder to import, of the lines and as many rows.
  fs::path write(const std::vector<std::string>& lines) {
    const fs::path folder = temporary_.path() / "others";
    Matrix<float> rows(std::ssize(lines), 8);
    std::string items;
    for (int64_t r = 0; r < rows.rows(); ++r) {
      std::ranges::copy(test::unit_row(static_cast<int>(r)), rows.row(r).begin());
      items += lines[static_cast<size_t>(r)] + "\n";
    }
    test::write_text(folder / "items.jsonl", items);
    EXPECT_TRUE(write_npy(folder / "rows.npy", rows.view()));
    return folder;
  }
  ImportReport import_all(const fs::path& into, const fs::path& folder, int64_t rows_per_transaction = 0) {
    auto writer = CollectionWriter::open(into);
    EXPECT_TRUE(writer);
    auto report =
        import_rows(*writer, folder,
                    {.limits = {}, .no_files = true, .rows_per_transaction = rows_per_transaction}, pool_);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *std::move(report) : ImportReport{};
  }
  static int64_t matching(const fs::path& collection, const std::string& filter) {
    const auto opened = CollectionReader::open(collection);
    const auto allowed = opened->allowed(parse_filter(filter).value()).value();
    return std::ranges::count(allowed, 1);
  }
  IngestReport index(const fs::path& into, const fs::path& input, const IngestOptions& options = {}) {
    auto writer = CollectionWriter::open(into);
    auto report = ingest(*writer, encoder_, std::vector<fs::path>{input}, options, pool_);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *std::move(report) : IngestReport{};
  }

  test::FakeEncoder encoder_;
  std::string hash_ = std::string(64, 'a');
};

TEST_F(WithoutFiles, ItemsAreListedFilteredSearchedAndExported) {
  const fs::path folder = write(
      {R"({"path": "sub/../b/1.jpg", "caption": "a red bell"})",
       R"({"path": "/elsewhere/2.jpg", "hash": ")" + hash_ +
           R"(", "width": 640, "height": 480, "format": "jpeg", "size": 1000, "mtime_ns": 1700000000000000000})",
       R"({"path": "3.jpg", "hash": "no hash", "width": 640, "height": 0, "size": -5, "taken": "2020-05-01"})",
       R"({"path": "3.jpg"})"});
  const fs::path into = make("c", {});
  const ImportReport report = import_all(into, folder);
  EXPECT_EQ(report.added, 3);
  EXPECT_EQ(report.same, 1);
  EXPECT_THAT(report.failed, IsEmpty());
  {
    const auto collection = CollectionReader::open(into);
    const std::vector<Item> items = test::all_items(*collection);
    ASSERT_EQ(items.size(), 3U);
    EXPECT_EQ(items[0].path, (folder / "b/1.jpg").string());
    EXPECT_EQ(items[0].hash, "");
    EXPECT_EQ(items[0].size, kUnknownState);
    EXPECT_EQ(items[0].mtime_ns, kUnknownState);
    EXPECT_EQ(items[1].hash, hash_);
    EXPECT_EQ(items[1].size, 1000);
    EXPECT_EQ(items[2].hash, "");
    EXPECT_EQ(items[2].width, 0);
    for (const Item& item : items) EXPECT_TRUE(item.file.elsewhere) << item.path;
    EXPECT_EQ(row_of(into, "/elsewhere/2.jpg"), test::unit_row(1));
    EXPECT_EQ(collection->match_words(std::vector<std::string>{"bell"})->found.size(), 1U);
    const CollectionSummary summary = collection->summary().value();
    EXPECT_EQ(summary.without_files, 3);
    EXPECT_EQ(summary.distinct_contents, 3);
    EXPECT_EQ(summary.file_bytes, 0);
  }
  // A value that is not known meets no condition, and not its opposite either, but for "not".
  EXPECT_EQ(matching(into, "width>=1"), 1);
  EXPECT_EQ(matching(into, "width<1"), 0);
  EXPECT_EQ(matching(into, "height<1 or pixels<1 or aspect<0.1 or size<1 or date<2019"), 0);
  EXPECT_EQ(matching(into, "not width>=1"), 2);
  EXPECT_EQ(matching(into, "date>=2019"), 2);
  EXPECT_EQ(matching(into, "format=jpeg"), 1);
  EXPECT_EQ(matching(into, "caption~bell"), 1);

  const fs::path out = temporary_.path() / "out";
  EXPECT_EQ(export_collection(*CollectionReader::open(into), out).value(), 3);
  const fs::path again = make("d", {});
  EXPECT_EQ(import_all(again, out).added, 3);
  const std::vector<Item> before = test::all_items(*CollectionReader::open(into));
  const std::vector<Item> after = test::all_items(*CollectionReader::open(again));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(item_json(after[i], {}), item_json(before[i], {}));
    EXPECT_EQ(row_of(again, before[i].path), row_of(into, before[i].path));
  }
  EXPECT_EQ(test::faults(into, true), "");
  EXPECT_EQ(verify_collection(into, {.deep = true}, pool_)->without_files, 3);
}

TEST_F(WithoutFiles, IndexNeverPrunesThemAndTakesAFileThatComes) {
  const fs::path pictures = temporary_.path() / "pictures";
  test::write_text(pictures / "here.png", test::png(1));
  const fs::path folder =
      write({R"({"path": ")" + (pictures / "a.png").string() + R"("})",
             R"({"path": ")" + (pictures / "b.png").string() + R"(", "hash": ")" + sha256_hex(test::png(3)) +
                 R"("})",
             R"({"path": "/elsewhere/c.png", "hash": ")" + sha256_hex(test::png(4)) + R"("})",
             R"({"path": ")" + (pictures / "broken.png").string() + R"("})"});
  const fs::path into = make("c", {});
  ASSERT_EQ(import_all(into, folder).added, 4);
  IngestOptions force;
  force.prune = true;
  force.prune_guard = PruneGuard::kNothing;
  const IngestReport pruned = index(into, pictures, force);
  EXPECT_EQ(pruned.added, 1);
  EXPECT_EQ(pruned.removed, 0);
  EXPECT_EQ(pruned.missing, 0);
  // An input that is not there is a mistake, as without such items.
  {
    auto writer = CollectionWriter::open(into);
    EXPECT_EQ(ingest(*writer, encoder_, std::vector<fs::path>{"/elsewhere"}, force, pool_).error().code,
              ErrorCode::kNotFound);
  }
  const auto id_of = [&](const fs::path& path) {
    return CollectionReader::open(into)->item_of_path(path)->id;
  };
  const int64_t a = id_of(pictures / "a.png");
  const int64_t c = id_of("/elsewhere/c.png");
  test::write_text(pictures / "a.png", test::png(2));
  test::write_text(pictures / "b.png", test::png(3));
  test::write_text(pictures / "moved.png", test::png(4));
  test::write_text(pictures / "broken.png", "no picture");
  const int64_t encoded = encoder_.images;
  const IngestReport found = index(into, pictures, force);
  EXPECT_EQ(found.removed, 0);
  EXPECT_EQ(found.moved, 1);                // by its content
  EXPECT_EQ(encoder_.images - encoded, 1);  // the one of which nothing was known
  const auto collection = CollectionReader::open(into);
  for (const char* name : {"a.png", "b.png", "moved.png"}) {
    const auto item = collection->item_of_path(pictures / name);
    ASSERT_OK(item);
    EXPECT_FALSE(item->file.elsewhere) << name;
    EXPECT_NE(item->size, kUnknownState) << name;
  }
  EXPECT_EQ(collection->item_of_path(pictures / "a.png")->id, a);
  EXPECT_EQ(collection->item_of_path(pictures / "moved.png")->id, c);
  EXPECT_EQ(row_of(into, (pictures / "b.png").string()), test::unit_row(1));
  EXPECT_EQ(collection->item_of_path(pictures / "b.png")->width, 20);
  EXPECT_EQ(collection->item_of_path(pictures / "b.png")->format, "png");
  EXPECT_TRUE(collection->item_of_path(pictures / "broken.png")->file.elsewhere);
  EXPECT_EQ(test::faults(into, true), "");
  // Once it was here, its loss counts like any other's.
  fs::remove(pictures / "a.png");
  EXPECT_EQ(index(into, pictures, force).removed, 1);
}

// More than a block and than a transaction.
TEST_F(WithoutFiles, ManyAreImportedInTheirOrderAndOnce) {
  constexpr int kItems = 40'000;
  std::vector<std::string> lines;
  for (int i = 0; i < kItems; ++i) {
    // One in a thousand has the path of another, some of them far before it.
    const int number = i % 1000 == 999 ? i / 2 - 100 : i;
    lines.push_back(fmt::format(R"({{"path": "/p/{:05}.jpg", "caption": "number {}"}})", number, number));
  }
  lines[20'001] = "no json";
  const fs::path folder = write(lines);
  const fs::path into = make("c", {});
  const ImportReport report = import_all(into, folder, 16'384);
  EXPECT_EQ(report.added, kItems - 41);
  EXPECT_EQ(report.same, 40);
  ASSERT_EQ(report.failed.size(), 1U);
  EXPECT_EQ(report.failed[0].path, "items.jsonl:20002");
  const std::vector<Item> items = test::all_items(*CollectionReader::open(into));
  EXPECT_TRUE(std::ranges::is_sorted(items, {}, &Item::path));
  for (const int number : {0, 511, 512, 16'383, 16'384, 20'000, 20'002, 39'998}) {
    EXPECT_EQ(row_of(into, fmt::format("/p/{:05}.jpg", number)), test::unit_row(number)) << number;
  }
  EXPECT_EQ(test::faults(into), "");
  EXPECT_EQ(import_all(into, folder).same, kItems - 1);
  // One transaction gives the same items and rows, and more than a block of the rows' file at a time.
  const fs::path at_once = make("at-once", {});
  EXPECT_EQ(import_all(at_once, folder).added, report.added);
  const auto one = CollectionReader::open(into);
  const auto other = CollectionReader::open(at_once);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(test::faults(at_once), "");
  ASSERT_TRUE(std::ranges::equal(other->ids(), one->ids()));
  for (const Item& item : test::all_items(*other)) {
    const auto before = one->item(item.id);
    ASSERT_TRUE(before);
    ASSERT_EQ(item.path, before->path);
    ASSERT_TRUE(std::ranges::equal(other->rows().row(item.row), one->rows().row(before->row))) << item.path;
  }

  // So many are scanned in parts, on several connections: all of them see the same, whatever is written meanwhile.
  const auto reader = CollectionReader::open(into);
  EXPECT_EQ(reader->item_count(), report.added);
  for (const Item& item : items) ASSERT_EQ(reader->ids()[static_cast<size_t>(item.row)], item.id);
  const auto count = [](const CollectionReader& opened, const std::string& filter) {
    return std::ranges::count(opened.allowed(parse_filter(filter).value()).value(), 1);
  };
  std::vector<int64_t> ids;
  for (const Item& item : items) {
    if (item.id % 2 == 0) ids.push_back(item.id);
  }
  ASSERT_EQ(CollectionWriter::open(into)->remove_ids(ids).value(), std::ssize(ids));
  const auto later = CollectionReader::open(into);
  EXPECT_EQ(later->item_count(), report.added - std::ssize(ids));
  EXPECT_EQ(count(*reader, "id>=1"), report.added);
  EXPECT_EQ(count(*later, "id>=1"), later->item_count());
  EXPECT_EQ(count(*reader, "path~\"*/1????.jpg\""), 9'990);  // but for one in a thousand
  EXPECT_EQ(count(*reader, "id>100 and id<=200 or id>39000 and id<=39100"), 200);
  EXPECT_EQ(count(*later, "id>100 and id<=200 or id>39000 and id<=39100"), 100);
}

TEST_F(WithoutFiles, AnImportThatWasStoppedGoesOn) {
  std::vector<std::string> lines;
  for (int i = 0; i < 30'000; ++i) lines.push_back(fmt::format(R"({{"path": "/p/{:05}.jpg"}})", i));
  const fs::path folder = write(lines);
  const fs::path into = make("c", {});
  {
    auto writer = CollectionWriter::open(into);
    std::stop_source stop;
    const auto report = import_rows(
        *writer, folder, {.limits = {}, .no_files = true}, pool_,
        [&](const ProgressUpdate& progress) {
          if (progress.done > 1000) stop.request_stop();
        },
        stop.get_token());
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  }
  const int64_t there = CollectionReader::open(into)->item_count();
  EXPECT_GT(there, 1000);
  EXPECT_LT(there, 30'000);
  const ImportReport rest = import_all(into, folder);
  EXPECT_EQ(rest.same, there);
  EXPECT_EQ(rest.added, 30'000 - there);
  EXPECT_EQ(test::faults(into), "");
}

}  // namespace
}  // namespace saccade
