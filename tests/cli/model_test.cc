// Tests of `saccade model pull|list|show`, and of hub names wherever a checkpoint is named.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/hub/test_hub.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kCommit = "00112233445566778899aabbccddeeff00112233";

class Model : public ProgramTest {
 protected:
  // Publishes the test's checkpoint as owner/tiny on the hub.
  void publish() {
    HubModel& model = hub_.models["owner/tiny"];
    model.commit = kCommit;
    for (const auto& entry : fs::directory_iterator(folder_ / "model")) {
      const std::string name = entry.path().filename().string();
      model.files[name] = {read_file(entry.path()).value_or(""), name.ends_with(".safetensors")};
    }
    model.files["README.md"] = {"# tiny", false};
  }
  [[nodiscard]] Outcome ask(const std::vector<std::string>& arguments, RunOptions options = {}) const {
    options.environment.push_back("HF_ENDPOINT=" + hub_.endpoint());
    return run(arguments, options);
  }
  [[nodiscard]] fs::path snapshot_folder() const {
    return folder_ / "home/.cache/huggingface/hub/models--owner--tiny/snapshots" / kCommit;
  }
  // Returns the size of the largest incomplete file.
  [[nodiscard]] int64_t begun_bytes() const {
    int64_t most = 0;
    std::error_code error;
    const fs::path blobs = snapshot_folder().parent_path().parent_path() / "blobs";
    for (fs::directory_iterator entry(blobs, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      if (entry->path().extension() == ".incomplete")
        most = std::max(most, static_cast<int64_t>(entry->file_size(ignored)));
    }
    return most;
  }
  // Returns the entries of `list`, by their checkpoints' names.
  [[nodiscard]] Json list(const std::vector<std::string>& folders = {}) const {
    std::vector<std::string> words = {"model", "list", "--json"};
    words.insert(words.end(), folders.begin(), folders.end());
    Json entries = Json::object();
    for (const Json& entry : json_of(run(words)).value("checkpoints", Json::array())) {
      entries[entry["checkpoint"].get<std::string>()] = entry;
    }
    return entries;
  }

  TestHub hub_;
};

TEST_F(Model, PulledCheckpointsGoByTheirNames) {
  publish();
  const Outcome before = run({"model", "show", "owner/tiny"});
  EXPECT_EQ(before.code, 1);
  expect_one_line(before);
  EXPECT_THAT(before.err, HasSubstr("`saccade model pull owner/tiny` brings it"));

  const Outcome pulled = ask({"model", "pull", "owner/tiny", "--json"});
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  EXPECT_THAT(pulled.err, IsEmpty());
  const Json json = json_of(pulled);
  EXPECT_EQ(json["model"], "owner/tiny");
  EXPECT_EQ(json["revision"], "main");
  EXPECT_EQ(json["commit"], kCommit);
  EXPECT_EQ(json["path"], snapshot_folder().string());
  EXPECT_EQ(json["files"].size(), 6U) << pulled.out;  // no README.md
  EXPECT_EQ(json["files"][0]["name"], "config.json");
  EXPECT_EQ(json["files"][0]["downloaded"], true);
  const Outcome again = ask({"model", "pull", "owner/tiny"});
  EXPECT_THAT(again.out, HasSubstr("model.safetensors  (there already)\n"));
  EXPECT_THAT(again.out, HasSubstr("owner/tiny at commit " + kCommit + ", in "));

  // Every command accepts the name.
  EXPECT_EQ(run({"model", "conform", "owner/tiny"}).code, 0);
  EXPECT_EQ(run({"model", "conform", "owner/tiny@" + kCommit}).code, 0);
  picture("pictures/red.png", 200, 0, 0);
  ASSERT_EQ(run({"index", "pictures", "-c", "c", "-m", "owner/tiny"}).code, 0);
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["checkpoint"]["name"], "owner/tiny");
  EXPECT_EQ(run({"search", "-c", "c", "red"}).code, 0);
  EXPECT_EQ(run({"search", "-c", "c", "-m", "owner/tiny", "red"}).code, 0);
  write("t.txt", "red\n");
  EXPECT_EQ(run({"embed", "--texts", "t.txt", "-m", "owner/tiny", "-o", "t.npy"}).code, 0);
  // After the cache has moved, the collection finds its checkpoint by name.
  fs::rename(folder_ / "home/.cache/huggingface", folder_ / "moved");
  EXPECT_EQ(
      run({"search", "-c", "c", "red"}, {.environment = {"HF_HOME=" + (folder_ / "moved").string()}}).code,
      0);
  const Outcome gone = run({"search", "-c", "c", "red"});
  EXPECT_EQ(gone.code, 1);
  EXPECT_THAT(gone.err, HasSubstr("saccade model pull owner/tiny"));
}

TEST_F(Model, PullOptionsGoBeforeTheEnvironment) {
  publish();
  hub_.models["owner/tiny"].gated = true;
  write("token", "good\n");
  const RunOptions wrong = {.environment = {"HF_ENDPOINT=http://127.0.0.1:1", "HF_TOKEN=bad"}};
  const Outcome outcome = run({"model", "pull", "owner/tiny", "--endpoint", hub_.endpoint() + "/",
                               "--token-file", "token", "--cache", "cache", "--json"},
                              wrong);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "cache/models--owner--tiny/refs/main"));
  const Outcome refused = ask({"model", "pull", "owner/tiny"});
  EXPECT_EQ(refused.code, 1);
  expect_one_line(refused);
  EXPECT_THAT(refused.err, HasSubstr("owner/tiny is gated"));
  const Outcome offline =
      run({"model", "pull", "owner/tiny", "--cache", "cache"}, {.environment = {"HF_HUB_OFFLINE=1"}});
  EXPECT_EQ(offline.code, 0) << offline.err;
  EXPECT_EQ(run({"model", "pull", "owner/tiny", "--offline"}).code, 1);
  EXPECT_EQ(run({"model", "pull", "tiny"}).code, 2);
  EXPECT_EQ(run({"model", "pull", "owner/tiny", "--endpoint", "hub"}).code, 2);
  EXPECT_EQ(run({"model", "pull", "owner/tiny", "--token-file", "none"}).code, 1);
}

TEST_F(Model, AnInterruptedPullGoesOn) {
  publish();
  hub_.models["owner/tiny"].files["model.safetensors"].content.append(3'000'000, 'x');
  // The hub sends half of the weights, then waits for the program to be stopped.
  std::atomic<bool> halfway = false;
  hub_.instead = [&](const HubRequest& request, const HubReply& ordinary) -> std::optional<HubReply> {
    if (!request.path.starts_with("/storage/") || ordinary.body.size() < 1'000'000) return {};
    HubReply half = ordinary;
    half.cut_after = static_cast<int64_t>(ordinary.body.size()) / 2;
    half.hold = true;
    halfway = true;
    return half;
  };
  const Outcome stopped =
      ask({"model", "pull", "owner/tiny"},
          {.stop_when = [&](std::string_view) { return halfway && begun_bytes() > 1'000'000; }});
  EXPECT_EQ(stopped.code, 1);
  EXPECT_THAT(stopped.err, HasSubstr("stopped; the same command goes on from here"));
  hub_.instead = nullptr;
  const Outcome outcome = ask({"model", "pull", "owner/tiny", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(json_of(outcome)["resumed_bytes"].get<int64_t>(), 1'000'000);
}

TEST_F(Model, ListKnowsWhatIsThere) {
  publish();
  ASSERT_EQ(ask({"model", "pull", "owner/tiny"}).code, 0);
  const Json tiny = list()["owner/tiny"];
  ASSERT_TRUE(tiny.is_object());
  EXPECT_EQ(tiny["family"], "clip");
  EXPECT_EQ(tiny["known"], true);
  EXPECT_EQ(tiny["dim"], 24);
  EXPECT_EQ(tiny["context"], 16);
  EXPECT_EQ(tiny["image_width"], 64);
  EXPECT_EQ(tiny["revisions"], Json::array({"main"}));
  EXPECT_EQ(tiny["reference"], true);
  EXPECT_EQ(tiny["conforms"], Json::array());
  EXPECT_TRUE(tiny["problem"].is_null());
  const Json shown = json_of(run({"model", "show", "owner/tiny", "--json"}));
  for (const char* key : {"parameters", "bytes", "dim", "context", "preprocessing", "family", "layout"})
    EXPECT_EQ(tiny[key], shown[key]) << key;

  // Folders: checkpoints, and folders of them; unknown families, and broken ones.
  write("more/owl/config.json", R"({"model_type": "owlvit"})");
  fs::copy_file(folder_ / "model/model.safetensors", folder_ / "more/owl/model.safetensors");
  write("more/mixer/config.json", R"({"model_type": "composer"})");
  fs::copy_file(folder_ / "model/model.safetensors", folder_ / "more/mixer/model.safetensors");
  write("more/broken/config.json", "{");
  write("more/letters/a.txt", "dear");
  Json entries = list({"more", "model"});
  const Json owl = entries["more/owl"];
  EXPECT_EQ(owl["family"], "owlvit");
  EXPECT_EQ(owl["known"], false);
  EXPECT_EQ(owl["parameters"], tiny["parameters"]);
  EXPECT_TRUE(owl["dim"].is_null());
  EXPECT_THAT(entries["more/broken"]["problem"].get<std::string>(), HasSubstr("config.json"));
  EXPECT_FALSE(entries.contains("more/letters"));
  const Outcome text = run({"model", "list", "more", "model"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("owlvit"));
  EXPECT_THAT(text.out, HasSubstr("more/owl  (a family that Saccade does not know)\n"));
  EXPECT_THAT(text.out, HasSubstr("more/mixer  (no encoder: a composer, for search --compose)\n"));
  EXPECT_THAT(text.out, HasSubstr(" owner/tiny\n"));
  EXPECT_EQ(run({"model", "list", "nowhere"}).code, 1);

  // Other tools have left a snapshot without its weights.
  fs::remove(snapshot_folder() / "model.safetensors");
  EXPECT_THAT(list()["owner/tiny"]["problem"].get<std::string>(), HasSubstr("no weights"));
  EXPECT_THAT(run({"model", "show", "owner/tiny"}).err, HasSubstr("in the cache without its weights"));
}

// Folders are listed even if the cache is unusable.
TEST_F(Model, ListsFoldersWithoutACache) {
  const std::string setting = "HF_HUB_CACHE=" + (folder_ / "model/config.json").string();
  const Outcome listed = run({"model", "list", "model"}, {.environment = {setting}});
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.out, HasSubstr(" model\n"));
  expect_one_line(listed);
  EXPECT_NE(run({"model", "list"}, {.environment = {setting}}).code, 0);
  EXPECT_NE(run({"model", "list", "model", "--cache", "model/config.json"}).code, 0);
}

// OpenAI's layout is a single file of any name, without a config.
TEST_F(Model, OpenAisArchiveIsListedAndFoundAgain) {
  make_collection();
  fs::create_directory(folder_ / "openai");
  fs::copy_file(golden("clip-resnet-openai") / "model.pt", folder_ / "openai/RN50.pt");
  EXPECT_EQ(list({"openai"})["openai"]["layout"], "openai");
  const Outcome indexed = run({"index", "pictures", "-c", "resnet", "-m", "openai"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  const Outcome found = run({"search", "-c", "resnet", "--image", "pictures/red.png"});
  EXPECT_EQ(found.code, 0) << found.err;
}

// A collection is bound to the weights that were read. A later command uses stored fingerprints for files
// with the same stamp.
TEST_F(Model, FingerprintsAreRememberedAndVerified) {
  // In the first two seconds nothing is stored, since files may change again without a change in their times.
  std::this_thread::sleep_for(std::chrono::milliseconds(2'500));
  const std::string truth = json_of(run({"model", "show", "model", "--json"}))["fingerprint"];
  fs::path record;
  for (const auto& entry : fs::directory_iterator(folder_ / "home/.cache/saccade/fingerprints")) {
    record = entry.path();
  }
  ASSERT_FALSE(record.empty());
  const auto falsify = [&] {
    Json json = read_json(record).value();
    json["files"]["model.safetensors"]["sha256"] = std::string(64, 'a');
    write(record.string(), dump_json(json));
  };
  falsify();
  EXPECT_NE(json_of(run({"model", "show", "model", "--json"}))["fingerprint"], truth);
  const Outcome verified = run({"model", "show", "model", "--verify", "--json"});
  EXPECT_EQ(json_of(verified)["fingerprint"], truth);
  expect_one_line(verified);
  EXPECT_THAT(verified.err, HasSubstr("its files have changed since they were last read"));
  EXPECT_THAT(run({"model", "show", "model", "--verify"}).err, IsEmpty());
  EXPECT_EQ(json_of(run({"model", "show", "model", "--json"}))["fingerprint"], truth);

  falsify();
  make_collection();
  EXPECT_EQ(json_of(run({"collection", "info", "-c", "c", "--json"}))["checkpoint"]["fingerprint"], truth);
  EXPECT_EQ(run({"search", "-c", "c", "red"}).code, 0);
}

TEST_F(Model, ConformanceIsRememberedByFingerprint) {
  EXPECT_THAT(run({"model", "show", "model"}).out,
              HasSubstr("conforms       not shown: saccade model conform model"));
  EXPECT_EQ(list({"model"})["model"]["conforms"], Json::array());
  // A user's own tolerances prove nothing, so the result is not stored.
  ASSERT_EQ(run({"model", "conform", "model", "--tolerance", "1"}).code, 0);
  EXPECT_EQ(list({"model"})["model"]["conforms"], Json::array());
  const Outcome conforms = run({"model", "conform", "model"});
  ASSERT_EQ(conforms.code, 0);
  EXPECT_THAT(conforms.err, IsEmpty());
  const Json entry = list({"model"})["model"];
  EXPECT_EQ(entry["conforms"], Json::array({"fp32"}));
  const Json shown = json_of(run({"model", "show", "model", "--json"}));
  EXPECT_EQ(shown["fingerprint"], entry["fingerprint"]);
  ASSERT_EQ(shown["conforms"].size(), 1U);
  EXPECT_EQ(shown["conforms"][0]["precision"], "fp32");
  EXPECT_GT(shown["conforms"][0]["answers"], 1);
  EXPECT_LT(shown["conforms"][0]["max_abs"].get<double>(), 1e-4);
  ASSERT_EQ(run({"model", "conform", "model", "--precision", "bf16"}).code, 0);
  EXPECT_THAT(run({"model", "show", "model"}).out, HasSubstr("conforms       in bf16: "));

  // `show` recognizes the same checkpoint elsewhere by its fingerprint; `list` does not read it in full.
  fs::copy(folder_ / "model", folder_ / "copy");
  EXPECT_EQ(json_of(run({"model", "show", "copy", "--json"}))["conforms"].size(), 2U);
  // A different checkpoint in the same place is recognized as such.
  write("model/merges.txt", "#version: 0.2\n\n");
  Json entries = list({"copy", "model"});
  EXPECT_EQ(entries["copy"]["conforms"], Json::array());
  EXPECT_EQ(entries["model"]["conforms"], Json::array());
  EXPECT_EQ(json_of(run({"model", "show", "model", "--json"}))["conforms"].size(), 0U);
  // If the result cannot be stored, there is only a message.
  const Outcome nowhere = run({"model", "conform", "copy"}, {.environment = {"XDG_STATE_HOME=/dev/null"}});
  EXPECT_EQ(nowhere.code, 0);
  expect_one_line(nowhere);
  EXPECT_THAT(nowhere.err, HasSubstr("warning: not remembered"));
}

}  // namespace
}  // namespace saccade::test
