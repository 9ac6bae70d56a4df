// Collections encoded anew: what goes with the images, what a run does that goes on after another one, and what is left out.
#include "saccade/collection/reencode/reencode.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "saccade/collection/test_support.h"
#include "saccade/image/decode/test_video.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

CheckpointId new_checkpoint() {
  return {"new", "/checkpoints/new", sha256_hex("new encoder"), 8};
}

// An encoder of the same width with other embeddings: the columns of FakeEncoder's in the opposite order.
class NewEncoder : public test::FakeEncoder {
 public:
  NewEncoder() : info_(test::FakeEncoder::info()) { info_.fingerprint = new_checkpoint().fingerprint; }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    SACCADE_ASSIGN(Matrix<float> rows, test::FakeEncoder::encode_images(pixels));
    for (int64_t r = 0; r < rows.rows(); ++r) std::ranges::reverse(rows.row(r));
    return rows;
  }

 private:
  EncoderInfo info_;
};

class Reencode : public testing::Test {
 protected:
  std::string draw(const std::string& name, int seed) const {
    test::write_text(pictures_ / name, test::png(seed));
    return (pictures_ / name).string();
  }
  // Indexes the folder of images into a collection.
  void index(const fs::path& folder, const CheckpointId& checkpoint, EncoderBackend& encoder,
             bool prune = false) {
    auto writer = CollectionWriter::open_or_create(folder, checkpoint);
    ASSERT_OK(writer);
    ThreadPool pool(2);
    IngestOptions options;
    options.prune = prune;
    options.video_tools = find_video_tools();
    const std::vector<fs::path> inputs = {pictures_};
    ASSERT_OK(ingest(*writer, encoder, inputs, options, pool));
  }
  void index_first(bool prune = false) { index(first_, test::fake_checkpoint(), old_encoder_, prune); }

  Result<ReencodeReport> fill(const IngestOptions& options = {}, const ProgressCallback& progress = {},
                              std::stop_token stop = {}, const IngestSettings& settings = {}) {
    return fill_with(new_encoder_, new_checkpoint(), options, progress, std::move(stop), settings);
  }
  Result<ReencodeReport> fill_with(EncoderBackend& encoder, const CheckpointId& checkpoint,
                                   const IngestOptions& options, const ProgressCallback& progress = {},
                                   std::stop_token stop = {}, const IngestSettings& settings = {}) {
    SACCADE_ASSIGN(CollectionReader from, CollectionReader::open(first_));
    WriterOptions writing;
    writing.copy_of = identity_of(from.info());
    SACCADE_ASSIGN(CollectionWriter into,
                   CollectionWriter::open_or_create(second_, checkpoint, settings, writing));
    const EncoderSource source = [&]() -> Result<EncoderBackend*> { return &encoder; };
    return reencode(into, source, from, options, pool_, progress, std::move(stop));
  }
  static std::vector<float> row_of(const CollectionReader& collection, const std::string& path) {
    const auto item = collection.item_of_path(path);
    EXPECT_TRUE(item) << path;
    if (!item) return {};
    const auto row = collection.rows().row(item->row);
    return {row.begin(), row.end()};
  }
  // Expects that both collections have the same items in all but their embeddings.
  void expect_same_items() const {
    const auto first = CollectionReader::open(first_);
    const auto second = CollectionReader::open(second_);
    ASSERT_OK(first);
    ASSERT_OK(second);
    const std::vector<Item> wanted = test::all_items(*first);
    const std::vector<Item> found = test::all_items(*second);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(found[i].id, wanted[i].id);
      EXPECT_EQ(found[i].path, wanted[i].path);
      EXPECT_EQ(found[i].hash, wanted[i].hash) << wanted[i].path;
      EXPECT_EQ(found[i].size, wanted[i].size) << wanted[i].path;
      EXPECT_EQ(found[i].width, wanted[i].width) << wanted[i].path;
      EXPECT_EQ(found[i].height, wanted[i].height) << wanted[i].path;
      EXPECT_EQ(found[i].format, wanted[i].format) << wanted[i].path;
      EXPECT_EQ(found[i].caption, wanted[i].caption) << wanted[i].path;
      EXPECT_EQ(found[i].added, wanted[i].added) << wanted[i].path;
      EXPECT_EQ(second->facts(found[i].id).value(), first->facts(wanted[i].id).value()) << wanted[i].path;
    }
    EXPECT_EQ(test::faults(second_), "");
  }

  test::TestFolder temporary_;
  fs::path pictures_ = fs::canonical(temporary_.path()) / "pictures";
  fs::path first_ = temporary_.path() / "first";
  fs::path second_ = temporary_.path() / "second";
  test::FakeEncoder old_encoder_;
  NewEncoder new_encoder_;
  ThreadPool pool_{2};
};

TEST_F(Reencode, CopiesAllButTheEmbeddings) {
  for (int i = 0; i < 5; ++i) draw(fmt::format("{}.png", i), i);
  draw("copy.png", 0);
  test::write_text(pictures_ / "1.txt", "a striped image");
  index_first();
  {
    // Ids with a gap, a date of its own, and metadata that no file has.
    auto writer = CollectionWriter::open(first_);
    ASSERT_OK(writer);
    ASSERT_EQ(writer->remove_path(pictures_ / "2.png").value(), 1);
    const auto item = writer->find_path((pictures_ / "3.png").string());
    ASSERT_OK(item);
    ASSERT_TRUE(item->has_value());
    ItemFacts facts;
    facts.read = FactsRead::kEverything;
    facts.picture.camera = "Canon";
    facts.picture.keywords = {"one", "two"};
    facts.place = "Basel";
    CollectionChange change;
    change.updates = {**item};
    change.updates.front().added = 1'500'000'000;
    change.facts = {{(*item)->id, facts}};
    ASSERT_OK(writer->commit(change));
  }
  const auto report = fill();
  ASSERT_OK(report);
  EXPECT_EQ(report->items, 5);
  EXPECT_EQ(report->added, 5);
  EXPECT_EQ(report->duplicates, 1);
  EXPECT_EQ(report->unchanged, 0);
  EXPECT_THAT(report->failed, IsEmpty());
  EXPECT_FALSE(report->cancelled);
  EXPECT_EQ(new_encoder_.images, 4);
  expect_same_items();
  const auto second = CollectionReader::open(second_);
  ASSERT_OK(second);
  EXPECT_EQ(second->info().checkpoint.fingerprint, new_checkpoint().fingerprint);
  const auto removed = second->removed();
  ASSERT_OK(removed);
  ASSERT_THAT(*removed, SizeIs(1));
  EXPECT_EQ(removed->front().path, (pictures_ / "2.png").string());
  // The embeddings are those that indexing the files gives.
  const fs::path third = temporary_.path() / "third";
  NewEncoder again;
  index(third, new_checkpoint(), again);
  const auto indexed = CollectionReader::open(third);
  ASSERT_OK(indexed);
  for (const std::string& path : test::paths_of(*second)) {
    EXPECT_EQ(row_of(*second, path), row_of(*indexed, path)) << path;
  }
}

TEST_F(Reencode, ASecondRunEncodesNothing) {
  for (int i = 0; i < 3; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  ASSERT_OK(fill());
  const int64_t encoded = new_encoder_.images;
  const auto again = fill();
  ASSERT_OK(again);
  EXPECT_EQ(again->unchanged, 3);
  EXPECT_EQ(again->added + again->updated + again->described + again->moved + again->removed, 0);
  EXPECT_EQ(new_encoder_.images, encoded);
}

// A failure or a kill leaves all that was committed before.
TEST_F(Reencode, GoesOnBehindTheLastTransaction) {
  for (int i = 0; i < 8; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  IngestOptions options;
  options.batch = 1;
  options.items_per_transaction = 2;
  new_encoder_.fail_at_call = 6;
  const auto broken = fill(options);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("the device is gone"));
  new_encoder_.images = 0;
  const auto report = fill(options);
  ASSERT_OK(report);
  EXPECT_EQ(report->unchanged, 4);
  EXPECT_EQ(report->added, 4);
  EXPECT_EQ(new_encoder_.images, 4);
  expect_same_items();
}

TEST_F(Reencode, AStopLosesNothingThatWasEncoded) {
  for (int i = 0; i < 8; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  IngestOptions options;
  options.batch = 1;
  std::stop_source stop;
  const auto stopped = fill(
      options,
      [&](const ProgressUpdate& update) {
        if (update.done == 3) stop.request_stop();
      },
      stop.get_token());
  ASSERT_OK(stopped);
  EXPECT_TRUE(stopped->cancelled);
  EXPECT_EQ(stopped->added, 3);
  const auto report = fill(options);
  ASSERT_OK(report);
  EXPECT_FALSE(report->cancelled);
  EXPECT_EQ(report->added, 5);
  EXPECT_EQ(new_encoder_.images, 8);
  expect_same_items();
}

TEST_F(Reencode, TakesInWhatTheFirstGainedAndLostMeanwhile) {
  for (int i = 0; i < 4; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  bool changed = false;
  const auto report = fill({}, [&](const ProgressUpdate& update) {
    if (update.done == 0 || changed) return;
    changed = true;
    draw("later.png", 10);
    index_first();
    auto writer = CollectionWriter::open(first_);
    ASSERT_OK(writer);
    ASSERT_EQ(writer->remove_path(pictures_ / "0.png").value(), 1);
  });
  ASSERT_OK(report);
  ASSERT_TRUE(changed);
  EXPECT_EQ(report->items, 4);
  EXPECT_EQ(report->added, 5);
  EXPECT_EQ(report->removed, 1);
  expect_same_items();
  EXPECT_THAT(CollectionReader::open(second_).value().removed().value(), SizeIs(1));
}

// A failure counts as far as the item still lacks at the end.
TEST_F(Reencode, FailuresThatWereSettledMeanwhileAreNotReported) {
  for (int i = 0; i < 5; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  fs::remove(pictures_ / "0.png");
  std::ofstream(pictures_ / "1.png", std::ios::app) << "more";
  std::ofstream(pictures_ / "2.png", std::ios::app) << "more";
  bool changed = false;
  const auto report = fill({}, [&](const ProgressUpdate& update) {
    if (update.done == 0 || changed) return;
    changed = true;
    draw("1.png", 11);
    draw("2.png", 2);
    index_first();
    std::ofstream(pictures_ / "2.png", std::ios::app) << "more";
    auto writer = CollectionWriter::open(first_);
    ASSERT_OK(writer);
    ASSERT_EQ(writer->remove_path(pictures_ / "0.png").value(), 1);
  });
  ASSERT_OK(report);
  ASSERT_TRUE(changed);
  EXPECT_EQ(report->items, 4);
  ASSERT_THAT(report->failed, SizeIs(1));
  EXPECT_EQ(report->failed.front().path, (pictures_ / "2.png").string());
  EXPECT_THAT(test::paths_of(CollectionReader::open(second_).value()),
              testing::ElementsAre((pictures_ / "1.png").string(), (pictures_ / "3.png").string(),
                                   (pictures_ / "4.png").string()));
}

TEST_F(Reencode, AnItemThatMovedAndThenWentIsRemoved) {
  for (int i = 0; i < 3; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  ASSERT_OK(fill());
  fs::create_directories(pictures_ / "new");
  fs::rename(pictures_ / "0.png", pictures_ / "new" / "name.png");
  draw("5.png", 5);
  index_first(true);
  bool changed = false;
  const auto report = fill({}, [&](const ProgressUpdate& update) {
    if (update.done == 0 || changed) return;
    changed = true;
    auto writer = CollectionWriter::open(first_);
    ASSERT_OK(writer);
    ASSERT_EQ(writer->remove_path(pictures_ / "new" / "name.png").value(), 1);
  });
  ASSERT_OK(report);
  ASSERT_TRUE(changed);
  EXPECT_EQ(report->moved, 1);
  EXPECT_EQ(report->removed, 1);
  expect_same_items();
}

TEST_F(Reencode, ACollectionThatNeverRestsIsNotSaidToBeCopied) {
  draw("0.png", 0);
  index_first();
  int drawn = 0;
  const auto restless = fill({}, [&](const ProgressUpdate& update) {
    if (update.done == 0) return;
    ++drawn;
    draw(fmt::format("{}.png", drawn), drawn);
    index_first();
  });
  ASSERT_FALSE(restless);
  EXPECT_EQ(restless.error().code, ErrorCode::kLimit);
  EXPECT_THAT(restless.error().message, HasSubstr("has changed during each of 20 passes"));
  EXPECT_EQ(drawn, 20);
  const auto report = fill();
  ASSERT_OK(report);
  EXPECT_EQ(report->unchanged, 20);
  EXPECT_EQ(report->added, 1);
  expect_same_items();
}

TEST_F(Reencode, AStopEndsTheComparison) {
  {
    auto writer = CollectionWriter::create(first_, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    for (int i = 0; i < 600; ++i) change.puts.push_back(test::put_of(fmt::format("/{}.jpg", i), i));
    ASSERT_OK(writer->commit(change));
  }
  std::stop_source stop;
  int told = 0;
  const auto report = fill(
      {},
      [&](const ProgressUpdate& /*update*/) {
        ++told;
        stop.request_stop();
      },
      stop.get_token());
  ASSERT_OK(report);
  EXPECT_TRUE(report->cancelled);
  EXPECT_EQ(report->items, 0);
  EXPECT_EQ(told, 1);
}

TEST_F(Reencode, FollowsWhatChangedBetweenTwoRuns) {
  for (int i = 0; i < 5; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  ASSERT_OK(fill());
  new_encoder_.images = 0;
  fs::create_directories(pictures_ / "new");
  fs::rename(pictures_ / "0.png", pictures_ / "new" / "name.png");
  draw("1.png", 11);
  test::write_text(pictures_ / "2.txt", "a caption");
  fs::remove(pictures_ / "3.png");
  draw("5.png", 5);
  index_first(true);
  const auto report = fill();
  ASSERT_OK(report);
  EXPECT_EQ(report->moved, 1);
  EXPECT_EQ(report->updated, 1);
  EXPECT_EQ(report->described, 1);
  EXPECT_EQ(report->removed, 1);
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->unchanged, 1);
  EXPECT_EQ(new_encoder_.images, 2);
  expect_same_items();
}

TEST_F(Reencode, LeavesOutWhatIsNotThereOrHasChanged) {
  for (int i = 0; i < 4; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  fs::remove(pictures_ / "0.png");
  std::ofstream(pictures_ / "1.png", std::ios::app) << "more";
  std::string other = test::png(2);
  other.back() = static_cast<char>(other.back() + 1);
  test::write_text(pictures_ / "2.png", other);  // of the same size
  const auto report = fill();
  ASSERT_OK(report);
  EXPECT_EQ(report->items, 4);
  EXPECT_EQ(report->added, 1);
  ASSERT_THAT(report->failed, SizeIs(3));
  EXPECT_EQ(report->failed[0].path, (pictures_ / "0.png").string());
  EXPECT_EQ(report->failed[0].code, ErrorCode::kNotFound);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(report->failed[i].code, ErrorCode::kMismatch) << report->failed[i].reason;
    EXPECT_THAT(report->failed[i].reason, HasSubstr("changed since it was indexed"));
  }
  EXPECT_THAT(test::paths_of(CollectionReader::open(second_).value()),
              testing::ElementsAre((pictures_ / "3.png").string()));
  // Repaired, they are taken in.
  draw("0.png", 0);
  draw("1.png", 1);
  draw("2.png", 2);
  const auto again = fill();
  ASSERT_OK(again);
  EXPECT_EQ(again->added, 3);
  EXPECT_THAT(again->failed, IsEmpty());
  EXPECT_THAT(CollectionReader::open(second_).value().failures().value(), IsEmpty());
}

TEST_F(Reencode, AnItemThatWasImportedWithoutItsFileIsLeftOut) {
  const std::string here = draw("here.png", 1);
  {
    auto writer = CollectionWriter::create(first_, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {test::put_of("/elsewhere/a.jpg", 2), test::put_of(here, 1)};
    for (auto& put : change.puts) {
      put.item.file.elsewhere = true;
      put.item.hash.clear();
      put.item.size = put.item.mtime_ns = kUnknownState;
      put.item.width = put.item.height = 0;
      put.item.format.clear();
    }
    ASSERT_OK(writer->commit(change));
  }
  const auto report = fill();
  ASSERT_OK(report);
  ASSERT_THAT(report->failed, SizeIs(1));
  EXPECT_EQ(report->failed.front().path, "/elsewhere/a.jpg");
  EXPECT_THAT(report->failed.front().reason, HasSubstr("not on this host"));
  // The file of the other one is here by now.
  const auto second = CollectionReader::open(second_);
  ASSERT_OK(second);
  const auto item = second->item_of_path(here);
  ASSERT_OK(item);
  EXPECT_EQ(item->hash, sha256_hex(test::png(1)));
  EXPECT_EQ(item->width, 20);
  EXPECT_FALSE(item->file.elsewhere);
  const int64_t encoded = new_encoder_.images;
  ASSERT_OK(fill());
  EXPECT_EQ(new_encoder_.images, encoded);
}

TEST_F(Reencode, RefusesACollectionThatIsNoCopy) {
  draw("a.png", 1);
  index_first();
  index(second_, new_checkpoint(), new_encoder_);
  const auto other = fill();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(other.error().message, HasSubstr("not being filled from the first one"));
  second_ = first_;
  const auto same = fill_with(old_encoder_, test::fake_checkpoint(), {});
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().message, HasSubstr("the same collection"));
  EXPECT_EQ(CollectionReader::open(first_).value().item_count(), 1);
}

// Scripts create several in one second.
TEST_F(Reencode, CollectionsOfOneSecondAreTold) {
  draw("a.png", 1);
  index_first();
  const CollectionInfo first = CollectionReader::open(first_).value().info();
  fs::remove_all(first_);
  index_first();
  const CollectionInfo again = CollectionReader::open(first_).value().info();
  EXPECT_NE(identity_of(again), identity_of(first)) << again.created;
  CollectionInfo copy = first;
  copy.created = again.created;
  copy.copy_of = identity_of(first);
  EXPECT_TRUE(check_copy(copy, first));
  EXPECT_FALSE(check_copy(copy, again));
}

TEST_F(Reencode, RefusesAnotherEncoderThanTheCopyHas) {
  draw("a.png", 1);
  index_first();
  ASSERT_OK(fill());
  draw("b.png", 2);
  index_first();
  test::FakeEncoder other;
  const auto refused = fill_with(other, new_checkpoint(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
}

TEST_F(Reencode, KeepsRowsOfLateInteraction) {
  for (int i = 0; i < 3; ++i) draw(fmt::format("{}.png", i), i);
  index_first();
  test::FakeLateEncoder late;
  const auto report = fill_with(late, test::fake_checkpoint(), {}, {}, {}, test::late_settings_of());
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 3);
  expect_same_items();
  const auto second = CollectionReader::open(second_);
  ASSERT_OK(second);
  ASSERT_TRUE(second->has_late_rows());
  for (const Item& item : test::all_items(*second)) EXPECT_GT(second->late_rows(item.row).count, 0);
}

TEST_F(Reencode, EncodesFramesOfVideos) {
  const auto tools = find_video_tools();
  if (!tools) GTEST_SKIP() << "ffmpeg and ffprobe are not installed";
  fs::create_directories(pictures_);
  const std::string clip = (pictures_ / "clip.mp4").string();
  ASSERT_NO_FATAL_FAILURE(test::make_video(*tools, clip, {"red", "blue"}));
  index_first();
  IngestOptions options;
  const auto without = fill(options);
  ASSERT_OK(without);
  EXPECT_THAT(without->failed, SizeIs(2));
  options.video_tools = tools;
  const auto report = fill(options);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 2);
  EXPECT_THAT(report->failed, IsEmpty());
  expect_same_items();
  const auto second = CollectionReader::open(second_);
  ASSERT_OK(second);
  EXPECT_NE(row_of(*second, clip + "#t=0.000"), row_of(*second, clip + "#t=2.000"));
}

TEST_F(Reencode, AnIdThatIsWantedIsGivenOnce) {
  auto writer = CollectionWriter::create(first_, test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  change.puts = {test::put_of("/a", 1), test::put_of("/b", 2), test::put_of("/c", 3)};
  change.puts[0].wanted_id = 7;
  change.puts[1].wanted_id = 7;
  ASSERT_OK(writer->commit(change));
  const auto first = CollectionReader::open(first_);
  ASSERT_OK(first);
  EXPECT_EQ(first->item_of_path("/a").value().id, 7);
  EXPECT_EQ(first->item_of_path("/b").value().id, 8);
  EXPECT_EQ(first->item_of_path("/c").value().id, 9);
  EXPECT_EQ(test::faults(first_), "");
}

}  // namespace
}  // namespace saccade
