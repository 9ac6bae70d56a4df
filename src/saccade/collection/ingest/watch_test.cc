#include "saccade/collection/ingest/watch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>

#include "saccade/collection/ingest/folder_events.h"
#include "saccade/collection/ingest/ignore_rules.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/collection/test_support.h"

namespace saccade {
namespace {

using testing::ElementsAre;

namespace fs = std::filesystem;

class WatchTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(pictures_);
    ASSERT_OK(CollectionWriter::create(folder_, test::fake_checkpoint()));
    options_.settle_seconds = 0.05;
    options_.longest_seconds = 0.5;
    options_.look_seconds = 0.2;
  }
  void TearDown() override { stop(); }

  void start(std::vector<fs::path> inputs) {
    stop_ = std::stop_source();
    thread_ = std::thread([this, inputs = std::move(inputs)] {
      ThreadPool pool(1);
      const EncoderSource source = [this]() -> Result<EncoderBackend*> { return &encoder_; };
      ended_ = watch(
          folder_, source, inputs, options_, pool,
          [this](const WatchNews& news) {
            const std::lock_guard lock(mutex_);
            if (!news.text.empty()) told_.push_back(news.text);
            if (news.report) ++reports_;
          },
          stop_.get_token());
    });
  }
  void stop() {
    if (!thread_.joinable()) return;
    stop_.request_stop();
    thread_.join();
    EXPECT_TRUE(ended_) << ended_.error().message;
  }
  std::string add(const std::string& name, int seed) {
    test::write_text(pictures_ / name, test::png(seed));
    return (pictures_ / name).string();
  }
  std::vector<std::string> paths() {
    const auto collection = CollectionReader::open(folder_);
    return collection ? test::paths_of(*collection) : std::vector<std::string>{"not opened"};
  }
  // Until what is looked at is so, or it has taken far too long.
  template <typename F>
  bool soon(const F& so) {
    for (int i = 0; i < 400; ++i) {
      if (so()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    return false;
  }
  bool told(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(told_,
                               [&](const std::string& text) { return text.find(what) != std::string::npos; });
  }

  test::TestFolder temporary_;
  fs::path pictures_ = temporary_.path() / "pictures";
  fs::path folder_ = temporary_.path() / "collection";
  WatchOptions options_;
  test::FakeEncoder encoder_;
  std::stop_source stop_;
  std::thread thread_;
  Status ended_;
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::atomic<int> reports_ = 0;
};

TEST_F(WatchTest, ACheckpointThatIsGoneEndsItAndIsNotTakenForInputsThatAre) {
  add("first.png", 1);
  ThreadPool pool(1);
  const EncoderSource gone = []() -> Result<EncoderBackend*> {
    return fail(ErrorCode::kNotFound, "model: no such folder");
  };
  // Watching on without it would be to pass over every new picture without a word.
  std::stop_source late;
  std::atomic<bool> done = false;
  std::thread end([&] {
    for (int i = 0; i < 400 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(25));
    if (!done) late.request_stop();
  });
  const Status ended =
      watch(folder_, gone, std::vector<fs::path>{pictures_}, options_, pool, {}, late.get_token());
  done = true;
  end.join();
  EXPECT_FALSE(late.stop_requested());
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().message.find("model: no such folder"), std::string::npos) << ended.error().message;
}

TEST_F(WatchTest, FollowsWhatHappensToFilesAndFolders) {
  const std::string first = add("first.png", 1);
  options_.ingest.prune = true;
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths() == std::vector<std::string>{first}; }));
  const int64_t id = CollectionReader::open(folder_)->item_of_path(first)->id;

  const std::string second = add("sub/deep/second.png", 2);  // folders that were not there
  ASSERT_TRUE(soon([&] { return paths().size() == 2; }));
  fs::rename(first, pictures_ / "sub" / "moved.png");
  ASSERT_TRUE(soon([&] { return !paths().empty() && paths()[1] == (pictures_ / "sub/moved.png").string(); }));
  EXPECT_EQ(CollectionReader::open(folder_)->item_of_path(pictures_ / "sub/moved.png")->id, id);

  const std::string hash = CollectionReader::open(folder_)->item_of_path(second)->hash;
  add("sub/deep/second.png", 22);  // written anew
  ASSERT_TRUE(soon([&] { return CollectionReader::open(folder_)->item_of_path(second)->hash != hash; }));
  test::write_text(pictures_ / "sub/deep/second.txt", "a caption");
  ASSERT_TRUE(
      soon([&] { return CollectionReader::open(folder_)->item_of_path(second)->caption == "a caption"; }));

  fs::rename(pictures_ / "sub", pictures_ / "renamed");
  ASSERT_TRUE(soon([&] {
    return paths() == std::vector<std::string>{(pictures_ / "renamed/deep/second.png").string(),
                                               (pictures_ / "renamed/moved.png").string()};
  }));
  add("renamed/deep/third.png", 3);  // below a folder that has another name now
  ASSERT_TRUE(soon([&] { return paths().size() == 3; }));
  const std::string beside = add("renamed/beside.png", 4);
  ASSERT_TRUE(soon([&] { return paths().size() == 4; })) << "the renamed folder itself is watched";
  fs::remove(beside);
  fs::remove_all(pictures_ / "renamed" / "deep");
  ASSERT_TRUE(
      soon([&] { return paths() == std::vector<std::string>{(pictures_ / "renamed/moved.png").string()}; }));
  stop();
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(WatchTest, DeletedFilesAreRemovedUnlessAskedOtherwise) {
  const std::string first = add("first.png", 1);
  const std::string second = add("sub/second.png", 2);
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths().size() == 2; }));
  fs::remove(first);
  EXPECT_TRUE(soon([&] { return paths() == std::vector<std::string>{second}; }));
  fs::remove_all(pictures_ / "sub");  // its folder is empty then, and there
  EXPECT_TRUE(soon([&] { return paths().empty(); }));
}

// Started on a mount point without its disk.
TEST_F(WatchTest, AnEmptyFolderAtTheStartKeepsItsPictures) {
  const std::string a = add("a.png", 1);
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths().size() == 1; }));
  stop();
  fs::rename(pictures_, temporary_.path() / "away");
  fs::create_directories(pictures_);
  reports_ = 0;
  start({pictures_});
  ASSERT_TRUE(soon([&] { return reports_ > 0; }));  // the first look, which takes in everything
  const std::string b = add("sub/b.png", 2);
  ASSERT_TRUE(soon([&] { return paths().size() == 2; }));
  EXPECT_THAT(paths(), ElementsAre(a, b));
}

TEST_F(WatchTest, TakesInWhatAWalkWouldAndKeepsWhatIsDeletedIfAsked) {
  options_.ingest.prune = false;
  test::write_text(pictures_ / ".saccadeignore", "drafts/\n*.tmp.png\n");
  const std::string kept = add("kept.png", 1);
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths().size() == 1; }));
  add("drafts/a.png", 2);
  add("b.tmp.png", 3);
  add(".hidden.png", 4);
  test::write_text(pictures_ / "notes.md", "no picture");
  test::write_text(pictures_ / "broken.png", "no picture either");
  fs::remove(kept);
  const std::string last = add("last.png", 5);
  ASSERT_TRUE(soon([&] { return paths() == std::vector<std::string>{kept, last}; }));
  ASSERT_TRUE(soon([&] { return CollectionReader::open(folder_)->failures()->size() == 1; }));
  fs::remove(pictures_ / "broken.png");  // a failure vanishes with its file
  ASSERT_TRUE(soon([&] { return CollectionReader::open(folder_)->failures()->empty(); }));
}

// A folder whose file system goes keeps its pictures even with `prune`; renaming it away
// is what a test can do of that.
TEST_F(WatchTest, AFolderThatGoesAwayKeepsItsPicturesAndComesBack) {
  const std::string a = add("a.png", 1);
  options_.ingest.prune = true;
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths().size() == 1; }));
  fs::rename(pictures_, temporary_.path() / "elsewhere");
  ASSERT_TRUE(soon([&] { return told("is gone (unmounted?)"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_THAT(paths(), ElementsAre(a));
  test::write_text(temporary_.path() / "elsewhere" / "b.png", test::png(2));
  fs::rename(temporary_.path() / "elsewhere", pictures_);
  ASSERT_TRUE(soon([&] { return paths().size() == 2; }));
  add("c.png", 3);
  ASSERT_TRUE(soon([&] { return paths().size() == 3; }));
}

TEST_F(WatchTest, WhereTheTableIsFullFoldersAreLookedAt) {
  for (int i = 0; i < 5; ++i) add(fmt::format("{}/a.png", i), i);
  options_.most_watches = 2;
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths().size() == 5; }));
  EXPECT_TRUE(told("no more than 2 folders can be watched"));
  for (int i = 0; i < 5; ++i) add(fmt::format("{}/b.png", i), 10 + i);
  EXPECT_TRUE(soon([&] { return paths().size() == 10; }));
}

TEST_F(WatchTest, AnotherWriterIsWaitedFor) {
  options_.retry_seconds = 0.1;
  {
    const auto other = CollectionWriter::open(folder_);
    add("a.png", 1);
    start({pictures_});
    EXPECT_TRUE(soon([&] { return told("tried again every 0.1 s"); }));
  }
  EXPECT_TRUE(soon([&] { return paths().size() == 1; }));
}

// As when too few nodes of a cluster are there to write to.
TEST_F(WatchTest, WhatCannotBeWrittenNowIsTriedAgain) {
  options_.retry_seconds = 0.1;
  encoder_.fail_at_call = 2;
  encoder_.fail_with = ErrorCode::kIo;
  const std::string a = add("a.png", 1);
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths() == std::vector<std::string>{a}; }));
  const std::string b = add("b.png", 2);
  EXPECT_TRUE(soon([&] { return told("the device is gone: tried again every 0.1 s"); }));
  EXPECT_TRUE(soon([&] { return paths() == std::vector<std::string>{a, b}; }));
}

TEST_F(WatchTest, IdleItCostsNothing) {
  add("a.png", 1);
  options_.look_seconds = 60;
  start({pictures_});
  ASSERT_TRUE(soon([&] { return paths().size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  // 1 % of a processor. A slow machine may still be ending what came before: the quietest stretch counts.
  constexpr double kWanted = 0.02;
  double least = 1;
  for (int i = 0; i < 5 && least >= kWanted; ++i) {
    const double before = used();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    least = std::min(least, used() - before);
  }
  EXPECT_LT(least, kWanted);
}

TEST_F(WatchTest, ErrorsAreTold) {
  ThreadPool pool(1);
  const EncoderSource source = [this]() -> Result<EncoderBackend*> { return &encoder_; };
  const auto run = [&](const fs::path& collection, const fs::path& input) {
    return watch(collection, source, std::vector<fs::path>{input}, options_, pool, {}, {});
  };
  EXPECT_EQ(run(temporary_.path() / "none", pictures_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(folder_, temporary_.path() / "nowhere").error().code, ErrorCode::kNotFound);
}

TEST(FolderEvents, AFolderThatMovesIsWatchedUnderItsNewName) {
  const test::TestFolder temporary;
  const test::TestFolder elsewhere;
  const fs::path before = temporary / "before";
  const fs::path after = temporary / "after";
  fs::create_directories(before / "deep");
  auto events = FolderEvents::open(0, false, {});
  ASSERT_OK(events);
  EXPECT_TRUE(events->add(temporary.path().string()));
  EXPECT_EQ(events->watches(), 3);
  fs::rename(before, after);
  FolderChanges changes;
  ASSERT_OK(events->read(changes));
  EXPECT_THAT(changes.gone, ElementsAre(before.string()));
  EXPECT_THAT(changes.folders, ElementsAre(after.string()));
  std::ofstream(after / "a.png").flush();
  std::ofstream(after / "deep" / "a.png").flush();
  changes = {};
  ASSERT_OK(events->read(changes));
  EXPECT_THAT(changes.files, ElementsAre((after / "a.png").string(), (after / "deep" / "a.png").string()));
  EXPECT_EQ(events->watches(), 3);
  // Another folder is at the old name when the move is read.
  fs::rename(after, elsewhere / "after");
  fs::create_directories(after);
  changes = {};
  ASSERT_OK(events->read(changes));
  std::ofstream(elsewhere / "after" / "b.png").flush();
  std::ofstream(elsewhere / "after" / "deep" / "b.png").flush();
  std::ofstream(after / "c.png").flush();
  changes = {};
  ASSERT_OK(events->read(changes));
  EXPECT_THAT(changes.files, ElementsAre((after / "c.png").string()));
  EXPECT_EQ(events->watches(), 2);
}

TEST(FolderEvents, AreReadInBatchesAndOverflowIsSaid) {
  const test::TestFolder temporary;
  auto events = FolderEvents::open(0, false, {});
  ASSERT_OK(events);
  EXPECT_TRUE(events->add(temporary.path().string()));
  // More than the kernel's queue holds, none of them read meanwhile.
  int64_t most = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
  ASSERT_GT(most, 0);
  if (most <= 70'000) {
    const std::string a = (temporary / "a.png").string();
    const std::string b = (temporary / "b.png").string();
    std::ofstream(a).flush();
    for (int64_t i = 0; i < most; i += 2) {
      fs::rename(a, b);
      fs::rename(b, a);
    }
    FolderChanges changes;
    ASSERT_OK(events->read(changes));
    EXPECT_TRUE(changes.overflow);
  }
}

TEST(WalkWouldTake, WhatAWalkFinds) {
  const test::TestFolder temporary;
  const fs::path top = temporary.path();
  test::write_text(top / "a/b/c.png", "x");
  test::write_text(top / "a/b/c.txt", "x");
  test::write_text(top / "a/.h/c.png", "x");
  test::write_text(top / "skip/c.png", "x");
  test::write_text(top / "a/.saccadeignore", "/b/d.png\n");
  test::write_text(top / "a/b/d.png", "x");
  fs::create_directory_symlink(top / "a", top / "link");
  WalkOptions options;
  options.exclude = {"skip"};
  const std::vector<fs::path> inputs = {top};
  std::vector<std::string> expected;
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    if (entry.is_regular_file() && walk_would_take(entry.path(), inputs, options))
      expected.push_back(entry.path().string());
  }
  EXPECT_FALSE(walk_would_take(top / "link/b/c.png", inputs, options));
  EXPECT_FALSE(walk_would_take("/elsewhere/c.png", inputs, options));
  EXPECT_EQ(walk(inputs, options, {}, {}).files, expected);
  EXPECT_THAT(expected, ElementsAre((top / "a/b/c.png").string()));
}

}  // namespace
}  // namespace saccade
