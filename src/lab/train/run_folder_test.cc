// Tests of run folders and the state in them: a training's own is resumed, anything else is refused and
// stays, and a refusal leaves nothing behind.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/train/math/test_shapes.h"
#include "lab/train/math/variable.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/hash.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::read;
using test::SmallData;
using test::train;

Error refusal_of(const DualTrainingOptions& options) {
  const auto report = train_dual(options, {}, {});
  EXPECT_FALSE(report);
  return report ? Error{} : report.error();
}

void expect_in(const std::string& part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// Returns every file below `folder` with the hash of its content; folders have an empty one.
std::map<std::string, std::string> content_below(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    content[entry.path().string()] = entry.is_regular_file() ? sha256_hex(read(entry.path())) : "";
  }
  return content;
}

TEST(RunFolder, OfOthersIsLeftAlone) {
  const SmallData data;
  DualTrainingOptions options = data.options("foreign");
  options.cache.clear();  // below the run folder
  data.folder().write("foreign/model/model.safetensors", "somebody's weights");
  auto before = content_below(options.run);
  const Error error = refusal_of(options);
  EXPECT_EQ(error.code, ErrorCode::kUsage);
  expect_in("foreign: not a training's, and not empty (it holds \"model\")", error.message);
  EXPECT_EQ(content_below(options.run), before);
  options.dry_run = true;
  EXPECT_EQ(refusal_of(options).code, ErrorCode::kUsage);
  options.dry_run = false;

  for (const char* run : {R"({"kind": "retrieval"})", "[]", R"({"kind": ["train dual"]})"}) {
    data.folder().write("foreign/run.json", run);
    before = content_below(options.run);
    EXPECT_EQ(refusal_of(options).code, ErrorCode::kMismatch) << run;
    EXPECT_EQ(content_below(options.run), before);
  }
  options.run = data.folder().write("file", "not a folder");
  expect_in("file", refusal_of(options).message);
  EXPECT_EQ(read(options.run), "not a folder");
}

TEST(RunFolder, WithWhatACutOffStartLeftIsTaken) {
  const SmallData data;
  for (const char* cache : {"", "pictures"}) {
    DualTrainingOptions options = data.options(fmt::format("cut-off-{}", cache));
    options.steps = 0;
    options.cache = *cache == '\0' ? fs::path() : options.run / cache;
    fs::create_directories(*cache == '\0' ? options.run / "cache" : options.cache);
    data.folder().write(options.run / "lock", "1234567");
    data.folder().write(options.run / "run.json.tmp-1234567-0", R"({"kind")");
    EXPECT_TRUE(train(options).finished) << cache;
  }
}

TEST(RunFolder, ARefusedStartLeavesNothing) {
  const SmallData data;
  data.folder().write("no-picture.jsonl", R"({"image": "nowhere.png", "captions": ["x"]})");
  const auto before = content_below(data.folder().path());
  const std::vector<std::pair<const char*, std::function<void(DualTrainingOptions&)>>> cases = {
      {"a batch of 33", [](auto& o) { o.batch = 33; }},
      {"nowhere.png", [&](auto& o) { o.held_out = {data.folder() / "no-picture.jsonl"}; }},
      {"steps", [](auto& o) { o.steps = -1; }}};
  for (const auto& [part, change] : cases) {
    for (const bool below_run : {false, true}) {
      DualTrainingOptions options = data.options("refused");
      if (below_run) options.cache.clear();
      change(options);
      expect_in(part, refusal_of(options).message);
      EXPECT_EQ(content_below(data.folder().path()), before) << part;
    }
  }
}

// A training of 8 steps that was stopped after 4.
class SavedState : public testing::Test {
 protected:
  explicit SavedState(bool held_out = false) : options_(data_.options("run")) {
    if (!held_out) options_.held_out.clear();
    std::stop_source stop;
    const DualTrainingReport half = train(options_, stop.get_token(), [&](const ProgressUpdate& update) {
      if (update.what == "training" && update.done == 4) stop.request_stop();
    });
    EXPECT_EQ(half.steps, 4);
    path_ = options_.run / "state.safetensors";
  }

  void change_state(const std::function<void(Json& position, TorchMap& tensors)>& change) const {
    const auto file = SafeTensors::open(path_);
    ASSERT_TRUE(file) << file.error().message;
    TorchMap tensors = torch_tensors(*file).value();
    std::map<std::string, std::string> metadata(file->metadata().begin(), file->metadata().end());
    Json position = parse_json(metadata.at("position")).value();
    change(position, tensors);
    metadata["position"] = dump_json(position);
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) named.push_back({name, view_of(tensor)});
    const Status written = write_safetensors(path_, named, metadata);
    ASSERT_TRUE(written) << written.error().message;
  }

  SmallData data_;
  DualTrainingOptions options_;
  fs::path path_;
};

TEST_F(SavedState, OfAnotherTrainingOrOutOfRangeIsRefused) {
  struct Case {
    const char* part;
    ErrorCode code;
    std::function<void(Json&, TorchMap&)> change;
  };
  const std::vector<Case> cases = {
      {"\"step\" is -1, expected 0 to 8", ErrorCode::kBadData, [](auto& p, auto&) { p["step"] = -1; }},
      {"\"step\" is 9, expected 0 to 8", ErrorCode::kBadData, [](auto& p, auto&) { p["step"] = 9; }},
      {"\"step\" is a number", ErrorCode::kBadData, [](auto& p, auto&) { p["step"] = 1.5; }},
      {"\"best_step\" is 5, expected 0 to 4", ErrorCode::kBadData,
       [](auto& p, auto&) { p["best_step"] = 5; }},
      {"\"mean_loss\" is missing", ErrorCode::kBadData, [](auto& p, auto&) { p.erase("mean_loss"); }},
      {"other options or data", ErrorCode::kMismatch,
       [](auto& p, auto&) { p["run"] = std::string(64, '0'); }},
      {"\"run\" is missing", ErrorCode::kBadData, [](auto& p, auto&) { p.erase("run"); }},
      {"an object around it", ErrorCode::kBadData, [](auto& p, auto&) { p = Json("here"); }},
      {"\"best\": not an array", ErrorCode::kBadData, [](auto& p, auto&) { p["best"] = 3; }},
      {"\"best\": without", ErrorCode::kBadData,
       [](auto& p, auto&) {
         p["best"].push_back(Json{{"name", "set"}, {"images", 1}});
       }},
      {"the optimizer is at step -5", ErrorCode::kBadData,
       [](auto&, auto& t) { t["step"] = torch::full({}, -5, at::kLong); }},
      {"tensor parameter.logit_scale is missing", ErrorCode::kMismatch,
       [](auto&, auto& t) { t.erase("parameter.logit_scale"); }},
      {"tensor first.logit_scale is", ErrorCode::kMismatch,
       [](auto&, auto& t) { t["first.logit_scale"] = torch::zeros({2}); }},
      {"tensor second.logit_scale is", ErrorCode::kMismatch,
       [](auto&, auto& t) { t["second.logit_scale"] = torch::zeros({}, at::kLong); }}};
  const std::string sound = read(path_);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.part);
    ASSERT_NO_FATAL_FAILURE(change_state(each.change));
    const auto before = content_below(options_.run);
    const Error error = refusal_of(options_);
    EXPECT_EQ(error.code, each.code);
    expect_in("run/state.safetensors: ", error.message);
    expect_in(each.part, error.message);
    EXPECT_EQ(content_below(options_.run), before);
    data_.folder().write(path_, sound);
  }
  EXPECT_TRUE(train(options_).finished);
}

// Fields and sentences of run.json were renamed. A training that an earlier version began goes on: its state names
// it by the hash of that version's run.json.
TEST_F(SavedState, OfAnEarlierVersionGoesOn) {
  std::string run = read(options_.run / "run.json");
  for (const auto& [now, earlier] :
       {std::pair<std::string, std::string>("\"images_sha256\"", "\"pictures_sha256\""),
        {"\"description\"", "\"words\""},
        {"Every image with its first caption", "Every picture with its first caption"}}) {
    size_t at = run.find(now);
    ASSERT_NE(at, std::string::npos) << now;
    for (; at != std::string::npos; at = run.find(now, at)) run.replace(at, now.size(), earlier);
  }
  data_.folder().write(options_.run / "run.json", run);
  const auto described = parse_json(run);
  ASSERT_TRUE(described) << described.error().message;
  ASSERT_NO_FATAL_FAILURE(
      change_state([&](auto& position, auto&) { position["run"] = sha256_hex(dump_json(*described)); }));
  EXPECT_TRUE(train(options_).finished);
  EXPECT_EQ(read(options_.run / "run.json"), run);
  EXPECT_TRUE(train(options_).finished);
}

// The training data are part of a training's identity. The same names with other content are another
// training.
TEST_F(SavedState, OfOtherDataIsRefusedByName) {
  const auto before = content_below(data_.folder().path());
  const auto expect_refused = [&](const DualTrainingOptions& options, const std::string& part) {
    SCOPED_TRACE(part);
    const auto now = content_below(data_.folder().path());
    const Error error = refusal_of(options);
    EXPECT_EQ(error.code, ErrorCode::kMismatch);
    expect_in("holds another training", error.message);
    expect_in(part, error.message);
    EXPECT_EQ(content_below(data_.folder().path()), now);
  };
  const std::string picture = read(data_.folder() / "red-bar-0.png");
  data_.folder().write("red-bar-0.png", read(data_.folder() / "blue-bar-0.png"));
  expect_refused(options_, "\"datasets/0/images_sha256\" is \"");
  DualTrainingOptions dry = options_;
  dry.dry_run = true;
  expect_refused(dry, "\"datasets/0/images_sha256\" is \"");
  data_.folder().write("red-bar-0.png", picture);

  const std::string manifest = read(data_.folder() / "shapes.jsonl");
  std::string other = manifest;
  data_.folder().write("shapes.jsonl", other.replace(other.find("red bar"), 3, "tan"));
  expect_refused(options_, "\"datasets/0/sha256\" is \"");
  data_.folder().write("shapes.jsonl", manifest);

  DualTrainingOptions changed = options_;
  changed.learning_rate = 2e-3;
  changed.cache = data_.folder() / "elsewhere";
  expect_refused(changed, "\"learning_rate\" is 0.001 there, 0.002 here");
  changed = options_;
  changed.evaluate_every = 2;
  expect_refused(changed, "\"evaluate_every\" is 4 there, 2 here");
  changed = options_;
  changed.datasets.push_back(changed.datasets[0]);
  expect_refused(changed, "\"datasets/1/name\" is missing there, \"shapes\" here");
  changed = options_;
  changed.held_out = changed.datasets;
  expect_refused(changed, "\"held_out/0/name\" is missing there");
  EXPECT_EQ(content_below(data_.folder().path()), before);
  EXPECT_TRUE(train(options_).finished);
}

TEST(HeldOutPictures, ArePartOfTheRun) {
  const SmallData data;
  data.folder().write("own.png", read(data.folder() / "red-bar-0.png"));
  data.folder().write("own.jsonl", R"({"image": "own.png", "captions": ["red bar"]})");
  DualTrainingOptions options = data.options("run");
  options.held_out = {data.folder() / "own.jsonl"};
  train(options);
  data.folder().write("own.png", read(data.folder() / "blue-bar-0.png"));
  const auto before = content_below(data.folder().path());
  const Error error = refusal_of(options);
  EXPECT_EQ(error.code, ErrorCode::kMismatch);
  expect_in("\"held_out/0/images_sha256\"", error.message);
  EXPECT_EQ(content_below(data.folder().path()), before);
}

TEST_F(SavedState, CutAtAnyLengthIsRefused) {
  const std::string sound = read(path_);
  std::vector<size_t> lengths = {0, 1, 7, 8, 9, sound.size() - 1};
  for (size_t length = 100; length < 20'000; length += 2'999) lengths.push_back(length);  // in the header
  for (size_t length = 20'000; length < sound.size(); length += sound.size() / 12) lengths.push_back(length);
  for (const size_t length : lengths) {
    SCOPED_TRACE(length);
    data_.folder().write(path_, sound.substr(0, length));
    const Error error = refusal_of(options_);
    EXPECT_EQ(error.code, ErrorCode::kBadData);
    expect_in("run/state.safetensors: ", error.message);
  }
}

class EarlyBest : public SavedState {
 protected:
  EarlyBest() : SavedState(true) {}
};

// The first evaluation's stored figure is changed: better than any possible one, then worthless. So the
// second is worse, then better.
TEST_F(EarlyBest, StaysWhenALaterEvaluationIsWorse) {
  const fs::path model = options_.run / "model";
  const auto first = content_below(model);
  const std::string state = read(path_);
  for (const bool worse : {true, false}) {
    SCOPED_TRACE(worse);
    data_.folder().write(path_, state);
    ASSERT_NO_FATAL_FAILURE(change_state([&](Json& position, auto&) {
      ASSERT_EQ(position["best"].size(), 1U);
      EXPECT_EQ(position["best_step"], 4);
      for (const char* way : {"t2i", "i2t"}) position["best"][0][way]["r10"] = worse ? 2 : 0;
    }));
    const DualTrainingReport report = train(options_);
    EXPECT_TRUE(report.finished);
    EXPECT_EQ(report.best_step, worse ? 4 : 8);
    EXPECT_EQ(content_below(model) == first, worse);
  }
}

}  // namespace
}  // namespace saccade::lab
