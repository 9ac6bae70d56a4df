#include <atomic>
#include <limits>
#include <random>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/checkpoint_place.h"
#include "saccade/collection/choose_collection.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/exchange.h"
#include "saccade/collection/picture.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_environment.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

class CollectionTest : public testing::Test {
 protected:
  // A collection of items "/a" (row 0), "/b" (1), "/c" (2).
  void make() {
    auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {test::put_of("/a", 1), test::put_of("/b", 2), test::put_of("/c", 3)};
    ASSERT_OK(writer->commit(change));
  }
  // Gives an item facts as of a file that was read as a whole.
  void give_facts(int64_t id, ItemFacts facts) {
    facts.read = FactsRead::kEverything;
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    CollectionChange change;
    change.facts.emplace_back(id, std::move(facts));
    ASSERT_OK(writer->commit(change));
  }
  // Opens the catalog past our own checks, as a vandal would.
  void damage(const std::string& sql) {
    auto database = Database::open(folder_ / "catalog.sqlite", Database::Mode::kWrite);
    ASSERT_OK(database);
    ASSERT_OK(database->execute(sql));
  }
  std::string open_error() {
    const auto collection = CollectionReader::open(folder_);
    return collection ? "opened" : collection.error().message;
  }

  test::TestFolder temporary_;
  fs::path folder_ = temporary_.path() / "photos";
};

TEST_F(CollectionTest, KeepsWhatItIsGiven) {
  IngestSettings settings;
  settings.background = BackgroundPolicy::kCheckpoint;
  settings.fast_decode = true;
  settings.convert_to_srgb = true;
  {
    auto writer = CollectionWriter::create(folder_, test::fake_checkpoint(), settings);
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {test::put_of("/a", 1), test::put_of("/b", 2)};
    change.puts[1].item.caption = "zwei Vögel";
    change.failures = {{"/bad.jpg", ErrorCode::kBadData, "cut off", 7, 8, 9, 1}};
    ASSERT_OK(writer->commit(change));
  }
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  EXPECT_EQ(collection->info().checkpoint.name, "fake");
  EXPECT_EQ(collection->info().checkpoint.path, "/checkpoints/fake");
  EXPECT_EQ(collection->info().settings.background, BackgroundPolicy::kCheckpoint);
  EXPECT_TRUE(collection->info().settings.fast_decode);
  EXPECT_TRUE(collection->info().settings.convert_to_srgb);
  EXPECT_THAT(collection->info().created,
              testing::MatchesRegex("2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z"));
  EXPECT_EQ(collection->item_count(), 2);
  ASSERT_EQ(collection->rows().rows(), 2);
  EXPECT_THAT(collection->rows().row(1), testing::ElementsAreArray(test::unit_row(2)));
  EXPECT_THAT(collection->alive(), ElementsAre(1, 1));
  EXPECT_THAT(collection->ids(), ElementsAre(1, 2));

  const auto item = collection->item(2);
  ASSERT_OK(item);
  EXPECT_EQ(item->path, "/b");
  EXPECT_EQ(item->row, 1);
  EXPECT_EQ(item->caption, "zwei Vögel");
  EXPECT_EQ(item->mtime_ns, int64_t{1'700'000'000} * 1'000'000'000 + 2);
  EXPECT_EQ(collection->item_of_row(0).value().path, "/a");
  EXPECT_EQ(collection->item_of_path("/b").value().id, 2);
  EXPECT_TRUE(collection->has_path("/b"));
  EXPECT_FALSE(collection->has_path("/b/"));
  EXPECT_EQ(collection->item(3).error().code, ErrorCode::kNotFound);

  const auto failures = collection->failures();
  ASSERT_OK(failures);
  ASSERT_EQ(failures->size(), 1U);
  EXPECT_EQ((*failures)[0].code, ErrorCode::kBadData);
  EXPECT_EQ((*failures)[0].reason, "cut off");
  const auto summary = collection->summary();
  ASSERT_OK(summary);
  EXPECT_EQ(summary->formats.at("jpeg"), 2);
  EXPECT_EQ(summary->captions, 1);
  EXPECT_EQ(summary->failures, 1);
  EXPECT_EQ(summary->file_bytes, 203);
  EXPECT_EQ(summary->row_bytes, 64);
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(CollectionTest, AnEmptyOneOpens) {
  ASSERT_OK(CollectionWriter::create(folder_, test::fake_checkpoint()));
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  EXPECT_EQ(collection->rows().rows(), 0);
  EXPECT_EQ(collection->item_count(), 0);
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(CollectionTest, ChangesReplaceRowsAndCompactDropsTheOldOnes) {
  make();
  auto writer = CollectionWriter::open(folder_);
  ASSERT_OK(writer);
  CollectionChange change;
  change.puts = {test::put_of("/b", 20), test::put_of("/d", 4)};
  change.puts[0].item.id = 2;
  change.removals = {1, 99};
  ASSERT_OK(writer->commit(change));

  auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  EXPECT_THAT(collection->ids(), ElementsAre(0, 0, 3, 2, 4));
  EXPECT_THAT(collection->alive(), ElementsAre(0, 0, 1, 1, 1));
  const MatrixView<const float> before = collection->rows();

  const auto dropped = writer->compact();
  ASSERT_OK(dropped);
  EXPECT_EQ(*dropped, 2);
  EXPECT_FALSE(fs::exists(folder_ / "rows-1.f32"));
  // A reader keeps its snapshot until it asks for the next.
  EXPECT_THAT(before.row(3), testing::ElementsAreArray(test::unit_row(20)));
  EXPECT_EQ(collection->item(2).value().row, 3);
  ASSERT_OK(collection->refresh());
  EXPECT_THAT(collection->ids(), ElementsAre(3, 2, 4));
  EXPECT_THAT(collection->rows().row(1), testing::ElementsAreArray(test::unit_row(20)));
  EXPECT_EQ(fs::file_size(folder_ / "rows-2.f32"), 3 * 8 * 4U);
  EXPECT_EQ(writer->compact().value(), 0);
  // Ids are not used again, and the writer goes on in the new generation.
  change = CollectionChange{};
  change.removals = {4};
  ASSERT_OK(writer->commit(change));
  change = CollectionChange{};
  change.puts = {test::put_of("/e", 5)};
  ASSERT_OK(writer->commit(change));
  ASSERT_OK(collection->refresh());
  EXPECT_THAT(collection->ids(), ElementsAre(3, 2, 0, 5));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(CollectionTest, RefusesWrongChangesAndStaysAsItWas) {
  make();
  auto writer = CollectionWriter::open(folder_);
  ASSERT_OK(writer);
  const auto error_of = [&](CollectionChange::Put put) {
    CollectionChange change;
    change.puts = {test::put_of("/fine", 9), std::move(put)};
    const auto status = writer->commit(change);
    return status ? Error{ErrorCode::kInternal, "accepted"} : status.error();
  };
  auto put = test::put_of("/x", 5);
  put.values.pop_back();
  EXPECT_THAT(error_of(put).message, HasSubstr("/x: a row of 7 columns, expected 8"));
  put = test::put_of("/x", 5);
  put.values[3] = std::nanf("");
  EXPECT_EQ(error_of(put).code, ErrorCode::kBadData);
  put.values.assign(8, 0.0F);
  EXPECT_THAT(error_of(put).message, HasSubstr("a row of length 0, expected 1"));
  EXPECT_THAT(error_of(test::put_of("/b", 5)).message, HasSubstr("/b: UNIQUE constraint failed: items.path"));
  put = test::put_of("/x", 5);
  put.item.id = 77;
  EXPECT_THAT(error_of(put).message, HasSubstr("/x: no item 77"));

  EXPECT_EQ(fs::file_size(folder_ / "rows-1.f32"), 3 * 8 * 4U);
  CollectionChange change;
  change.puts = {test::put_of("/d", 4)};
  ASSERT_OK(writer->commit(change));
  EXPECT_THAT(test::paths_of(*CollectionReader::open(folder_)), ElementsAre("/a", "/b", "/c", "/d"));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(CollectionTest, RemovesByPathFolderAndFilter) {
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  int seed = 0;
  for (const char* path :
       {"/p/a.jpg", "/p/b.jpg", "/p/sub/c.jpg", "/p0/d.jpg", "/p", "/q/*.jpg", "/q/z.jpg"}) {
    change.puts.push_back(test::put_of(path, ++seed));
  }
  ASSERT_OK(writer->commit(change));
  EXPECT_EQ(writer->remove_path("/q/*.jpg").value(), 1);  // a name, not a glob
  EXPECT_EQ(writer->remove_matching(*parse_filter("path~*/b.*")).value(), 1);
  EXPECT_EQ(writer->remove_path("/p/").value(), 3);
  EXPECT_EQ(writer->remove_path("/nowhere").value(), 0);
  EXPECT_EQ(writer->remove_ids(std::vector<int64_t>{4, 4711}).value(), 1);
  EXPECT_THAT(test::paths_of(*CollectionReader::open(folder_)), ElementsAre("/q/z.jpg"));
}

TEST_F(CollectionTest, HasOneWriterAndItsCheckpoint) {
  make();
  auto writer = CollectionWriter::open(folder_);
  ASSERT_OK(writer);
  const auto second = CollectionWriter::open(folder_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(second.error().message,
              HasSubstr(fmt::format("process {} is writing to this collection", ::getpid())));
  ASSERT_OK(CollectionReader::open(folder_));  // readers are always let in

  CheckpointId other = test::fake_checkpoint();
  other.name = "other";
  other.fingerprint = sha256_hex("other");
  const auto mismatch = CollectionWriter::open_or_create(folder_, other);
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(mismatch.error().message,
              HasSubstr("\"fake\" (fingerprint " + sha256_hex("fake encoder").substr(0, 12)));
  EXPECT_THAT(mismatch.error().message,
              HasSubstr("\"other\" (fingerprint " + sha256_hex("other").substr(0, 12)));
  EXPECT_THAT(mismatch.error().message, HasSubstr(folder_.string()));
}

TEST_F(CollectionTest, IsNotMadeInAFolderOfOtherThings) {
  test::write_text(folder_ / "holiday.jpg", "x");
  const auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kUsage);
  EXPECT_THAT(writer.error().message,
              HasSubstr("not a collection, and not empty (it holds \"holiday.jpg\")"));
  EXPECT_EQ(CollectionReader::open(folder_).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(CollectionWriter::open(temporary_.path() / "nowhere").error().message,
              HasSubstr("no collection here"));
  EXPECT_FALSE(fs::exists(temporary_.path() / "nowhere"));

  test::TestFolder other;
  folder_ = other.path() / "c";
  make();
  fs::remove(folder_ / "collection.json");
  EXPECT_THAT(CollectionWriter::open_or_create(folder_, test::fake_checkpoint()).error().message,
              HasSubstr("collection.json is missing beside a catalog of 3 items"));
  EXPECT_TRUE(fs::exists(folder_ / "catalog.sqlite"));
}

TEST_F(CollectionTest, LeavesFilesOfOthersAlone) {
  // A lock of somebody else's, also beside what makes the folder another's; rows that no collection wrote;
  // temporary files of others beside a collection.
  const std::vector<std::vector<std::string>> folders = {
      {"lock", "holiday.jpg"}, {"lock"}, {"rows-1.f32"}, {"late-1.ends"}, {"rows-draft.tmp-2"}};
  for (const auto& names : folders) {
    const test::TestFolder other;
    for (const std::string& name : names) other.write(name, "mine");
    EXPECT_FALSE(CollectionWriter::create(other.path(), test::fake_checkpoint())) << names.front();
    for (const std::string& name : names) EXPECT_EQ(read_file(other / name).value_or(""), "mine") << name;
    EXPECT_EQ(std::distance(fs::directory_iterator(other.path()), {}), std::ssize(names)) << names.front();
  }
  make();
  test::write_text(folder_ / "rows-plan.tmp-old", "mine");
  test::write_text(folder_ / "rows-2.f32.tmp-77-1", "of a killed compaction");
  ASSERT_OK(CollectionWriter::open(folder_));
  EXPECT_TRUE(fs::exists(folder_ / "rows-plan.tmp-old"));
  EXPECT_FALSE(fs::exists(folder_ / "rows-2.f32.tmp-77-1"));
}

TEST_F(CollectionTest, LeavesAnotherProgramsDatabaseAlone) {
  fs::create_directories(folder_);
  {
    auto database = Database::open(folder_ / "catalog.sqlite", Database::Mode::kCreate);
    ASSERT_OK(database);
    ASSERT_OK(database->execute("CREATE TABLE items (name TEXT)"));
  }
  const auto made = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("a database of another program"));
  EXPECT_TRUE(fs::exists(folder_ / "catalog.sqlite"));

  const fs::path other = temporary_.path() / "other";
  fs::create_directories(other);
  ASSERT_OK(write_file_atomic(other / "catalog.sqlite.bak", "kept"));
  EXPECT_FALSE(CollectionWriter::create(other, test::fake_checkpoint()));
  EXPECT_TRUE(fs::exists(other / "catalog.sqlite.bak"));
}

TEST_F(CollectionTest, ACheckpointThatMovedIsRememberedOnceTold) {
  make();
  CheckpointId moved = test::fake_checkpoint();
  moved.path = "/elsewhere/fake";
  ASSERT_OK(remember_checkpoint(folder_, moved));
  EXPECT_EQ(read_collection_info(folder_)->checkpoint.path, "/elsewhere/fake");
  EXPECT_EQ(open_error(), "opened");
  moved.fingerprint = sha256_hex("another");
  moved.path = "/third";
  EXPECT_EQ(remember_checkpoint(folder_, moved).error().code, ErrorCode::kMismatch);
  moved = test::fake_checkpoint();
  const auto writer = CollectionWriter::open(folder_);
  EXPECT_EQ(remember_checkpoint(folder_, moved).error().code, ErrorCode::kCancelled);  // somebody writes
  EXPECT_EQ(read_collection_info(folder_)->checkpoint.path, "/elsewhere/fake");
}

TEST_F(CollectionTest, FramesAreNamedByTheirSecondInAnyWriting) {
  std::vector<CollectionChange::Put> puts;
  for (const char* time : {"0.000", "10.000", "20.500"}) {
    auto put = test::put_of(std::string("/films/clip.mp4#t=") + time, 1);
    put.item.format = "video";
    puts.push_back(std::move(put));
  }
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  change.puts = puts;
  ASSERT_OK(writer->commit(change));
  EXPECT_EQ(CollectionReader::open(folder_)->item_of_path("/films/clip.mp4#t=10")->path,
            "/films/clip.mp4#t=10.000");
  EXPECT_EQ(CollectionReader::open(folder_)->item_of_path("/films/clip.mp4#t=20.5")->path,
            "/films/clip.mp4#t=20.500");
  EXPECT_FALSE(CollectionReader::open(folder_)->item_of_path("/films/clip.mp4#t=11"));
  EXPECT_EQ(writer->remove_path("/films/clip.mp4#t=10").value(), 1);
  EXPECT_EQ(writer->remove_path("/films/clip.mp4#t=10").value(), 0);
  EXPECT_EQ(writer->forget_removed("/films/clip.mp4#t=10").value(), 1);
  EXPECT_EQ(writer->remove_path("/films/clip.mp4").value(), 2);
}

constexpr std::string_view kDropFileColumns =
    "ALTER TABLE items DROP COLUMN linked; ALTER TABLE items DROP COLUMN folder_device; "
    "ALTER TABLE items DROP COLUMN inode; ALTER TABLE items DROP COLUMN device;";

TEST_F(CollectionTest, ACatalogFromBeforeFilesHadIdentitiesIsReadAndUpgraded) {
  make();
  const auto items = test::all_items(CollectionReader::open(folder_).value());
  ASSERT_FALSE(items.empty());
  damage(fmt::format("{} PRAGMA user_version = {}", kDropFileColumns, store::kFilesSince - 1));
  {
    const auto collection = CollectionReader::open(folder_);
    ASSERT_OK(collection);
    const auto before = test::all_items(*collection);
    ASSERT_EQ(before.size(), items.size());
    EXPECT_EQ(before[0].path, items[0].path);
    EXPECT_FALSE(before[0].file.known());
    EXPECT_EQ(collection->item_of_path(items[0].path)->id, items[0].id);
    EXPECT_TRUE(collection->allowed(parse_filter("width>=1").value()));
  }
  EXPECT_EQ(test::faults(folder_), "");
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    CollectionChange change;
    change.identities.emplace_back(items[0].id, FileIdentity{7, -8, 9, true});
    ASSERT_OK(writer->commit(change));
  }
  EXPECT_EQ(CollectionReader::open(folder_)->item(items[0].id)->file, (FileIdentity{7, -8, 9, true}));
  EXPECT_EQ(test::faults(folder_), "");
  EXPECT_EQ(open_error(), "opened");
}

// As the program wrote them before facts were kept: read as they are, brought up to date by who writes.
TEST_F(CollectionTest, AnOlderCatalogIsReadAsItIsAndUpgradedByAWriter) {
  make();
  const auto items = test::all_items(CollectionReader::open(folder_).value());
  ASSERT_FALSE(items.empty());
  damage(fmt::format("DROP TABLE facts; DROP TABLE removed; {} PRAGMA user_version = {}", kDropFileColumns,
                     store::kFactsSince - 1));
  {
    const auto collection = CollectionReader::open(folder_);
    ASSERT_OK(collection);
    EXPECT_EQ(test::all_items(*collection).size(), items.size());
    EXPECT_EQ(collection->facts(items[0].id)->read, FactsRead::kNothing);
    EXPECT_EQ(collection->summary()->looked_at, 0);
    const auto mask = collection->allowed(parse_filter("camera~canon or rating>=1").value());
    ASSERT_OK(mask);
    EXPECT_EQ(std::count(mask->begin(), mask->end(), 1), 0);
    EXPECT_THAT(*collection->removed(), testing::IsEmpty());
  }
  EXPECT_EQ(test::faults(folder_), "");
  ItemFacts given;
  given.picture.camera = "Canon";
  given.picture.keywords = {"one", "two"};
  given.look = ~uint64_t{0};
  give_facts(items[0].id, given);
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  const auto facts = collection->facts(items[0].id);
  EXPECT_EQ(facts->picture.camera, "Canon");
  EXPECT_EQ(facts->picture.keywords, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(facts->look, ~uint64_t{0});
  // With the item goes what was kept of it.
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer->remove_ids(std::vector<int64_t>{items[0].id}));
  }
  EXPECT_EQ(CollectionReader::open(folder_)->summary()->looked_at, 0);
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(CollectionTest, IsExactIfItDoesNotRecordHowJpegsAreDecoded) {
  IngestSettings settings;
  settings.fast_decode = true;
  settings.convert_to_srgb = true;
  Json json = store::settings_json(settings);
  const auto recorded = store::settings_of_json(json);
  ASSERT_OK(recorded);
  EXPECT_TRUE(recorded->fast_decode);
  ASSERT_EQ(json.erase("fast_decode"), 1U);
  const auto unrecorded = store::settings_of_json(json);
  ASSERT_OK(unrecorded);
  EXPECT_FALSE(unrecorded->fast_decode);
  EXPECT_TRUE(unrecorded->convert_to_srgb);
  json["fast_decode"] = "yes";
  EXPECT_THAT(store::settings_of_json(json).error().message, HasSubstr("fast_decode"));
}

TEST_F(CollectionTest, RefusesNewerForeignAndMixedFiles) {
  make();
  const std::string good = read_file(folder_ / "collection.json").value();
  const auto with = [&](std::string from, std::string to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    test::write_text(folder_ / "collection.json", text);
    return open_error();
  };
  EXPECT_THAT(with("\"format_version\": 1", "\"format_version\": 9"),
              HasSubstr("format version 9, this program reads up to 2"));
  EXPECT_THAT(with("saccade collection", "my photos"), HasSubstr("\"format\" is \"my photos\""));
  EXPECT_THAT(with("\"dim\": 8", "\"dim\": -8"), HasSubstr("\"dim\" is -8, expected 1 to 65536"));
  EXPECT_THAT(with("\"dim\": 8", "\"dim\": 16"), HasSubstr("catalog: made for fingerprint"));
  EXPECT_THAT(with("by_contrast", "pink"), HasSubstr("\"background\" is \"pink\""));
  EXPECT_THAT(with("{", ""), HasSubstr("not JSON"));
  for (size_t length = 0; length + 2 < good.size(); ++length) {
    test::write_text(folder_ / "collection.json", std::string_view(good).substr(0, length));
    ASSERT_NE(open_error(), "opened") << length;
  }
  test::write_text(folder_ / "collection.json", good);
  EXPECT_EQ(open_error(), "opened");

  damage("PRAGMA user_version = 9");
  EXPECT_THAT(open_error(),
              HasSubstr(fmt::format("photos: catalog: schema version 9, this program reads up to {}",
                                    store::kCatalogSchemaVersion)));
  EXPECT_EQ(CollectionReader::open(folder_).error().code, ErrorCode::kUnsupported);
  damage(fmt::format(
      "PRAGMA user_version = {}; CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items; END",
      store::kCatalogSchemaVersion));
  EXPECT_THAT(open_error(), HasSubstr("catalog: \"t\" is not as this schema version has it"));
  damage("DROP TRIGGER t; PRAGMA application_id = 1");
  EXPECT_THAT(open_error(), HasSubstr("a database of another program"));
}

// Another program may have changed the catalog: an answer says these times, and an export these words.
TEST_F(CollectionTest, TimesAndWordsOfNoMeaningAreNotRead) {
  make();
  const auto items = test::all_items(CollectionReader::open(folder_).value());
  ItemFacts given;
  given.picture.camera = "Canon";
  given.picture.taken = 1'700'000'000;
  give_facts(items[0].id, given);
  for (const char* taken : {"9000000000000000000", "-9223372036854775808", "7258118400"}) {
    damage(fmt::format("UPDATE facts SET taken = {}, facts_read = 99", taken));
    const auto collection = CollectionReader::open(folder_);
    const auto facts = collection->facts(items[0].id);
    ASSERT_OK(facts);
    EXPECT_EQ(facts->picture.taken, std::nullopt) << taken;
    EXPECT_EQ(facts->picture.camera, "Canon");
    EXPECT_EQ(facts->read, FactsRead::kNothing);
    EXPECT_TRUE(export_collection(*collection, temporary_.path() / taken));
  }
  EXPECT_EQ(store::utc_text(std::numeric_limits<int64_t>::max()), "9999-12-31T23:59:59Z");
  EXPECT_EQ(store::local_text(std::numeric_limits<int64_t>::min()), "0000-01-01T00:00:00");
}

TEST_F(CollectionTest, VerifyFindsFactsThatCannotBe) {
  make();
  const auto items = test::all_items(CollectionReader::open(folder_).value());
  ItemFacts given;
  given.picture.camera = "Canon";
  give_facts(items[0].id, given);
  EXPECT_EQ(test::faults(folder_), "");
  for (const char* harm : {"rating = 17", "latitude = 200, longitude = 1", "facts_read = 9", "grain = 7",
                           "camera = 'two\nlines'", "taken = 9000000000000000000"}) {
    damage(fmt::format("UPDATE facts SET {}", harm));
    EXPECT_THAT(test::faults(folder_), HasSubstr("what is kept of its file cannot be true")) << harm;
    damage(
        "UPDATE facts SET rating = NULL, latitude = NULL, longitude = NULL, facts_read = 2, grain = 0, "
        "camera = '', taken = NULL");
    EXPECT_EQ(test::faults(folder_), "");
  }
  damage("UPDATE facts SET id = 1000");
  EXPECT_THAT(test::faults(folder_), HasSubstr("facts: of 1 images that are not there"));
}

// A filter scans ranges of ids.
TEST_F(CollectionTest, IdsThatNoProgramGivesAreNotRead) {
  make();
  for (const char* id : {"9223372036854775807", "1152921504606846977", "0", "-2"}) {
    damage(fmt::format("UPDATE items SET id = {} WHERE row = 1", id));
    EXPECT_THAT(open_error(),
                HasSubstr(fmt::format("catalog: an item has id {}, expected 1 to 1152921504606846976", id)));
    EXPECT_THAT(test::faults(folder_), HasSubstr(fmt::format("item {0}: id {0}, expected 1 to", id)));
  }
  damage("UPDATE items SET id = 1152921504606846976 WHERE row = 1");
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  EXPECT_THAT(collection->allowed(parse_filter("size >= 1").value()).value(), ElementsAre(1, 1, 1));
}

TEST_F(CollectionTest, VerifyFindsWhatIsBroken) {
  make();
  damage("UPDATE items SET row = 17 WHERE id = 2");
  EXPECT_THAT(open_error(), HasSubstr("item 2 has row 17, but there are 3 rows"));
  EXPECT_THAT(test::faults(folder_), HasSubstr("item 2: row 17, but there are 3 rows"));
  damage("UPDATE items SET row = 1 WHERE id = 2");
  EXPECT_EQ(test::faults(folder_), "");

  const fs::path rows = folder_ / "rows-1.f32";
  const std::string good = read_file(rows).value();
  std::string bad = good;
  std::memset(bad.data() + 2 * 32, 0, 32);
  test::write_text(rows, bad);
  EXPECT_EQ(test::faults(folder_), "item 3: row 2: a row of length 0, expected 1\n");
  std::memset(bad.data() + 2 * 32, 0xff, 32);
  test::write_text(rows, bad);
  EXPECT_THAT(test::faults(folder_), HasSubstr("item 3: row 2: a row of length"));
  test::write_text(rows, good.substr(0, 95));
  EXPECT_THAT(open_error(), HasSubstr("95 bytes, but the catalog's 3 rows of 8 columns are 96"));
  EXPECT_THAT(CollectionWriter::open(folder_).error().message, HasSubstr("95 bytes"));
  EXPECT_THAT(test::faults(folder_), HasSubstr("holds 2 rows, the catalog says 3"));
  fs::remove(rows);
  EXPECT_THAT(open_error(), HasSubstr("rows-1.f32: No such file"));
  EXPECT_THAT(test::faults(folder_), HasSubstr("rows-1.f32"));
  ThreadPool pool(1);
  EXPECT_EQ(verify_collection(folder_, {}, pool)->items, 3);  // the catalog has them
}

TEST_F(CollectionTest, ACatalogOfRandomDamageIsAnErrorNotACrash) {
  make();
  const std::string good = read_file(folder_ / "catalog.sqlite").value();
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 150; ++round) {
    std::string bad = good;
    if (round % 3 == 0) {
      bad.resize(random() % bad.size());
    } else {
      for (int i = 0; i < 20; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    }
    for (const char* ending : {"-wal", "-shm"}) fs::remove(folder_.string() + "/catalog.sqlite" + ending);
    test::write_text(folder_ / "catalog.sqlite", bad);
    if (auto collection = CollectionReader::open(folder_)) {
      static_cast<void>(collection->summary().has_value());
      static_cast<void>(collection->for_each_item([](const Item&) { return Status{}; }).has_value());
      EXPECT_LE(collection->sample().rows(), collection->item_count());
    } else {
      ++refused;
      EXPECT_FALSE(collection.error().message.empty());
    }
    test::faults(folder_);
  }
  EXPECT_GT(refused, 50);
}

TEST_F(CollectionTest, ReadersSeeWholeChangesWhileAWriterWorks) {
  make();
  std::atomic<bool> done = false;
  std::thread writing([&] {
    auto writer = CollectionWriter::open(folder_).value();
    for (int i = 0; i < 40; ++i) {
      CollectionChange change;  // pairs: a reader must never see one without the other
      change.puts = {test::put_of(fmt::format("/x{}", i), i), test::put_of(fmt::format("/y{}", i), i)};
      if (i > 2) change.removals = {4 + 2 * (i - 2), 5 + 2 * (i - 2)};
      EXPECT_TRUE(writer.commit(change));
      if (i % 8 == 7) {
        EXPECT_TRUE(writer.compact());
      }
    }
    done = true;
  });
  int rounds = 0;
  while (!done || rounds == 0) {
    const auto collection = CollectionReader::open(folder_);
    if (!collection) {
      ADD_FAILURE() << collection.error().message;
      break;
    }
    int64_t balance = 0;
    for (const Item& item : test::all_items(*collection)) {
      if (item.path.starts_with("/x")) ++balance;
      if (item.path.starts_with("/y")) --balance;
      ASSERT_EQ(collection->ids()[static_cast<size_t>(item.row)], item.id);
      const auto row = collection->rows().row(item.row);
      const auto seed = static_cast<int>(item.size - 100);
      ASSERT_THAT(row, testing::ElementsAreArray(test::unit_row(seed)));
    }
    ASSERT_EQ(balance, 0);
    ++rounds;
  }
  writing.join();
  EXPECT_EQ(test::faults(folder_), "");
}

// Each compaction removes the rows file that a verification beside it may just have read the name of.
TEST_F(CollectionTest, VerifyingBesideCompactionFindsNoDamage) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late ? "late" : "one row");
    fs::remove_all(folder_);
    const auto put = [late](const std::string& path, int seed) {
      return late ? test::late_put_of(path, seed) : test::put_of(path, seed);
    };
    {
      auto writer = CollectionWriter::create(folder_, test::fake_checkpoint(),
                                             late ? test::late_settings_of() : IngestSettings{});
      ASSERT_OK(writer);
      CollectionChange change;
      for (int i = 0; i < 2'000; ++i) change.puts.push_back(put(fmt::format("/{:05}", i), i));
      ASSERT_OK(writer->commit(change));
    }
    std::atomic<bool> done = false;
    std::thread writing([&] {
      auto writer = CollectionWriter::open(folder_).value();
      for (int64_t i = 1; i <= 60; ++i) {
        CollectionChange change;
        change.removals = {i};
        EXPECT_TRUE(writer.commit(change));
        EXPECT_EQ(writer.compact().value_or(0), 1);
      }
      done = true;
    });
    int rounds = 0;
    for (; !done || rounds == 0; ++rounds) {
      const std::string found = test::faults(folder_);
      EXPECT_EQ(found, "") << "round " << rounds;
      if (!found.empty()) break;
    }
    writing.join();
    EXPECT_EQ(test::faults(folder_), "");
  }
}

TEST_F(CollectionTest, AReadOnlyFolderCanBeSearchedAndNotWritten) {
  make();
  // In a child, which can stop being root.
  const pid_t child = ::fork();
  if (child == 0) {
    ::chmod(temporary_.path().c_str(), 0755);
    ::chmod(folder_.c_str(), 0555);
    for (const auto& entry : fs::directory_iterator(folder_)) ::chmod(entry.path().c_str(), 0444);
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(10);
    const auto collection = CollectionReader::open(folder_);
    if (!collection || test::all_items(*collection).size() != 3) ::_exit(11);
    const auto writer = CollectionWriter::open(folder_);
    if (writer || writer.error().code != ErrorCode::kIo) ::_exit(12);
    if (writer.error().message.find("Permission denied") == std::string::npos) ::_exit(13);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::chmod(folder_.c_str(), 0755);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  EXPECT_EQ(test::faults(folder_), "");
}

TEST(CatalogPath, ResolvesFoldersAndKeepsTheName) {
  const test::TestFolder folder;
  fs::create_directory(folder.path() / "real");
  test::write_text(folder.path() / "real" / "a.png", "x");
  fs::create_directory_symlink(folder.path() / "real", folder.path() / "link");
  fs::create_symlink(folder.path() / "real" / "a.png", folder.path() / "real" / "b.png");
  const std::string real = (folder.path() / "real").string();
  EXPECT_EQ(catalog_path(folder.path() / "link" / "a.png"), real + "/a.png");
  EXPECT_EQ(catalog_path(folder.path() / "link" / "b.png"), real + "/b.png");
  EXPECT_EQ(catalog_path(folder.path() / "link" / "."), real);
  EXPECT_EQ(catalog_path(folder.path() / "real" / ".." / "link" / ""), real);
  EXPECT_EQ(catalog_path(folder.path() / "link" / "gone.png"), real + "/gone.png");
  EXPECT_EQ(catalog_path("/"), "/");
}

TEST_F(CollectionTest, FindsItemsWithLinksFollowedOrKept) {
  const fs::path top = temporary_.path();
  for (const char* name : {"photos-of/2024", "other/deep"}) fs::create_directories(top / name);
  fs::create_directory_symlink(top / "photos-of", top / "alias");
  fs::create_directory_symlink(top / "other", top / "photos-of/elsewhere");
  fs::create_directory_symlink(top / "other/deep", top / "other/deeper");
  auto writer = CollectionWriter::create(folder_, test::fake_checkpoint());
  ASSERT_OK(writer);
  const auto name = [&](const char* below) { return (top / below).string(); };
  CollectionChange change;
  const std::vector<std::string> paths = {name("photos-of/2024/a.png"), name("photos-of/elsewhere/b.png"),
                                          name("photos-of/elsewhere/c.png"), name("other/c.png"),
                                          name("photos-of/elsewhere/deeper/d.png")};
  for (size_t i = 0; i < paths.size(); ++i)
    change.puts.push_back(test::put_of(paths[i], static_cast<int>(i)));
  ASSERT_OK(writer->commit(change));
  const auto collection = CollectionReader::open(folder_);
  ASSERT_OK(collection);
  const auto found = [&](const fs::path& path) {
    const auto item = collection->item_of_path(path);
    if (item) return item->path;
    EXPECT_EQ(item.error().code, ErrorCode::kNotFound) << item.error().message;
    return std::string();
  };
  // As it is stored, however it was found.
  EXPECT_EQ(found(paths[0]), paths[0]);
  EXPECT_EQ(found(paths[1]), paths[1]);
  EXPECT_EQ(found(paths[4]), paths[4]);
  EXPECT_EQ(found(top / "photos-of/2024/../elsewhere/./b.png"), paths[1]);
  EXPECT_EQ(found(fs::path(paths[1]).lexically_relative(fs::current_path())), paths[1]);
  // A link above the one that was kept.
  EXPECT_EQ(found(top / "alias/2024/a.png"), paths[0]);
  EXPECT_EQ(found(top / "alias/elsewhere/b.png"), paths[1]);
  EXPECT_EQ(found(top / "alias/elsewhere/deeper/d.png"), paths[4]);
  // A file may have an item by each of its paths: the one of the path asked for comes first, then that without links.
  EXPECT_EQ(found(paths[3]), paths[3]);
  EXPECT_EQ(found(paths[2]), paths[2]);
  EXPECT_EQ(found(top / "alias/elsewhere/c.png"), paths[3]);
  // The real path is none by which the item was found.
  EXPECT_EQ(found(top / "other/b.png"), "");
  EXPECT_EQ(found(top / "other/deep/d.png"), "");
  EXPECT_EQ(found(top / "alias/elsewhere/none.png"), "");
  EXPECT_EQ(found("/"), "");

  // Likewise what is removed, and what may come again.
  EXPECT_EQ(writer->remove_path(top / "other/b.png"), 0);
  EXPECT_EQ(writer->remove_path(top / "alias/elsewhere/b.png"), 1);
  EXPECT_EQ(writer->remove_path(top / "alias/elsewhere/c.png"), 1);
  EXPECT_THAT(test::paths_of(*CollectionReader::open(folder_)),
              testing::UnorderedElementsAre(paths[0], paths[2], paths[4]));
  EXPECT_EQ(writer->remove_path(top / "photos-of/elsewhere"), 2);
  EXPECT_EQ(writer->forget_removed(top / "photos-of/elsewhere"), 3);
}

TEST(Background, IsDarkOnlyForWhatVanishesOnWhite) {
  const auto background = [](std::array<uint8_t, 3> colour, uint8_t alpha) {
    Image image = test::striped_image(0, 4, 4);
    image.channels = 4;
    image.mode = PixelMode::kRgba;
    image.pixels.assign(4 * 4 * 4, 0);  // black, but not to be seen
    for (size_t i = 0; i < 5; ++i) {
      std::copy(colour.begin(), colour.end(), image.pixels.begin() + static_cast<std::ptrdiff_t>(i * 4));
      image.pixels[i * 4 + 3] = alpha;
    }
    return choose_background(image)[0];
  };
  EXPECT_EQ(background({0, 0, 0}, 255), 255);
  EXPECT_EQ(background({255, 255, 255}, 255), 32);
  EXPECT_EQ(background({255, 255, 255}, 10), 32);
  EXPECT_EQ(background({255, 200, 0}, 255), 255);
  EXPECT_EQ(background({255, 255, 255}, 0), 255);                // nothing to see
  EXPECT_EQ(choose_background(test::striped_image(3))[0], 255);  // opaque
}

TEST(Picture, IsShrunkOnlyBeforeAResizeThatAverages) {
  Preprocessing preprocessing;
  const auto side = [&](bool fast) {
    IngestSettings settings;
    settings.fast_decode = fast;
    return picture_decode_options(settings, preprocessing).shrink_to_side;
  };
  EXPECT_EQ(side(true), 560);  // 2.5 * 224
  EXPECT_EQ(side(false), 0);
  for (const ResizeFilter filter : {ResizeFilter::kNearest, ResizeFilter::kBilinearNoAntialias}) {
    preprocessing.filter = filter;
    EXPECT_EQ(side(true), 0);
  }
  preprocessing.filter = ResizeFilter::kLanczos;
  EXPECT_EQ(side(true), 560);  // 2.5 * 224
  preprocessing.resize_mode = ResizeMode::kNone;
  EXPECT_EQ(side(true), 0);
}

TEST(Picture, JpegsOfFiveTimesTheInputAreDecodedSmaller) {
  Preprocessing preprocessing;
  preprocessing.resize_height = preprocessing.resize_width = 16;
  preprocessing.crop_height = preprocessing.crop_width = 16;
  IngestSettings settings;
  settings.fast_decode = true;
  // Returns the shorter side as decoded.
  const auto decoded = [&](const Result<std::string>& file) {
    if (!file) return 0;
    const auto picture =
        decode_image(std::as_bytes(std::span(*file)), picture_decode_options(settings, preprocessing));
    return picture ? std::min(picture->image.width, picture->image.height) : 0;
  };
  const auto jpeg = [](int width, int height) { return encode_jpeg(test::striped_image(0, width, height)); };
  EXPECT_EQ(decoded(jpeg(64, 64)), 64);    // 4 times: a half would be less than 2.5 times
  EXPECT_EQ(decoded(jpeg(200, 79)), 79);   // the shorter side counts
  EXPECT_EQ(decoded(jpeg(200, 80)), 40);   // 5 times, a half
  EXPECT_EQ(decoded(jpeg(159, 400)), 80);  // a half, rounded up
  EXPECT_EQ(decoded(jpeg(160, 400)), 40);  // 10 times, a quarter
  EXPECT_EQ(decoded(jpeg(320, 400)), 40);  // 20 times, an eighth
  EXPECT_EQ(decoded(encode_png(test::striped_image(0, 320, 400))), 320);
  settings.fast_decode = false;
  EXPECT_EQ(decoded(jpeg(320, 400)), 320);
}

TEST(RememberedCollections, WhatAKilledProgramLeftIsNoCollectionAndGoes) {
  const test::TestFolder folder;
  const test::TestVariable state("XDG_STATE_HOME", (folder / "state").string());
  ASSERT_OK(CollectionWriter::create(folder / "c", test::fake_checkpoint()));
  remember_collection(folder / "c");
  ASSERT_THAT(remembered_collections(), testing::ElementsAre(folder / "c"));
  const std::filesystem::path records = folder / "state/saccade/collections";
  const std::filesystem::path record = std::filesystem::directory_iterator(records)->path();
  std::filesystem::copy_file(record, record.string() + ".tmp-99-1");
  EXPECT_THAT(remembered_collections(), testing::ElementsAre(folder / "c"));
  remember_collection(folder / "c");
  EXPECT_FALSE(std::filesystem::exists(record.string() + ".tmp-99-1"));
  EXPECT_TRUE(std::filesystem::exists(record));
}

}  // namespace
}  // namespace saccade
