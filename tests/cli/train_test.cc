// saccade train dual: from pictures and captions to a
// checkpoint that other commands use, and what it refuses.
#include <array>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;

class Train : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    struct Colour {
      const char* name;
      int red, green, blue;
    };
    constexpr std::array<Colour, 4> kColours = {
        {{"red", 220, 20, 20}, {"green", 20, 200, 20}, {"blue", 20, 20, 220}, {"white", 250, 250, 250}}};
    std::string manifest;
    for (const Colour& colour : kColours) {
      for (int i = 0; i < 2; ++i) {
        const std::string name = fmt::format("data/{}{}.png", colour.name, i);
        picture(name, colour.red - 9 * i, colour.green, colour.blue);
        manifest += fmt::format("{{\"image\": \"{}{}.png\", \"captions\": [\"{}\", \"a {} card\"]}}\n",
                                colour.name, i, colour.name, colour.name);
      }
    }
    write("data/cards.jsonl", manifest);
    write("data/model.json", R"({
      "model": {"projection_dim": 16,
        "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "image_size": 16, "patch_size": 4, "hidden_act": "gelu"},
        "text_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                        "num_attention_heads": 2, "max_position_embeddings": 24, "hidden_act": "gelu"}},
      "preprocessor": {"do_resize": true, "size": {"height": 16, "width": 16}, "resample": 3,
                       "do_center_crop": false, "do_rescale": true, "do_normalize": true,
                       "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
      "tokenizer": "tokenizer"})");
    // CLIP's byte symbols and no merges: every word letter by letter.
    const auto clip = read_json(golden("tokenizers/clip/vocab.json"));
    ASSERT_TRUE(clip.has_value());
    Json vocabulary = Json::object();
    for (const auto& [token, id] : clip->items()) {
      if (id.get<int>() < 512) vocabulary[token] = id;
    }
    vocabulary["<|startoftext|>"] = 512;
    vocabulary["<|endoftext|>"] = 513;
    write("data/tokenizer/vocab.json", dump_json(vocabulary));
    write("data/tokenizer/merges.txt", "#version: 0.2\n");
  }

  // `extra` behind what every training here has.
  static std::vector<std::string> command(const std::string& run, const std::vector<std::string>& extra = {},
                                          const std::string& batch = "8") {
    std::vector<std::string> words = {"train",       "dual",
                                      "--dataset",   "data/cards.jsonl",
                                      "--held-out",  "data/cards.jsonl",
                                      "--config",    "data/model.json",
                                      "-o",          run,
                                      "--cache",     "cache",
                                      "--batch",     batch,
                                      "--precision", "fp32",
                                      "--threads",   "1"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }
};

TEST_F(Train, StoppedOrKilledItGoesOnAndItsCheckpointSearches) {
  constexpr int kSteps = 60 / kSlower;
  const std::vector<std::string> schedule = {
      "--steps", std::to_string(kSteps), "--evaluate-every", "5", "--checkpoint-every", "1", "--json"};
  const Outcome whole = run(command("whole", schedule));
  ASSERT_EQ(whole.code, 0) << whole.err;

  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    const std::string folder = signal == SIGINT ? "stopped" : "run";
    const auto is_under_way = [&](std::string_view) {
      return std::filesystem::exists(folder_ / folder / "state.safetensors");
    };
    const Outcome cut = run(command(folder, schedule), {.stop_when = is_under_way, .stop_signal = signal});
    if (signal == SIGINT) {
      EXPECT_EQ(cut.code, 1);
      EXPECT_THAT(cut.err,
                  HasSubstr(fmt::format("of {} steps; the same command goes on from there", kSteps)));
      const auto json = parse_json(cut.out);
      ASSERT_TRUE(json.has_value()) << cut.out;
      EXPECT_EQ((*json)["finished"], false);
      EXPECT_GT((*json)["steps"], 0);
      EXPECT_LT((*json)["steps"], kSteps);
    } else {
      ASSERT_EQ(cut.code, 128 + SIGKILL) << cut.err;
    }
    const Outcome rest = run(command(folder, schedule));
    ASSERT_EQ(rest.code, 0) << rest.err;
    const auto json = parse_json(rest.out);
    ASSERT_TRUE(json.has_value()) << rest.out;
    EXPECT_EQ((*json)["steps"], kSteps);
    EXPECT_EQ((*json)["finished"], true);
    EXPECT_EQ((*json)["left_out"], Json::array());
    ASSERT_EQ((*json)["best"].size(), 1U);
    EXPECT_EQ((*json)["best"][0]["images"], 8);
    for (const char* file : {"metrics.jsonl", "model/model.safetensors"}) {
      EXPECT_EQ(sha256_file(folder_ / folder / file).value_or("a"),
                sha256_file(folder_ / "whole" / file).value_or("b"))
          << file;
    }
  }

  const Outcome indexed = run({"index", "data", "-c", "c", "-m", "run/model"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  const Outcome found = run({"search", "-c", "c", "--all", "-k", "8", "a", "red", "card", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  const auto answer = parse_json(found.out);
  ASSERT_TRUE(answer.has_value()) << found.out;
  EXPECT_EQ((*answer)["hits"].size(), 8U);
  EXPECT_EQ((*answer)["tokens"]["used"], 8);  // the letters of "a red card": there are no merges
}

TEST_F(Train, WhatItRefuses) {
  std::vector<std::string> missing = command("run");
  missing[3] = "data/nowhere.jsonl";
  expect_failure(missing, 1, {"data/nowhere.jsonl"});
  expect_failure(command("run", {}, "9"), 2, {"batch of 9"});
  expect_failure(command("run", {"--steps", "-1"}), 2, {"--steps"});
  expect_failure(command("run", {"--device", "abacus"}), 2, {"abacus"});
  expect_failure({"train", "dual", "-o", "run"}, 2, {"--dataset"});
  write("data/model.json", "{");
  expect_failure(command("run"), 1, {"data/model.json"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Train, AFolderWithSomethingElseIsLeftAlone) {
  write("home/model/model.safetensors", "somebody's weights");
  const std::string before = snapshot("home");
  std::vector<std::string> words = command("home");
  std::erase(words, "--cache");  // decoded pictures would lie below home
  std::erase(words, "cache");
  expect_failure(words, 2, {"run folder home: ", "it holds \"model\""});
  EXPECT_EQ(snapshot("home"), before);
}

TEST_F(Train, WithoutRoomOrRightsItSaysSoAndGoesOnLater) {
  const std::vector<std::string> words = command("run", {"--steps", "2"});
  std::filesystem::create_directory(folder_ / "locked");
  using std::filesystem::perms;
  std::filesystem::permissions(folder_ / "locked", perms::owner_read | perms::owner_exec);
  expect_failure(command("locked/run", {"--steps", "2"}), 1, {"locked/run", "ermission denied"},
                 {.plain_rights = true});
  // The cache of decoded pictures fits, then not the weights, then not the state of optimizer and weights.
  for (const int64_t room : {20'000, 300'000}) {
    expect_failure(words, 1, {"run/", "File too large"}, {.max_file_bytes = room});
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run/state.safetensors"));
  }
  EXPECT_EQ(run(words).code, 0);
}

TEST_F(Train, DryRunWritesNothing) {
  const Outcome outcome = run(command("run", {"--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
}  // namespace saccade::test
