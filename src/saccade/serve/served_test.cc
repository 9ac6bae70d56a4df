// A server's collections, as they change beneath it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/files/files.h"
#include "saccade/core/seconds_since.h"
#include "saccade/engine/core.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using Following = ServingTest;

// The models of collections are loaded on the server's device, as those that are named.
TEST_F(Following, ModelsAreLoadedOnTheServersDevice) {
  EXPECT_EQ(json_of(get("/api/models"))["models"][0]["device"], "cpu");
  ServedOptions options;
  options.collections = {folder_};
  options.encoder.device = "gpu";
  const auto served = Served::open(options);
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, ErrorCode::kUsage);
  EXPECT_THAT(served.error().message, HasSubstr("device \"gpu\", expected cpu, cuda"));
}

// A collection keeps its precision; the models that are named get the fastest.
TEST_F(Following, TheFastestPrecisionIsChosenForNamedCheckpoints) {
  ServedOptions options;
  options.collections = {folder_};
  options.checkpoints = {"starter"};
  options.encoder.precision = Precision::kAuto;
  std::vector<std::string> notes;
  options.note = [&](const Note& note) { notes.push_back(note.text); };
  const auto served = Served::open(options);
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_EQ((*served)->models().front()->info.precision, Precision::kFp32);
  EXPECT_NE((*served)->models().back()->info.precision, Precision::kAuto);
  EXPECT_THAT(notes, testing::Contains(testing::StartsWith("precision ")));
}

// File systems' clocks go in steps: a look between two changes of one step sees what the second leaves.
TEST_F(Following, MissesNoChangeThatComesAtOnceAfterAnother) {
  for (int i = 100; i < 200; ++i) {
    saccade::test::write_text(pictures_ / ("q" + std::to_string(i) + ".png"), saccade::test::png(i));
  }
  add(6);
  ServedCollection& served = *served_->collections().front();
  ASSERT_TRUE(served.follow());
  std::vector<int64_t> ids;
  ASSERT_TRUE(served.now()->collection.for_each_item([&](const Item& item) -> Status {
    ids.push_back(item.id);
    return {};
  }));
  const std::jthread looks([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) (void)served.follow();
  });
  while (ids.size() > 7) {
    {
      auto writer = CollectionWriter::open(folder_);
      ASSERT_TRUE(writer) << writer.error().message;
      ASSERT_EQ(writer->remove_ids({&ids.back(), 1}).value(), 1);
    }
    ids.pop_back();
    ASSERT_TRUE(served.follow());
    ASSERT_EQ(served.now()->collection.item_count(), static_cast<int64_t>(ids.size()));
  }
}

// As root SQLite sets the owner of a collection's log whenever it is opened: no reason to open it again.
TEST_F(Following, LeavesACollectionOpenThatNobodyChanges) {
  const ServedCollection& served = *served_->collections().front();
  auto before = served.now();
  int same = 0;  // looks, one after the other, that found it as it was; its files settle first
  for (int i = 0; i < 200 && same < 6; ++i) {
    ASSERT_EQ(::chown((folder_ / "catalog.sqlite-wal").c_str(), ::geteuid(), ::getegid()), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto now = served.now();
    same = now == before ? same + 1 : 0;
    before = now;
  }
  EXPECT_EQ(same, 6);
}

TEST_F(Following, FollowsACollectionThatGrows) {
  EXPECT_EQ(json_of(get("/api/collections"))["collections"][0]["items"], 6);
  add(6);
  for (int i = 0; i < 500 && served_->collections().front()->now()->collection.item_count() < 7; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(json_of(get("/api/collections/my pictures"))["items"], 7);
}

TEST_F(Following, ACollectionOfAnotherCheckpointInItsPlaceIsNotTaken) {
  fs::remove_all(folder_);
  ASSERT_TRUE(CollectionWriter::create(folder_, test::fake_checkpoint()));
  const Status followed = served_->collections().front()->follow();
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(served_->collections().front()->now()->collection.item_count(), 6);
}

// The checkpoint has changed since the collection was made with it.
TEST_F(Following, ACollectionThatCannotBeOpenedLeavesNoModelBehind) {
  const fs::path changed = temporary_.path() / "changed";
  fs::copy(fs::path(saccade::test::kSourceDir) / "models" / "starter", changed, fs::copy_options::recursive);
  const auto config = read_file(changed / "config.json");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(write_file_atomic(changed / "config.json", *config + "\n"));
  const ServedModel& model = *served_->models().front();
  const int64_t bytes = served_->model_memory().bytes();
  CheckpointId made_with = model.id;
  made_with.name = "changed";
  made_with.path = changed.string();
  made_with.fingerprint = std::string(64, '0');
  fs::remove_all(folder_);
  ASSERT_TRUE(CollectionWriter::create(folder_, made_with));
  const Status followed = served_->collections().front()->follow();
  ASSERT_FALSE(followed);
  EXPECT_EQ(followed.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(followed.error().message, HasSubstr("made with checkpoint \"changed\""));
  EXPECT_THAT(followed.error().message, HasSubstr("holds another one"));
  EXPECT_THAT(served_->models(), testing::ElementsAre(&model));
  EXPECT_EQ(served_->model_memory().bytes(), bytes);
}

// Deployments switch a link: from one collection to the next, made elsewhere.
TEST_F(Following, ALinkThatLeadsToAnotherCollectionIsFollowed) {
  const fs::path first = folder_;
  const fs::path second = temporary_.path() / "second";
  const fs::path other = temporary_.path() / "other";
  const fs::path link = temporary_.path() / "photos";
  const fs::path fresh = temporary_.path() / "photos.new";
  const auto lead_to = [&](const fs::path& folder) {
    fs::create_directory_symlink(folder, fresh);
    fs::rename(fresh, link);  // at once, as `mv -T` does
  };
  lead_to(first);
  folder_ = second;
  add(6);  // one of seven images
  folder_ = first;
  ASSERT_TRUE(CollectionWriter::create(other, test::fake_checkpoint()));
  served_.reset();
  std::mutex mutex;
  int told = 0;
  ServedOptions options;
  options.collections = {link};
  options.follow_seconds = 0.05;
  options.note = [&](const Note& note) {
    const std::lock_guard lock(mutex);
    if (note.warning && note.text.find("the old one is served") != std::string::npos) ++told;
  };
  served_ = Served::open(options).value();
  make({});
  const std::string own = "/api/collections/photos";
  ASSERT_EQ(json_of(get(own))["items"], 6);
  const auto soon = [&](const auto& holds) {
    for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return holds();
  };

  lead_to(second);
  EXPECT_TRUE(soon([&] { return json_of(get(own))["items"] == 7; }));
  EXPECT_EQ(get("/readyz").status, 200);

  // One that cannot be served: what was there goes on, and the server says that it is not what lies there.
  lead_to(other);
  EXPECT_TRUE(soon([&] { return get("/readyz").status == 503; }));
  EXPECT_THAT(get("/readyz").body, HasSubstr("another checkpoint"));
  EXPECT_EQ(json_of(get(own))["items"], 7);
  EXPECT_THAT(json_of(get(own))["warnings"].dump(), HasSubstr("the old content is served"));
  EXPECT_EQ(get("/healthz").status, 200);
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(told, 1);  // and not every second
  }

  lead_to(first);
  EXPECT_TRUE(soon([&] { return json_of(get(own))["items"] == 6 && get("/readyz").status == 200; }));
  EXPECT_THAT(json_of(get(own))["warnings"].dump(), testing::Not(HasSubstr("the old content is served")));
  service_.reset();  // its notes end before their counter
  served_.reset();
}

// A new model without downtime: the collection is encoded anew and the link switched while searches run.
TEST_F(Following, ALinkToACollectionOfAnotherModelIsFollowedWhileSearchesRun) {
  const fs::path second = temporary_.path() / "second";
  const fs::path link = temporary_.path() / "photos";
  const fs::path renewed = temporary_.path() / "renewed";
  fs::create_directory_symlink(folder_, link);
  // The starter under another name and fingerprint.
  fs::copy(fs::path(saccade::test::kSourceDir) / "models" / "starter", renewed, fs::copy_options::recursive);
  for (const char* file : {"config.json", "open_clip_config.json"}) {
    if (const auto text = read_file(renewed / file)) {
      ASSERT_TRUE(write_file_atomic(renewed / file, *text + "\n"));
    }
  }
  std::mutex mutex;
  std::vector<std::string> notes;
  const auto has_note = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    return std::ranges::any_of(notes,
                               [&](const std::string& note) { return note.find(text) != std::string::npos; });
  };
  served_.reset();
  ServedOptions options;
  options.collections = {link};
  options.follow_seconds = 0.05;
  options.note = [&](const Note& note) {
    const std::lock_guard lock(mutex);
    notes.push_back(note.text);
  };
  auto served = Served::open(options);
  ASSERT_TRUE(served) << served.error().message;
  served_ = *std::move(served);
  make({});
  const auto model = [&] { return json_of(get("/api/collections/photos"))["model"].get<std::string>(); };
  ASSERT_NE(model(), "renewed");

  std::atomic<int64_t> answered = 0;
  std::atomic<int64_t> failed = 0;
  const auto search = [&](const std::stop_token& stop) {
    for (int64_t i = 0; !stop.stop_requested(); ++i) {
      // Texts that no earlier search had are encoded.
      const HttpResponse response = get(fmt::format("/api/search?q=red%20{}", i % 2 == 0 ? 0 : i));
      const auto json = parse_json(response.body);
      const bool whole = response.status == 200 && json && json->value("searched", 0) == 6;
      ++(whole ? answered : failed);
    }
  };
  std::jthread one(search);
  std::jthread other(search);
  EngineCoreOptions anew;
  anew.folder = second;
  anew.checkpoint = renewed.string();
  const auto core = EngineCore::open(std::move(anew));
  ASSERT_TRUE(core) << core.error().message;
  EngineCore::ReencodeCall call;
  call.from = link;
  call.name = link;
  const auto done = (*core)->reencode(call, {}, {});
  const auto switched = std::chrono::steady_clock::now();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(done->switched);
  EXPECT_EQ(done->report.items, 6);
  EXPECT_EQ(done->report.added, 6);
  const auto soon = [&](const auto& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return holds();
  };
  EXPECT_TRUE(soon([&] { return model() == "renewed"; }));
  EXPECT_LT(seconds_since(switched),
            5);  // with a follow_seconds of 1, and a processor of its own, within a second
  // Searches on the new one.
  const int64_t before = answered;
  EXPECT_TRUE(soon([&] { return answered > before + 20; }));
  one.request_stop();
  other.request_stop();
  one.join();
  other.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(answered, 20);
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_TRUE(has_note("of renewed; it is served now"));
  EXPECT_EQ(served_->collections().front()->now()->collection.info().checkpoint.name, "renewed");
  // The old model is let go of.
  EXPECT_TRUE(soon([&] { return served_->models().size() == 1; }));
  EXPECT_EQ(served_->models().front()->name, "renewed");
  EXPECT_EQ(served_->model("").value()->name, "renewed");
  // Its memory is given back with the last request that used it.
  const auto bytes = served_->models().front()->bytes;
  EXPECT_TRUE(soon([&] { return served_->model_memory().bytes() == bytes; }));
  EXPECT_EQ(served_->model_memory().bytes(), bytes);

  // The same command again finds that all is done.
  const auto again = (*core)->reencode(call, {}, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->already);
  service_.reset();  // its notes end before their list
  served_.reset();
}

// Calibration comes after the last image, and a failure of it is a note alone.
TEST_F(Following, AReencodingThatIsStoppedDuringCalibrationDoesNotSwitch) {
  const fs::path link = temporary_.path() / "photos";
  fs::create_directory_symlink(folder_, link);
  EngineCoreOptions options;
  options.folder = temporary_.path() / "second";
  options.checkpoint = (fs::path(saccade::test::kSourceDir) / "models" / "starter").string();
  auto loaded = load_checkpoint(options.checkpoint);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::shared_ptr<EncoderBackend> backend = std::move(loaded->encoder);
  std::stop_source stop;
  int lent = 0;
  options.lend = [&]() -> Result<EngineEncoder> {
    if (++lent == 2) stop.request_stop();  // the images were encoded with the first one
    return EngineEncoder{backend, "starter", {}};
  };
  const auto core = EngineCore::open(std::move(options));
  ASSERT_TRUE(core) << core.error().message;
  EngineCore::ReencodeCall call;
  call.from = link;
  call.name = link;
  const auto done = (*core)->reencode(call, {}, stop.get_token());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(lent, 2);
  EXPECT_EQ(done->report.added, 6);
  EXPECT_TRUE(done->report.cancelled);
  EXPECT_FALSE(done->switched);
  EXPECT_EQ(fs::read_symlink(link), folder_);
  const auto again = (*core)->reencode(call, {}, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->switched);
}

TEST_F(Following, RowsThatAreCutOffAreUnavailableUntilTheyAreReadAnew) {
  served_.reset();  // nothing follows meanwhile
  ServedOptions options;
  options.collections = {folder_};
  options.follow_seconds = 3600;
  served_ = Served::open(options).value();
  make({});
  fs::resize_file(folder_ / "rows-1.f32", 8);
  const HttpResponse response = get("/api/search?q=red");
  EXPECT_EQ(response.status, 503) << response.body;
  EXPECT_EQ(header(response, "Retry-After"), "1");
  EXPECT_THAT(json_of(response)["error"]["message"].get<std::string>(), HasSubstr("rows-1.f32"));
}

}  // namespace
}  // namespace saccade::serve
