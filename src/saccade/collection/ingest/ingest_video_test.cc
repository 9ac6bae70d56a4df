// Videos in collections: a row a scene, and what happens to the rows when something happens to the file.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "saccade/collection/duplicates.h"
#include "saccade/collection/exchange.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/decode/test_video.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class IngestVideoTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.video_tools = find_video_tools();
    if (!options_.video_tools) GTEST_SKIP() << "ffmpeg and ffprobe are not installed";
    fs::create_directories(pictures_);
  }

  // One colour after the other, two seconds each: as many scenes.
  std::string video(const std::string& name, const std::vector<std::string>& colours) {
    const std::string file = (pictures_ / name).string();
    fs::create_directories(fs::path(file).parent_path());
    test::make_video(*options_.video_tools, file, colours);
    return file;
  }
  void picture(const std::string& name, int seed) { test::write_text(pictures_ / name, test::png(seed)); }

  IngestReport run(std::stop_token stop = {}) { return run_on({pictures_}, std::move(stop)); }
  IngestReport run_on(const std::vector<fs::path>& inputs, std::stop_token stop = {}) {
    auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint());
    EXPECT_TRUE(writer);
    ThreadPool pool(2);
    auto report = ingest(*writer, encoder_, inputs, options_, pool, {}, std::move(stop));
    EXPECT_TRUE(report) << report.error().message;
    return report ? *std::move(report) : IngestReport{};
  }
  CollectionReader open() { return CollectionReader::open(folder_).value(); }
  // Returns the existing items below the folder of images.
  std::vector<std::string> there() {
    std::vector<std::string> names;
    for (const std::string& path : test::paths_of(open()))
      names.push_back(path.substr(pictures_.string().size() + 1));
    return names;
  }
  std::vector<int64_t> ids() {
    std::vector<int64_t> ids;
    for (const Item& item : test::all_items(open())) ids.push_back(item.id);
    return ids;
  }

  test::TestFolder temporary_;
  fs::path pictures_ = temporary_.path() / "pictures";
  fs::path folder_ = temporary_.path() / "collection";
  test::FakeEncoder encoder_;
  IngestOptions options_;
};

TEST_F(IngestVideoTest, TakesInARowASceneAndSkipsTheVideoTheNextTime) {
  picture("a.png", 1);
  const std::string clip = video("clip.mp4", {"red", "lime", "blue"});
  const IngestReport first = run();
  EXPECT_EQ(first.seen, 2);
  EXPECT_EQ(first.added, 4);
  EXPECT_EQ(first.videos, 1);
  EXPECT_THAT(first.failed, IsEmpty());
  EXPECT_THAT(there(), ElementsAre("a.png", "clip.mp4#t=0.000", "clip.mp4#t=2.000", "clip.mp4#t=4.000"));
  const CollectionReader collection = open();
  const Item frame = collection.item_of_path(clip + "#t=2.000").value();
  EXPECT_EQ(frame.format, "video");
  EXPECT_EQ(frame.width, 64);
  EXPECT_EQ(frame.height, 48);
  EXPECT_EQ(frame.size, static_cast<int64_t>(fs::file_size(clip)));
  EXPECT_EQ(frame.hash, *sha256_file(clip) + "#t=2.000");
  EXPECT_NE(collection.facts(frame.id)->look, collection.facts(frame.id - 1)->look);
  EXPECT_EQ(collection.summary()->file_bytes,
            static_cast<int64_t>(fs::file_size(clip) + fs::file_size(pictures_ / "a.png")));
  EXPECT_EQ(test::faults(folder_, true), "");

  const int64_t encoded = encoder_.images;
  const IngestReport second = run();
  EXPECT_EQ(second.unchanged, 4);
  EXPECT_EQ(second.videos, 0);
  EXPECT_FALSE(second.encoder_used);
  EXPECT_EQ(encoder_.images, encoded);
}

TEST_F(IngestVideoTest, FollowsTouchesMovesCopiesAndRemovals) {
  const std::string clip = video("clip.mp4", {"red", "lime", "blue"});
  run();
  const std::vector<int64_t> before = ids();
  const int64_t encoded = encoder_.images;

  fs::last_write_time(clip, fs::last_write_time(clip) + std::chrono::hours(1));
  EXPECT_EQ(run().unchanged, 3);
  EXPECT_EQ(run().unchanged, 3);

  fs::create_directories(pictures_ / "holiday");
  fs::rename(clip, pictures_ / "holiday/beach.mp4");
  const IngestReport moved = run();
  EXPECT_EQ(moved.moved, 3);
  EXPECT_EQ(moved.added, 0);
  EXPECT_EQ(ids(), before);
  EXPECT_THAT(there(), ElementsAre("holiday/beach.mp4#t=0.000", "holiday/beach.mp4#t=2.000",
                                   "holiday/beach.mp4#t=4.000"));

  fs::copy_file(pictures_ / "holiday/beach.mp4", pictures_ / "copy.mp4");
  const IngestReport copied = run();
  EXPECT_EQ(copied.added, 3);
  EXPECT_EQ(copied.duplicates, 3);
  EXPECT_EQ(copied.videos, 0);
  EXPECT_EQ(encoder_.images, encoded);  // none of this was decoded
  EXPECT_EQ(test::faults(folder_, true), "");

  fs::remove(pictures_ / "holiday/beach.mp4");
  EXPECT_EQ(run().missing, 3);
  options_.prune = true;
  EXPECT_EQ(run().removed, 3);
  EXPECT_THAT(there(), SizeIs(3));
  fs::remove(pictures_ / "copy.mp4");
  EXPECT_EQ(run_on({pictures_ / "copy.mp4"}).removed, 3);
  EXPECT_THAT(there(), IsEmpty());
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestVideoTest, TakesAVideoInAnewThatHasChanged) {
  const std::string clip = video("clip.mp4", {"red", "lime", "blue"});
  run();
  const auto old = open().item_of_path(clip + "#t=0.000").value();
  video("clip.mp4", {"blue", "white"});
  const IngestReport report = run();
  EXPECT_EQ(report.updated, 2);
  EXPECT_EQ(report.added, 0);
  EXPECT_THAT(there(), ElementsAre("clip.mp4#t=0.000", "clip.mp4#t=2.000"));
  EXPECT_EQ(open().item_of_path(clip + "#t=0.000")->id, old.id);
  EXPECT_NE(open().item_of_path(clip + "#t=0.000")->row, old.row);
  EXPECT_EQ(test::faults(folder_, true), "");
  // Behind the collection's back: only `deep` can tell.
  const auto time = fs::last_write_time(clip);
  std::fstream(clip, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('\x77');
  fs::last_write_time(clip, time);
  EXPECT_EQ(test::faults(folder_), "");
  EXPECT_THAT(test::faults(folder_, true), HasSubstr("clip.mp4 at 0:02: the video has changed"));
}

TEST_F(IngestVideoTest, KeepsOutWhatWasRemoved) {
  const std::string clip = video("clip.mp4", {"red", "lime", "blue"});
  run();
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    EXPECT_EQ(writer.remove_path(clip + "#t=2.000").value(), 1);
  }
  EXPECT_EQ(run().unchanged, 2);
  EXPECT_THAT(there(), ElementsAre("clip.mp4#t=0.000", "clip.mp4#t=4.000"));
  // The frame stays out of what the video becomes, and of where it goes.
  fs::rename(clip, pictures_ / "b.mp4");
  EXPECT_EQ(run().moved, 2);
  EXPECT_THAT(there(), ElementsAre("b.mp4#t=0.000", "b.mp4#t=4.000"));
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    EXPECT_EQ(writer.remove_path(pictures_ / "b.mp4").value(), 2);
  }
  EXPECT_EQ(run().stayed_out, 1);
  EXPECT_THAT(there(), IsEmpty());
  fs::rename(pictures_ / "b.mp4", pictures_ / "c.mp4");
  run();
  EXPECT_THAT(there(), IsEmpty());
  {
    CollectionWriter writer = CollectionWriter::open(folder_).value();
    EXPECT_GE(writer.forget_removed(pictures_ / "c.mp4").value(), 2);
  }
  run();
  EXPECT_THAT(there(), testing::Contains("c.mp4#t=0.000"));
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestVideoTest, RemembersWhatCannotBeRead) {
  test::write_text(pictures_ / "text.mp4", "not a video");
  test::write_text(pictures_ / "empty.mkv", "");
  video("good.mp4", {"red"});
  const IngestReport first = run();
  ASSERT_THAT(first.failed, SizeIs(2));
  EXPECT_EQ(first.failed[0].path, (pictures_ / "empty.mkv").string());
  EXPECT_THAT(first.failed[1].reason, HasSubstr("no video that ffprobe reads"));
  EXPECT_EQ(first.added, 1);
  const IngestReport second = run();
  EXPECT_EQ(second.skipped_failed, 2);
  EXPECT_THAT(second.failed, IsEmpty());
  // Its failure goes with it, and is forgotten once it is a video.
  fs::rename(pictures_ / "text.mp4", pictures_ / "moved.mp4");
  EXPECT_EQ(run().skipped_failed, 2);
  video("moved.mp4", {"blue"});
  EXPECT_EQ(run().added, 1);
  EXPECT_THAT(open().failures().value(), SizeIs(1));
  // The earlier frames of a file that becomes corrupt are no longer found.
  test::write_text(pictures_ / "good.mp4", "no longer a video");
  EXPECT_THAT(run().failed, SizeIs(1));
  EXPECT_THAT(there(), ElementsAre("moved.mp4#t=0.000"));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(IngestVideoTest, CountsVideosThatNothingReads) {
  const std::string clip = video("clip.mp4", {"red"});
  picture("a.png", 1);
  options_.video_tools.reset();
  const IngestReport report = run();
  EXPECT_EQ(report.not_looked_at.endings.at(".mp4"), 1);
  EXPECT_EQ(report.added, 1);
  const IngestReport named = run_on({clip});
  ASSERT_THAT(named.failed, SizeIs(1));
  EXPECT_THAT(named.failed[0].reason, HasSubstr("install ffmpeg"));
  options_.video_tools = find_video_tools();
  EXPECT_EQ(run().added, 1);
  options_.videos.most_frames = 0;
  EXPECT_EQ(run().not_looked_at.endings.at(".mp4"), 1);
  // Existing videos stay in the collection.
  options_.prune = true;
  EXPECT_EQ(run().removed, 0);
  EXPECT_THAT(there(), ElementsAre("a.png", "clip.mp4#t=0.000"));
}

// Half a video would count as a whole one at the next run.
TEST_F(IngestVideoTest, TakesInAllFramesOrNone) {
  video("clip.mp4", {"red", "lime", "blue", "white", "red", "lime", "blue", "white"});
  options_.batch = 1;
  options_.items_per_transaction = 1;
  encoder_.fail_at_call = 5;
  {
    auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint());
    ThreadPool pool(2);
    EXPECT_FALSE(ingest(*writer, encoder_, std::vector<fs::path>{pictures_}, options_, pool));
  }
  EXPECT_THAT(there(), IsEmpty());
  encoder_.fail_at_call = -1;
  // Asked to stop in the middle.
  std::stop_source stop;
  {
    auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint());
    ThreadPool pool(2);
    const EncoderSource encoder = [&]() -> Result<EncoderBackend*> {
      stop.request_stop();
      return &encoder_;
    };
    const auto report =
        ingest(*writer, encoder, std::vector<fs::path>{pictures_}, options_, pool, {}, stop.get_token());
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->cancelled);
    EXPECT_EQ(report->added, 0);
    EXPECT_EQ(report->videos, 0);
  }
  EXPECT_THAT(there(), IsEmpty());
  EXPECT_EQ(run().added, 8);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestVideoTest, GivesACaptionToAllFrames) {
  video("clip.mp4", {"red", "lime"});
  test::write_text(pictures_ / "clip.txt", "a walk on the beach");
  run();
  for (const Item& item : test::all_items(open())) EXPECT_EQ(item.caption, "a walk on the beach");
  test::write_text(pictures_ / "clip.txt", "a swim");
  EXPECT_EQ(run().unchanged, 2);
  for (const Item& item : test::all_items(open())) EXPECT_EQ(item.caption, "a swim");
  // Words are the file's, not those of times.
  const CollectionReader collection = open();
  const std::vector<std::string> terms = {"clip", "000"};
  const std::vector<uint8_t> fields = collection.word_fields(1, terms).value();
  EXPECT_EQ(fields[0], 2);  // its name
  EXPECT_EQ(fields[1], 0);
}

TEST_F(IngestVideoTest, IsFilteredByTheVideosPath) {
  video("clip.mp4", {"red", "lime"});
  picture("a.png", 1);
  run();
  const auto count = [&](const std::string& text) {
    const auto filter = parse_filter(text);
    EXPECT_TRUE(filter) << filter.error().message;
    const auto allowed = open().allowed(*filter);
    EXPECT_TRUE(allowed);
    return std::ranges::count(*allowed, 1);
  };
  EXPECT_EQ(count("path~*.mp4"), 2);
  EXPECT_EQ(count("path~*.png"), 1);
  EXPECT_EQ(count("path~clip"), 2);
  EXPECT_EQ(count("path=" + (pictures_ / "clip.mp4").string()), 2);
  EXPECT_EQ(count("path~000"), 0);
  EXPECT_EQ(count("format=video"), 2);
}

TEST_F(IngestVideoTest, ComparesVideosByTheirBytesAlone) {
  const std::string clip = video("clip.mp4", {"red", "red", "lime"});
  fs::copy_file(clip, pictures_ / "copy.mp4");
  video("other.mp4", {"red", "lime"});
  options_.videos.every_seconds = 1;
  run();
  ThreadPool pool(2);
  const auto report = find_duplicates(open(), {}, pool);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->items, 3);
  EXPECT_EQ(report->not_looked_at, 0);
  ASSERT_THAT(report->groups, SizeIs(1));
  const DuplicateGroup& group = report->groups.front();
  EXPECT_EQ(group.likeness, Likeness::kSameBytes);
  ASSERT_THAT(group.members, SizeIs(2));
  EXPECT_EQ(group.members[0].item.path, clip);
  EXPECT_EQ(group.members[1].item.path, (pictures_ / "copy.mp4").string());
  // The script removes files, not frames.
  const std::string script = duplicates_script(*report);
  EXPECT_THAT(script, HasSubstr("rm -- '" + (pictures_ / "copy.mp4").string() + "'\n"));
}

TEST_F(IngestVideoTest, IsMergedExportedAndImported) {
  video("clip.mp4", {"red", "lime"});
  picture("a.png", 1);
  run();
  const fs::path exported = temporary_ / "export";
  ASSERT_OK(export_collection(open(), exported));
  const fs::path second = temporary_ / "second";
  {
    CollectionWriter writer = CollectionWriter::create(second, test::fake_checkpoint()).value();
    ThreadPool pool(2);
    const auto report = import_rows(writer, exported, {}, pool);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->added, 3);
    EXPECT_THAT(report->failed, IsEmpty());
  }
  const fs::path third = temporary_ / "third";
  {
    CollectionWriter writer = CollectionWriter::create(third, test::fake_checkpoint()).value();
    ASSERT_OK(merge_collection(writer, open()));
  }
  for (const fs::path& folder : {second, third}) {
    EXPECT_EQ(test::paths_of(CollectionReader::open(folder).value()), test::paths_of(open()));
    EXPECT_EQ(test::faults(folder, true), "");
    // As those that were taken in: nothing to do.
    folder_ = folder;
    EXPECT_EQ(run().unchanged, 3);
  }
  CollectionWriter writer = CollectionWriter::open(folder_).value();
  ASSERT_OK(writer.remove_path(pictures_ / "a.png"));
  EXPECT_EQ(writer.compact().value(), 1);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestVideoTest, IsWalkedLikePictures) {
  const std::string clip = video("clip.mp4", {"red"});
  const WalkOptions walking = walk_options_of(options_, folder_);
  const std::vector<fs::path> tops = {pictures_};
  EXPECT_TRUE(walk_would_take(clip, tops, walking));
  options_.videos.most_frames = 0;
  EXPECT_FALSE(walk_would_take(clip, tops, walk_options_of(options_, folder_)));
}

}  // namespace
}  // namespace saccade
