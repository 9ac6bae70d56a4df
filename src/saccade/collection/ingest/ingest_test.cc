#include "saccade/collection/ingest/ingest.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <set>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"
#include "saccade/core/threads.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

class IngestTest : public testing::Test {
 protected:
  std::string add(const std::string& name, int seed) {
    test::write_text(pictures_ / name, test::png(seed));
    return (pictures_ / name).string();
  }

  Result<IngestReport> run(const IngestOptions& options = {}, std::stop_token stop = {}, int threads = 2) {
    return run_on({pictures_}, options, std::move(stop), threads);
  }
  Result<IngestReport> run_on(const std::vector<fs::path>& inputs, const IngestOptions& options = {},
                              std::stop_token stop = {}, int threads = 2) {
    SACCADE_ASSIGN(CollectionWriter writer,
                   CollectionWriter::open_or_create(folder_, test::fake_checkpoint()));
    ThreadPool pool(threads);
    return ingest(writer, encoder_, inputs, options, pool, {}, std::move(stop));
  }
  CollectionReader open() { return CollectionReader::open(folder_).value(); }
  std::vector<float> row_of(const std::string& path) {
    const CollectionReader collection = open();
    const auto row = collection.rows().row(collection.item_of_path(path).value().row);
    return {row.begin(), row.end()};
  }

  test::TestFolder temporary_;
  fs::path pictures_ = temporary_.path() / "pictures";
  fs::path folder_ = temporary_.path() / "collection";
  test::FakeEncoder encoder_;
};

TEST_F(IngestTest, TakesInAFolderAndSkipsItTheNextTime) {
  add("b.png", 1);
  add("a/z.png", 2);
  add("a/y.PNG", 3);
  add(".hidden.png", 4);
  add(".cache/x.png", 5);
  test::write_text(pictures_ / "notes.md", "not a picture");
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->seen, 3);
  EXPECT_EQ(report->added, 3);
  EXPECT_THAT(report->failed, IsEmpty());
  EXPECT_GT(report->bytes_read, 0);
  EXPECT_EQ(test::faults(folder_, true), "");
  {
    const CollectionReader collection = open();
    // Ids in the order of the walk: a folder's own files, then those below.
    const auto items = test::all_items(collection);
    ASSERT_EQ(items.size(), 3U);
    EXPECT_EQ(items[0].path, (pictures_ / "b.png").string());
    EXPECT_EQ(items[1].path, (pictures_ / "a/y.PNG").string());
    EXPECT_EQ(items[2].path, (pictures_ / "a/z.png").string());
    EXPECT_EQ(items[0].width, 20);
    EXPECT_EQ(items[0].height, 16);
    EXPECT_EQ(items[0].format, "png");
    EXPECT_EQ(items[0].hash, sha256_hex(test::png(1)));
    EXPECT_EQ(items[0].size, static_cast<int64_t>(test::png(1).size()));
  }
  const int64_t encoded = encoder_.images;
  const auto again = run();
  ASSERT_OK(again);
  EXPECT_EQ(again->unchanged, 3);
  EXPECT_EQ(again->added + again->updated, 0);
  EXPECT_EQ(again->bytes_read, 0);
  EXPECT_EQ(encoder_.images, encoded);
}

TEST_F(IngestTest, GivesTheSameCollectionForAnyNumberOfThreadsAndBatchSize) {
  for (int i = 0; i < 40; ++i) add(fmt::format("{:02}.png", i), i);
  const auto content = [&](int threads, int batch) {
    folder_ = temporary_.path() / fmt::format("c-{}-{}", threads, batch);
    IngestOptions options;
    options.batch = batch;
    options.items_per_transaction = 7;
    EXPECT_EQ(run(options, {}, threads).value().added, 40);
    const CollectionReader collection = open();
    std::vector<std::pair<std::string, std::vector<float>>> items;
    for (const Item& item : test::all_items(collection)) {
      const auto row = collection.rows().row(item.row);
      items.emplace_back(item.path, std::vector<float>(row.begin(), row.end()));
    }
    return items;
  };
  const auto one = content(1, 1);
  EXPECT_EQ(content(4, 32), one);
  EXPECT_EQ(content(3, 5), one);
}

// Counts reads of a file, by inotify. Opening it is no read.
class ReadsOf {
 public:
  explicit ReadsOf(const std::string& path) : events_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(::inotify_add_watch(events_.get(), path.c_str(), IN_ACCESS), 0);
  }
  // Waits until the file is read, for so many milliseconds at most.
  [[nodiscard]] bool wait(int milliseconds) const {
    pollfd one{events_.get(), POLLIN, 0};
    return ::poll(&one, 1, milliseconds) == 1;
  }

 private:
  Descriptor events_;
};

// An encoder that watches a file during its first call.
class WatchingEncoder : public test::FakeEncoder {
 public:
  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    if (calls == 0) read_meanwhile = reads_->wait(milliseconds_);
    return FakeEncoder::encode_images(pixels);
  }
  void watch(const std::string& path, int milliseconds) {
    reads_.emplace(path);
    milliseconds_ = milliseconds;
  }
  bool read_meanwhile = false;

 private:
  std::optional<ReadsOf> reads_;
  int milliseconds_ = 0;
};

TEST_F(IngestTest, TheNextBlockIsPreparedWhileOneIsEncoded) {
  const int batch = std::max(32, 2 * available_processors());  // and so the files of a block
  for (int i = 0; i < 2 * batch; ++i) add(fmt::format("{:04}.png", i), i);
  const std::string last = (pictures_ / fmt::format("{:04}.png", 2 * batch - 1)).string();
  const auto index = [&](int threads, int milliseconds) {
    folder_ = temporary_.path() / fmt::format("c-{}", threads);
    WatchingEncoder encoder;
    encoder.watch(last, milliseconds);
    CollectionWriter writer = CollectionWriter::create(folder_, test::fake_checkpoint()).value();
    ThreadPool pool(threads);
    IngestOptions options;
    options.batch = batch;
    EXPECT_EQ(ingest(writer, encoder, std::vector<fs::path>{pictures_}, options, pool)->added, 2 * batch);
    return encoder.read_meanwhile;
  };
  EXPECT_TRUE(index(available_processors(), 20'000));
  // Fewer threads than processors were allowed: decoders and the encoder do not work at the same time.
  if (available_processors() > 1) {
    EXPECT_FALSE(index(available_processors() - 1, 200));
  }
}

TEST_F(IngestTest, NoticesChangedTouchedMovedAndDeletedFiles) {
  const std::string changed = add("changed.png", 1);
  const std::string touched = add("touched.png", 2);
  const std::string moved = add("moved.png", 3);
  const std::string deleted = add("deleted.png", 4);
  ASSERT_OK(run());
  const int64_t moved_id = open().item_of_path(moved)->id;
  const int64_t changed_id = open().item_of_path(changed)->id;
  const auto old_row = row_of(changed);

  add("changed.png", 11);
  fs::last_write_time(changed, fs::last_write_time(changed) + std::chrono::seconds(5));
  fs::last_write_time(touched, fs::last_write_time(touched) + std::chrono::seconds(5));
  fs::create_directories(pictures_ / "new");
  fs::rename(moved, pictures_ / "new" / "name.png");
  fs::remove(deleted);
  const int64_t encoded = encoder_.images;
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->updated, 1);
  EXPECT_EQ(report->unchanged, 1);
  EXPECT_EQ(report->moved, 1);
  EXPECT_EQ(report->missing, 1);
  EXPECT_EQ(report->removed, 0);
  EXPECT_EQ(report->added, 0);
  EXPECT_EQ(encoder_.images, encoded + 1);
  EXPECT_EQ(open().item_of_path(changed)->id, changed_id);
  EXPECT_NE(row_of(changed), old_row);
  EXPECT_EQ(open().item_of_path(pictures_ / "new" / "name.png")->id, moved_id);
  EXPECT_TRUE(open().item_of_path(deleted));

  IngestOptions prune;
  prune.prune = true;
  const auto pruned = run(prune);
  ASSERT_OK(pruned);
  EXPECT_EQ(pruned->removed, 1);
  EXPECT_EQ(pruned->unchanged, 3);
  EXPECT_EQ(open().item_of_path(deleted).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestTest, AFolderOfCopiesMoves) {
  constexpr int kCopies = 80;  // more than the catalog looks up at a time
  for (int i = 0; i < kCopies; ++i) add("old/" + std::to_string(i) + ".png", 7);
  ASSERT_OK(run());
  fs::rename(pictures_ / "old", pictures_ / "new");
  add("new/more.png", 7);
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->moved, kCopies);
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->missing, 0);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestTest, PruneTakesOnlyWhatIsBelowTheInputs) {
  const std::string kept = add("one/a.png", 1);
  const std::string gone = add("two/b.png", 2);
  ASSERT_OK(run());
  fs::remove(kept);
  fs::remove_all(pictures_ / "two");
  IngestOptions prune;
  prune.prune = true;
  // A folder that is no more may be on a disk that is not mounted.
  const auto refused = run_on({pictures_ / "two"}, prune);
  ASSERT_OK(refused);
  EXPECT_EQ(refused->removed, 0);
  EXPECT_EQ(refused->missing, 1);
  ASSERT_EQ(refused->failed.size(), 1U);
  EXPECT_EQ(refused->failed[0].path, (pictures_ / "two").string());
  EXPECT_THAT(refused->failed[0].reason, HasSubstr("missing (not mounted?): 1 image"));
  EXPECT_THAT(test::paths_of(open()), ElementsAre(kept, gone));
  prune.prune_guard = PruneGuard::kNothing;
  const auto report = run_on({pictures_ / "two"}, prune);
  ASSERT_OK(report);
  EXPECT_EQ(report->removed, 1);
  EXPECT_THAT(report->failed, IsEmpty());
  EXPECT_THAT(test::paths_of(open()), ElementsAre(kept));
}

TEST_F(IngestTest, PruneIsRefusedBelowAnEmptyFolder) {
  const std::string a = add("a.png", 1);
  const std::string b = add("below/b.png", 2);
  ASSERT_OK(run());
  // A mount point without its disk.
  fs::remove_all(pictures_);
  fs::create_directories(pictures_);
  IngestOptions prune;
  prune.prune = true;
  const auto refused = run(prune);
  ASSERT_OK(refused);
  EXPECT_EQ(refused->removed, 0);
  EXPECT_EQ(refused->missing, 2);
  ASSERT_EQ(refused->failed.size(), 1U);
  EXPECT_EQ(refused->failed[0].path, pictures_.string());
  EXPECT_THAT(refused->failed[0].reason, HasSubstr("empty (not mounted?): 2 images"));
  EXPECT_THAT(test::paths_of(open()), ElementsAre(a, b));
  // The whole above it does not change that.
  EXPECT_EQ(run_on({temporary_.path(), pictures_}, prune)->removed, 0);
  prune.prune_guard = PruneGuard::kNothing;
  EXPECT_EQ(run(prune)->removed, 2);
  EXPECT_THAT(test::paths_of(open()), IsEmpty());
}

// Without rights to mount anything, the catalog is told of another device than there is.
TEST_F(IngestTest, PruneIsRefusedOnAnotherDevice) {
  const std::string a = add("disk/a.png", 1);
  const std::string b = add("disk/b.png", 2);
  const std::string c = add("c.png", 3);
  const std::string d = add("d.png", 4);
  const std::string e = add("e.png", 5);
  ASSERT_OK(run());
  const auto items = test::all_items(open());
  for (const Item& item : items) EXPECT_TRUE(item.file.known() && item.file.folder_device != 0) << item.path;
  const auto record = [&](const std::string& path, int64_t device) {
    FileIdentity file = open().item_of_path(path)->file;
    file.folder_device = device;
    auto writer = CollectionWriter::open(folder_);
    CollectionChange change;
    change.identities.emplace_back(open().item_of_path(path)->id, file);
    ASSERT_OK(writer->commit(change));
  };
  record(a, 12345);
  record(b, 12345);
  fs::remove(a);
  fs::remove(b);
  fs::remove(c);
  IngestOptions prune;
  prune.prune = true;
  prune.prune_guard = PruneGuard::kDevices;
  const auto refused = run(prune);
  ASSERT_OK(refused);
  EXPECT_EQ(refused->removed, 1);  // c.png
  EXPECT_EQ(refused->missing, 2);
  ASSERT_EQ(refused->failed.size(), 1U);
  EXPECT_EQ(refused->failed[0].path, (pictures_ / "disk").string());
  EXPECT_THAT(refused->failed[0].reason, HasSubstr("another file system was here"));
  EXPECT_THAT(refused->failed[0].reason, HasSubstr("2 images below it kept"));
  // A file system whose device number has changed since the last start is recognized by its unchanged files.
  // There must be as many as are gone, since a few may have copies in a bare mount point.
  record(d, 12345);
  EXPECT_EQ(run(prune)->removed, 0);
  record(d, 12345);
  record(e, 12345);
  EXPECT_EQ(run()->missing, 2);  // once known the file system stays known
  EXPECT_EQ(run(prune)->removed, 2);
  EXPECT_THAT(test::paths_of(open()), ElementsAre(d, e));
  EXPECT_NE(open().item_of_path(d)->file.folder_device, 12345);
}

TEST_F(IngestTest, PruneTakesAPathThatBecameAFolder) {
  const std::string path = add("a.png", 1);
  const std::string other = add("b.png", 2);
  ASSERT_OK(run());
  fs::remove(path);
  const std::string inside = add("a.png/inside.png", 3);
  IngestOptions prune;
  prune.prune = true;
  const auto report = run(prune);
  ASSERT_OK(report);
  EXPECT_EQ(report->removed, 1);
  EXPECT_THAT(report->failed, IsEmpty());
  EXPECT_THAT(test::paths_of(open()), ElementsAre(inside, other));
}

TEST_F(IngestTest, SameContentIsEncodedOnce) {
  const std::string a = add("a.png", 1);
  const std::string b = add("b.png", 1);
  add("c.png", 2);
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 3);
  EXPECT_EQ(report->duplicates, 1);
  EXPECT_EQ(encoder_.images, 2);
  const std::string d = add("d.png", 1);  // and so in a later run
  EXPECT_EQ(run()->duplicates, 1);
  EXPECT_EQ(encoder_.images, 2);
  EXPECT_EQ(row_of(a), row_of(b));
  EXPECT_EQ(row_of(a), row_of(d));
  EXPECT_EQ(open().item_of_path(d)->width, 20);
  EXPECT_EQ(open().summary()->distinct_contents, 2);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestTest, FilesThatSwapNamesSwapRows) {
  const std::string a = add("a.png", 1);
  const std::string b = add("b.png", 22);
  ASSERT_OK(run());
  const auto row_a = row_of(a);
  const auto row_b = row_of(b);
  fs::rename(a, pictures_ / "t");
  fs::rename(b, a);
  fs::rename(pictures_ / "t", b);
  fs::last_write_time(a, fs::last_write_time(a) + std::chrono::seconds(5));
  fs::last_write_time(b, fs::last_write_time(b) + std::chrono::seconds(9));
  EXPECT_EQ(run()->updated, 2);
  EXPECT_EQ(row_of(a), row_b);
  EXPECT_EQ(row_of(b), row_a);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestTest, FailuresAreRememberedAndRetriedWhenAsked) {
  add("good.png", 1);
  test::write_text(pictures_ / "text.png", "this is no picture");
  test::write_text(pictures_ / "empty.jpg", "");
  test::write_text(pictures_ / "cut.png", test::png(5).substr(0, 60));
  fs::create_symlink("nowhere.png", pictures_ / "dangling.png");
  fs::create_symlink("itself.png", pictures_ / "itself.png");
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 1);
  ASSERT_EQ(report->failed.size(), 3U);
  EXPECT_THAT(report->failed[0].path, HasSubstr("cut.png"));
  EXPECT_EQ(report->not_looked_at.broken_links, 2);  // no failures: they may come to point somewhere
  for (const Failure& failure : report->failed) EXPECT_FALSE(failure.reason.empty()) << failure.path;
  EXPECT_EQ(open().failures()->size(), 3U);

  const auto again = run();
  ASSERT_OK(again);
  EXPECT_EQ(again->skipped_failed, 3);
  EXPECT_THAT(again->failed, IsEmpty());
  IngestOptions retry;
  retry.retry_failed = true;
  EXPECT_EQ(run(retry)->failed.size(), 3U);
  EXPECT_EQ((*open().failures())[0].tries, 2);

  add("text.png", 7);  // mended: tried without being asked, and forgotten
  EXPECT_EQ(run()->added, 1);
  EXPECT_EQ(open().failures()->size(), 2U);
  // They vanish with their files, and follow them without being tried.
  fs::remove(pictures_ / "empty.jpg");
  fs::create_directories(pictures_ / "below");
  fs::rename(pictures_ / "cut.png", pictures_ / "below" / "cut too.png");
  const auto followed = run();
  ASSERT_OK(followed);
  EXPECT_THAT(followed->failed, IsEmpty());
  EXPECT_EQ(followed->skipped_failed, 1);
  EXPECT_EQ(followed->bytes_read, 0);
  ASSERT_EQ(open().failures()->size(), 1U);
  EXPECT_EQ((*open().failures())[0].path, (pictures_ / "below" / "cut too.png").string());
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(IngestTest, WhatIsNotLookedAtIsCounted) {
  add("a.png", 1);
  add("sub/b.png", 2);
  add(".hidden.png", 3);
  test::write_text(pictures_ / "x.MOV", "video");
  test::write_text(pictures_ / "sub/y.mov", "video");
  test::write_text(pictures_ / "notes", "no ending");
  fs::create_directory_symlink(pictures_ / "sub", pictures_ / "link");
  fs::create_symlink("nowhere.png", pictures_ / "dangling.png");
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 2);
  EXPECT_THAT(report->failed, IsEmpty());
  const NotLookedAt& passed = report->not_looked_at;
  EXPECT_EQ(passed.endings, (std::map<std::string, int64_t>{{"", 1}, {".mov", 2}}));
  EXPECT_EQ(passed.folder_links, 1);
  EXPECT_EQ(passed.broken_links, 1);
  EXPECT_EQ(passed.hidden, 1);
  EXPECT_EQ(passed.excluded, 0);
  // Named by itself a link that leads nowhere is a failure.
  EXPECT_EQ(run_on({pictures_ / "dangling.png"})->failed.size(), 1U);
}

// The collection itself, which lies in a hidden folder of the images by default, is nothing that was passed over.
TEST_F(IngestTest, ItsOwnFolderIsNoHiddenFile) {
  folder_ = pictures_ / ".saccade";
  add("a.png", 1);
  ASSERT_OK(run());
  add("b.png", 2);
  const auto again = run();
  ASSERT_OK(again);
  EXPECT_EQ(again->added, 1);
  EXPECT_EQ(again->not_looked_at.hidden, 0);
  add(".c.png", 3);
  EXPECT_EQ(run()->not_looked_at.hidden, 1);
}

TEST_F(IngestTest, IgnoreFilesAndExcludedPatternsKeepOut) {
  add("keep.png", 1);
  add("drop.tmp.png", 2);
  add("raw/one.png", 3);
  add("album/best/two.png", 4);
  add("album/three.png", 5);
  add("album/four.png", 6);
  add("album/skip/five.png", 7);
  test::write_text(pictures_ / ".saccadeignore", "# of the whole tree\n*.tmp.png\n/raw/\nthree.png\n");
  test::write_text(pictures_ / "album/.saccadeignore", "!three.png\n/four.png\n");
  IngestOptions options;
  options.exclude = {"skip/"};
  const auto report = run(options);
  ASSERT_OK(report);
  EXPECT_THAT(test::paths_of(open()),
              ElementsAre((pictures_ / "album/best/two.png").string(),
                          (pictures_ / "album/three.png").string(), (pictures_ / "keep.png").string()));
  EXPECT_EQ(report->not_looked_at.excluded, 4);
  EXPECT_EQ(report->not_looked_at.hidden, 0);  // the ignore files themselves are no news
  options.exclude.clear();
  options.ignore_files = false;
  EXPECT_EQ(run(options)->added, 4);
}

TEST_F(IngestTest, WhatWasRemovedStaysOutUntilThatIsForgotten) {
  const std::string gone = add("gone.png", 1);
  add("stays.png", 2);
  ASSERT_OK(run());
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    EXPECT_EQ(writer->remove_path(gone).value(), 1);
  }
  auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 0);
  EXPECT_EQ(report->stayed_out, 1);
  EXPECT_EQ(open().summary()->removed, 1);
  // Under another name too, where this one is gone; a copy beside it is another file.
  const fs::path moved = pictures_ / "moved.png";
  fs::rename(gone, moved);
  report = run();
  EXPECT_EQ(report->added, 0);
  EXPECT_EQ(report->stayed_out, 1);
  add("copy.png", 1);
  EXPECT_EQ(run()->added, 1);
  {
    auto writer = CollectionWriter::open(folder_);
    ASSERT_OK(writer);
    EXPECT_EQ(writer->forget_removed(pictures_).value(), 1);
    EXPECT_EQ(writer->forget_removed(pictures_).value(), 0);
  }
  EXPECT_EQ(run()->added, 1);
  EXPECT_TRUE(open().item_of_path(moved));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(IngestTest, WithoutNewsNoEncoderIsAskedFor) {
  const std::string a = add("a.png", 1);
  add("b.png", 2);
  ASSERT_OK(run());
  int asked = 0;
  const EncoderSource source = [&]() -> Result<EncoderBackend*> {
    ++asked;
    return &encoder_;
  };
  const auto run_lazily = [&](const IngestOptions& options = {}) {
    auto writer = CollectionWriter::open(folder_);
    ThreadPool pool(2);
    return ingest(*writer, source, std::vector<fs::path>{pictures_}, options, pool);
  };
  fs::remove(a);
  IngestOptions prune;
  prune.prune = true;
  const auto pruned = run_lazily(prune);
  ASSERT_OK(pruned);
  EXPECT_EQ(pruned->removed, 1);
  EXPECT_FALSE(pruned->encoder_used);
  EXPECT_EQ(asked, 0);
  add("c.png", 3);
  const auto news = run_lazily();
  ASSERT_OK(news);
  EXPECT_EQ(news->added, 1);
  EXPECT_TRUE(news->encoder_used);
  EXPECT_EQ(asked, 1);
  // An embedding that the encoder fails to return is an error of the run.
  add("d.png", 4);
  auto writer = CollectionWriter::open(folder_);
  ThreadPool pool(1);
  const EncoderSource none = []() -> Result<EncoderBackend*> {
    return fail(ErrorCode::kNotFound, "no checkpoint");
  };
  EXPECT_EQ(ingest(*writer, none, std::vector<fs::path>{pictures_}, {}, pool).error().code,
            ErrorCode::kNotFound);
}

// A collection from before there were any: looked into once, and what is known otherwise stays.
TEST_F(IngestTest, WhatIsNotKnownOfItemsIsReadOnce) {
  add("a.png", 1);
  add("b.png", 2);
  IngestOptions without;
  without.facts = false;
  ASSERT_OK(run(without));
  EXPECT_EQ(open().summary()->looked_at, 0);
  const int64_t encoded = encoder_.images;
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->facts_read, 2);
  EXPECT_EQ(report->unchanged, 2);
  EXPECT_EQ(encoder_.images, encoded);
  EXPECT_EQ(open().summary()->looked_at, 2);
  EXPECT_NE(open().facts(1)->look, 0U);
  EXPECT_EQ(run()->facts_read, 0);
}

// Failures that are no property of the bytes (here time, and an encoder that returns NaN) are retried without
// a request.
TEST_F(IngestTest, WhatIsNotTheBytesFaultIsTriedAgainAtEveryRun) {
  add("a.png", 1);
  add("b.png", 2);
  test::write_text(pictures_ / "broken.png", "this is no picture");
  IngestOptions hurried;
  hurried.limits.max_seconds = 1e-9;
  for (int64_t tries = 1; tries <= 2; ++tries) {
    const auto report = run(hurried);
    ASSERT_OK(report);
    EXPECT_EQ(report->added, 0);
    EXPECT_EQ(report->failed.size(), tries == 1 ? 3U : 2U);
    EXPECT_EQ(report->skipped_failed, tries - 1);  // broken.png
    const auto failures = open().failures();
    ASSERT_OK(failures);
    ASSERT_EQ(failures->size(), 3U);
    EXPECT_EQ((*failures)[0].tries, tries);
    EXPECT_THAT((*failures)[0].reason, HasSubstr("seconds"));
  }
  IngestOptions one_by_one;
  one_by_one.batch = 1;
  encoder_.nan_at_image = 2;
  EXPECT_EQ(run(one_by_one)->added, 1);
  const auto last = run();
  ASSERT_OK(last);
  EXPECT_EQ(last->added, 1);
  EXPECT_EQ(last->skipped_failed, 1);
  EXPECT_THAT(last->failed, IsEmpty());
  EXPECT_EQ(open().failures()->size(), 1U);
}

TEST_F(IngestTest, AFileThatBreaksIsAFailureAndFoundNoMore) {
  const std::string path = add("a.png", 1);
  const std::string other = add("b.png", 2);
  ASSERT_OK(run());
  test::write_text(path, "half a copy");
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->failed.size(), 1U);
  EXPECT_THAT(test::paths_of(open()), ElementsAre(other));
  ASSERT_EQ(open().failures()->size(), 1U);
  EXPECT_EQ((*open().failures())[0].path, path);
  EXPECT_EQ(run()->skipped_failed, 1);
  add("a.png", 2);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_EQ(run()->added, 1);
  EXPECT_THAT(test::paths_of(open()), ElementsAre(path, other));
  EXPECT_THAT(*open().failures(), IsEmpty());
  EXPECT_EQ(test::faults(folder_, true), "");
}

// A collection may have both, the item and the failure, from a version that kept the item.
TEST_F(IngestTest, ABrokenFilesItemGoesAlthoughTheFileIsSkipped) {
  const std::string path = add("a.png", 1);
  ASSERT_OK(run());
  const Item item = open().item_of_path(path).value();
  test::write_text(path, "half a copy");
  ASSERT_OK(run());
  {
    auto writer = CollectionWriter::open(folder_);
    CollectionChange change;
    CollectionChange::Put put = test::put_of(path, 1);
    put.item = item;
    put.item.id = 0;
    change.puts.push_back(std::move(put));
    const Failure failure = (*open().failures())[0];
    ASSERT_OK(writer->commit(change));
    change = {};
    change.failures.push_back(failure);
    ASSERT_OK(writer->commit(change));
  }
  ASSERT_TRUE(open().item_of_path(path));
  EXPECT_EQ(run()->skipped_failed, 1);
  EXPECT_FALSE(open().item_of_path(path));
}

// Limits say nothing about bytes that may be what they were.
TEST_F(IngestTest, AFileThatIsTouchedAndNowTooLargeKeepsItsItem) {
  const std::string path = add("a.png", 1);
  ASSERT_OK(run());
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  IngestOptions strict;
  strict.limits.max_bytes = 10;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(run(strict));
    EXPECT_THAT(test::paths_of(open()), ElementsAre(path));
  }
}

TEST_F(IngestTest, TheLongestNamesHaveNoCaptionFileAndSoNoneIsUnread) {
  const std::string path = add(fmt::format("{:n>{}}", ".png", NAME_MAX), 1);
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 1);
  EXPECT_THAT(report->unread_captions, IsEmpty());
  EXPECT_TRUE(open().item_of_path(path));
}

// The identity of a file is recorded when it is first indexed, and again when it has changed.
TEST_F(IngestTest, NamesOfOneFileHaveOneIdentity) {
  const std::string real = add("real/a.png", 1);
  const std::string hard = (pictures_ / "hard.png").string();
  const std::string soft = (pictures_ / "soft.png").string();
  fs::create_hard_link(real, hard);
  fs::create_symlink(real, soft);
  ASSERT_OK(run());
  const auto file = [&](const std::string& path) { return open().item_of_path(path)->file; };
  EXPECT_TRUE(file(real).known());
  EXPECT_FALSE(file(real).linked);
  EXPECT_EQ(file(hard), file(real));
  EXPECT_TRUE(file(soft).linked);
  EXPECT_EQ(file(soft).inode, file(real).inode);
  EXPECT_EQ(file(soft).device, file(real).device);

  test::write_text(temporary_.path() / "other/b.png", test::png(2));
  fs::create_directory_symlink(temporary_.path() / "other", pictures_ / "elsewhere");
  IngestOptions follow;
  follow.follow_links = true;
  const std::string through = (pictures_ / "elsewhere/b.png").string();
  const auto followed = run(follow);
  ASSERT_OK(followed);
  EXPECT_EQ(followed->added, 1);
  ASSERT_TRUE(open().item_of_path(through))
      << (followed->failed.empty() ? "no failure" : followed->failed.front().reason);
  EXPECT_TRUE(file(through).linked) << file(through).inode;

  // Known once nothing was: the next run records it without reading the file.
  {
    auto writer = CollectionWriter::open(folder_);
    CollectionChange change;
    change.identities.emplace_back(open().item_of_path(real)->id, FileIdentity{});
    ASSERT_OK(writer->commit(change));
  }
  ASSERT_FALSE(file(real).known());
  EXPECT_EQ(run()->bytes_read, 0);
  EXPECT_EQ(file(real), file(hard));
}

TEST_F(IngestTest, FilesNamedByThemselvesAreTriedWhateverTheirName) {
  add("picture.dat", 1);
  const std::string pipe = (pictures_ / "pipe.png").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto report =
      run_on({pictures_ / "picture.dat", pictures_ / "picture.dat", pictures_ / "missing.png", pipe});
  ASSERT_OK(report);
  EXPECT_EQ(report->seen, 2);
  EXPECT_EQ(report->added, 1);
  ASSERT_EQ(report->failed.size(), 2U);
  EXPECT_THAT(report->failed[0].path, HasSubstr("missing.png"));
  EXPECT_EQ(report->failed[0].code, ErrorCode::kNotFound);
  EXPECT_THAT(report->failed[1].reason, HasSubstr("pipe"));

  const auto nothing = run_on({pictures_ / "missing.png"});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(nothing.error().message, HasSubstr("missing.png: no such file or folder"));
}

TEST_F(IngestTest, LinksToFoldersAreFollowedOnlyWhenAskedAndOnce) {
  add("real/a.png", 1);
  fs::create_directory_symlink(pictures_, pictures_ / "real" / "loop");
  fs::create_directory_symlink(temporary_.path() / "elsewhere", pictures_ / "link");
  test::write_text(temporary_.path() / "elsewhere" / "b.png", test::png(2));
  EXPECT_EQ(run()->added, 1);
  IngestOptions follow;
  follow.follow_links = true;
  const auto report = run(follow);
  ASSERT_OK(report);
  EXPECT_EQ(report->seen, 2);
  EXPECT_THAT(test::paths_of(open()),
              ElementsAre((pictures_ / "link/b.png").string(), (pictures_ / "real/a.png").string()));
}

TEST_F(IngestTest, CaptionsComeFromSidecarsAndTheCaller) {
  const std::string a = add("a.png", 1);
  const std::string b = add("b.png", 2);
  const std::string c = add("c.png", 3);
  test::write_text(pictures_ / "a.txt", "\xef\xbb\xbf  two birds\n");
  test::write_text(pictures_ / "b.png.txt", "from the sidecar");
  IngestOptions options;
  options.captions[b] = "from the manifest";
  options.captions[(pictures_ / "elsewhere.png").string()] = "of a picture that is not there";
  for (int again = 0; again < 2; ++again) {
    const auto captioned = run(options);
    ASSERT_OK(captioned);
    EXPECT_EQ(captioned->given_captions, 1);
  }
  EXPECT_EQ(open().item_of_path(a)->caption, "two birds");
  EXPECT_EQ(open().item_of_path(b)->caption, "from the manifest");
  EXPECT_EQ(open().item_of_path(c)->caption, "");
  // One that is no caption is said, its picture is taken in.
  const std::string d = add("d.png", 4);
  test::write_text(pictures_ / "d.txt", std::string((64 << 10) + 1, 'x'));
  const auto told = run(options);
  ASSERT_OK(told);
  EXPECT_THAT(told->failed, testing::IsEmpty());
  ASSERT_EQ(told->unread_captions.size(), 1U);
  EXPECT_EQ(told->unread_captions[0].path, (pictures_ / "d.txt").string());
  EXPECT_EQ(told->unread_captions[0].code, ErrorCode::kLimit);
  EXPECT_EQ(open().item_of_path(d)->caption, "");
  fs::remove(pictures_ / "d.txt");
  // A caption that changes is taken over without touching the row; one that is gone stays.
  test::write_text(pictures_ / "a.txt", "three birds");
  fs::remove(pictures_ / "b.png.txt");
  const int64_t encoded = encoder_.images;
  EXPECT_EQ(run()->unchanged, 4);
  EXPECT_EQ(encoder_.images, encoded);
  EXPECT_EQ(open().item_of_path(a)->caption, "three birds");
  EXPECT_EQ(open().item_of_path(b)->caption, "from the manifest");
}

TEST_F(IngestTest, StopsCleanlyAndGoesOn) {
  for (int i = 0; i < 60; ++i) add(fmt::format("{:02}.png", i), i);
  IngestOptions options;
  options.batch = 4;
  options.items_per_transaction = 4;
  std::stop_source source;
  {
    auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint());
    ASSERT_OK(writer);
    ThreadPool pool(2);
    const auto report = ingest(
        *writer, encoder_, std::vector<fs::path>{pictures_}, options, pool,
        [&](const ProgressUpdate& update) {
          if (update.what == "indexing" && update.done >= 20) source.request_stop();
        },
        source.get_token());
    ASSERT_OK(report);
    EXPECT_TRUE(report->cancelled);
    EXPECT_GT(report->added, 0);
    EXPECT_LT(report->added, 60);
    EXPECT_EQ(CollectionReader::open(folder_)->item_count(), report->added);
  }
  EXPECT_EQ(test::faults(folder_), "");
  const int64_t before = open().item_count();
  const auto rest = run(options);
  ASSERT_OK(rest);
  EXPECT_EQ(rest->unchanged, before);
  EXPECT_EQ(rest->added, 60 - before);
  EXPECT_EQ(open().item_count(), 60);
  EXPECT_EQ(test::faults(folder_, true), "");
}

// A pass of the model that ends because it was asked to stop is a stop, not a failure.
TEST_F(IngestTest, StopsInTheMiddleOfAPassAndGoesOn) {
  for (int i = 0; i < 30; ++i) add(fmt::format("{:02}.png", i), i);
  IngestOptions options;
  options.batch = 5;
  options.items_per_transaction = 100;
  encoder_.fail_at_call = 4;
  encoder_.fail_with = ErrorCode::kCancelled;
  const auto report = run(options);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 25);
  EXPECT_EQ(report->failed.size(), 0U);
  EXPECT_EQ(open().item_count(), 25);
  const auto rest = run(options);
  ASSERT_OK(rest);
  EXPECT_EQ(rest->unchanged, 25);
  EXPECT_EQ(rest->added, 5);
  EXPECT_EQ(test::faults(folder_, true), "");
}

TEST_F(IngestTest, AFailingEncoderEndsTheRunAndKeepsWhatWasCommitted) {
  for (int i = 0; i < 30; ++i) add(fmt::format("{:02}.png", i), i);
  IngestOptions options;
  options.batch = 5;
  options.items_per_transaction = 5;
  encoder_.fail_at_call = 4;
  const auto report = run(options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("encode images: the device is gone"));
  EXPECT_EQ(open().item_count() % 5, 0);
  EXPECT_GE(open().item_count(), 10);
  EXPECT_EQ(run(options)->added, 30 - 15);
  EXPECT_EQ(open().item_count(), 30);
}

TEST_F(IngestTest, ARowThatIsNotANumberIsAFailureOfItsFile) {
  for (int i = 0; i < 3; ++i) add(fmt::format("{}.png", i), i);
  IngestOptions options;
  options.batch = 1;
  encoder_.nan_at_image = 2;
  const auto report = run(options);
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 2);
  ASSERT_EQ(report->failed.size(), 1U);
  EXPECT_THAT(report->failed[0].reason, HasSubstr("the encoder gave a row of length nan"));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(IngestTest, RefusesAnotherEncoder) {
  CheckpointId other = test::fake_checkpoint();
  other.fingerprint = sha256_hex("other");
  auto writer = CollectionWriter::create(folder_, other);
  ASSERT_OK(writer);
  ThreadPool pool(1);
  const auto report = ingest(*writer, encoder_, std::vector<fs::path>{pictures_}, {}, pool);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kMismatch);
}

TEST_F(IngestTest, RefusesAnotherPrecisionUnlessTold) {
  add("a.png", 1);
  ASSERT_OK(run());
  EXPECT_EQ(read_collection_info(folder_)->settings.precision, Precision::kFp32);
  add("b.png", 2);
  encoder_.set_precision(Precision::kInt8);
  const auto refused = run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(refused.error().message,
              HasSubstr("its embeddings are in fp32, the encoder computes in int8: use fp32, or allow"));
  IngestOptions options;
  options.mix_precisions = true;
  const auto mixed = run(options);
  ASSERT_OK(mixed);
  EXPECT_EQ(mixed->added, 1);
  // The precision in a collection.json of another program is not assumed.
  const fs::path file = folder_ / "collection.json";
  Json json = read_json(file).value();
  EXPECT_EQ(json["settings"]["precision"], "fp32");
  json["settings"]["precision"] = "int4";
  test::write_text(file, dump_json(json));
  EXPECT_EQ(read_collection_info(folder_).error().code, ErrorCode::kUnsupported);
  json["settings"].erase("precision");  // as collections were written before
  test::write_text(file, dump_json(json));
  EXPECT_EQ(read_collection_info(folder_)->settings.precision, Precision::kFp32);
}

TEST_F(IngestTest, LimitsHoldAndLargePicturesPassOneAtATime) {
  add("small.png", 1);
  test::write_text(pictures_ / "large.png", encode_png(test::striped_image(2, 600, 500)).value());
  IngestOptions options;
  options.pixels_in_flight = 1'000;  // less than any of them: each decodes alone, none is refused for it
  EXPECT_EQ(run(options)->added, 2);

  fs::remove_all(folder_);
  options.limits.max_pixels = 100'000;
  const auto limited = run(options);
  ASSERT_OK(limited);
  EXPECT_EQ(limited->added, 1);
  ASSERT_EQ(limited->failed.size(), 1U);
  EXPECT_EQ(limited->failed[0].code, ErrorCode::kLimit);

  options = IngestOptions{};
  options.retry_failed = true;
  options.limits.max_bytes = 200;
  EXPECT_EQ(run(options)->failed.at(0).code, ErrorCode::kLimit);
}

TEST_F(IngestTest, DoesNotLookIntoTheCollectionItself) {
  add("a.png", 1);
  folder_ = pictures_ / "collection";
  ASSERT_OK(run());
  add("collection/thumbnail.png", 2);
  EXPECT_EQ(run()->seen, 1);
}

// Ran by the test below in a process of its own; by itself, a run like any other.
TEST_F(IngestTest, ChildIndexes) {
  WriterOptions options;
  int steps = 0;
  const char* folder = std::getenv("SACCADE_TEST_CHILD_FOLDER");
  const char* step = std::getenv("SACCADE_TEST_CHILD_STEP");
  if (folder != nullptr) {
    fs::remove_all(temporary_.path());  // it may be killed before its end
    pictures_ = fs::path(folder) / "pictures";
    folder_ = fs::path(folder) / "collection";
  } else {
    add("a.png", 1);
  }
  options.on_step = [&](std::string_view) {
    if (step != nullptr && ++steps == std::atoi(step)) ::kill(::getpid(), SIGKILL);
  };
  auto writer = CollectionWriter::open_or_create(folder_, test::fake_checkpoint(), {}, options);
  ASSERT_OK(writer);
  IngestOptions ingest_options;
  ingest_options.batch = 3;
  ingest_options.items_per_transaction = 6;
  ThreadPool pool(2);
  ASSERT_OK(ingest(*writer, encoder_, std::vector<fs::path>{pictures_}, ingest_options, pool));
}

TEST_F(IngestTest, KilledAgainAndAgainItEndsWithEachPictureOnce) {
  std::set<std::string> names;
  for (int i = 0; i < 30; ++i) names.insert(add(fmt::format("{:02}.png", i), i));
  std::string folder = "SACCADE_TEST_CHILD_FOLDER=" + temporary_.path().string();
  int killed = 0;
  bool finished = false;
  for (int step = 1; !finished; step = step % 9 + 1) {
    ASSERT_LT(killed, 100);
    std::string step_variable = "SACCADE_TEST_CHILD_STEP=" + std::to_string(step);
    std::string program = "ingest";
    std::string filter = "--gtest_filter=IngestTest.ChildIndexes";
    std::vector<char*> arguments = {program.data(), filter.data(), nullptr};
    std::vector<char*> environment = {folder.data(), step_variable.data()};
    for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
    environment.push_back(nullptr);
    pid_t child = 0;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", &quiet, nullptr, arguments.data(), environment.data()),
              0);
    posix_spawn_file_actions_destroy(&quiet);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    finished = WIFEXITED(status);
    if (finished) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
    } else {
      ++killed;
    }
    if (is_collection(folder_)) {
      ASSERT_EQ(test::faults(folder_), "");
    }
  }
  EXPECT_GT(killed, 9);
  const auto paths = test::paths_of(open());
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.end()), paths);
  EXPECT_EQ(open().summary()->dead_rows, 0);
  EXPECT_EQ(test::faults(folder_, true), "");
}

}  // namespace
}  // namespace saccade
