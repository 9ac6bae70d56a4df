// Tests of `saccade train dual`: from images and captions to a checkpoint that others use, and invalid input.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

#include "small_training.h"

namespace saccade::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class Train : public TrainingTest {};

TEST_F(Train, StoppedOrKilledItGoesOnAndItsCheckpointSearches) {
  constexpr int kSteps = 60 / kSlower;
  const std::vector<std::string> schedule = {
      "--steps", std::to_string(kSteps), "--evaluate-every", "5", "--checkpoint-every", "1", "--json"};
  const Outcome whole = run(training("whole", schedule));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.err, HasSubstr("held-out cards: 8 of 8 images are trained on too"));

  for (const int signal : {SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    const std::string folder = signal == SIGINT ? "stopped" : "run";
    const auto is_under_way = [&](std::string_view) {
      return std::filesystem::exists(folder_ / folder / "state.safetensors");
    };
    const Outcome cut = run(training(folder, schedule), {.stop_when = is_under_way, .stop_signal = signal});
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
    const Outcome rest = run(training(folder, schedule));
    ASSERT_EQ(rest.code, 0) << rest.err;
    const auto json = parse_json(rest.out);
    ASSERT_TRUE(json.has_value()) << rest.out;
    EXPECT_EQ((*json)["steps"], kSteps);
    EXPECT_EQ((*json)["finished"], true);
    EXPECT_EQ((*json)["left_out"], Json::array());
    EXPECT_EQ((*json)["also_trained"].size(), 1U);
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
  const Outcome found =
      run({"search", "-c", "c", "--no-group-duplicates", "-k", "8", "a", "red", "card", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  const auto answer = parse_json(found.out);
  ASSERT_TRUE(answer.has_value()) << found.out;
  EXPECT_EQ((*answer)["hits"].size(), 8U);
  EXPECT_EQ((*answer)["tokens"]["used"], 8);  // the letters of "a red card": there are no merges
}

TEST_F(Train, WhatItRefuses) {
  std::vector<std::string> missing = training("run");
  missing[3] = "data/nowhere.jsonl";
  expect_failure(missing, 1, {"data/nowhere.jsonl"});
  expect_failure(training("run", {}, "9"), 2, {"batch of 9"});
  expect_failure(training("run", {"--steps", "-1"}), 2, {"--steps"});
  expect_failure(training("run", {"--device", "abacus"}), 2, {"abacus"});
  expect_failure(training("run", {"--accumulate", "0"}), 2, {"--accumulate"});
  expect_failure(training("run", {"--adam-beta1", "1.5"}), 2,
                 {"--adam-beta1", "\"1.5\", expected a number from 0 to below 1"});
  expect_failure(training("run", {"--adam-beta2", "1"}), 2,
                 {"--adam-beta2", "\"1\", expected a number from 0 to below 1"});
  expect_failure(training("run", {"--adam-epsilon", "0"}), 2,
                 {"--adam-epsilon", "\"0\", expected a number above 0"});
  expect_failure(training("run", {"--schedule", "linear"}), 2, {"--schedule", "linear", "constant"});
  expect_failure({"train", "dual", "-o", "run"}, 2, {"--dataset"});
  write("data/model.json", "{");
  expect_failure(training("run"), 1, {"data/model.json"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Train, HeldOutImagesOfTheirOwnGetNoWarning) {
  picture("data/other.png", 10, 20, 30);
  write("data/others.jsonl", "{\"image\": \"other.png\", \"captions\": [\"another card\"]}\n");
  std::vector<std::string> words = training("run", {"--steps", "1", "--json"});
  words[5] = "data/others.jsonl";
  const Outcome trained = run(words);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, Not(HasSubstr("are trained on too")));
  EXPECT_EQ(parse_json(trained.out).value()["also_trained"], Json::array());
}

// The optimizer's options are recorded, also where they are the defaults, and a run keeps to its own.
TEST_F(Train, TheOptimizerIsRecordedAndStays) {
  const std::vector<std::string> own = {"--steps",        "2",   "--schedule",   "constant",
                                        "--warmup",       "0",   "--adam-beta2", "0.999",
                                        "--adam-epsilon", "1e-8"};
  ASSERT_EQ(run(training("run", own)).code, 0);
  const Json description = read_json(folder_ / "run/run.json").value();
  EXPECT_EQ(description["schedule"], "constant");
  EXPECT_EQ(description["adam_beta1"], 0.9);
  EXPECT_EQ(description["adam_beta2"], 0.999);
  EXPECT_EQ(description["adam_epsilon"], 1e-8);
  const Json line = parse_json(read_file(folder_ / "run/metrics.jsonl").value()).value();
  EXPECT_EQ(line["learning_rate"], description["learning_rate"]);  // the last step's is the peak
  expect_failure(training("run", {"--steps", "2"}), 1,
                 {"run folder run holds another training", "\"adam_beta2\" is 0.999 there, 0.98 here",
                  "\"schedule\" is \"constant\" there, \"cosine\" here"});
}

TEST_F(Train, EveryTrainingTakesTheOptimizersOptions) {
  // CLI11 of Debian 12 writes a default as "NUMBER=0.9", that of Debian 13 as "NUMBER [0.9]".
  const auto option = [](const std::string& words, const std::string& preset) {
    const std::string plain = words + "=" + preset;
    return AnyOf(HasSubstr(plain + " "), HasSubstr(plain + "\n"), HasSubstr(words + " [" + preset + "]"));
  };
  for (const char* recipe : {"composed", "dual", "editor", "head", "visualness"}) {
    EXPECT_THAT(
        run({"train", recipe, "--help"}).out,
        AllOf(option("--adam-beta1 NUMBER", "0.9"), option("--adam-beta2 NUMBER", "0.98"),
              option("--adam-epsilon NUMBER", "1e-06"), option("--schedule NAME:{cosine,constant}", "cosine"),
              option("--device NAME:{cpu,cuda}", "cpu"), HasSubstr("--decode-memory N")))
        << recipe;
  }
}

TEST_F(Train, AFolderWithSomethingElseIsLeftAlone) {
  write("home/model/model.safetensors", "somebody's weights");
  const std::string before = snapshot("home");
  std::vector<std::string> words = training("home");
  std::erase(words, "--cache");  // decoded images would lie below home
  std::erase(words, "cache");
  expect_failure(words, 2, {"run folder home: ", "it holds \"model\""});
  EXPECT_EQ(snapshot("home"), before);
}

// The figures name their protocol, wherever they are shown.
TEST_F(Train, NamesTheProtocolOfWhatIsHeldOut) {
  const Outcome text = run(training("run", {"--steps", "2"}));
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("each image with its first caption"));
  EXPECT_THAT(text.out, HasSubstr("--captions one-caption"));
  const auto description = read_json(folder_ / "run/run.json");
  ASSERT_TRUE(description.has_value());
  EXPECT_EQ((*description)["held_out_protocol"]["captions"], "one-caption");
  const auto lines = read_file(folder_ / "run/metrics.jsonl");
  ASSERT_TRUE(lines.has_value());
  const auto line = parse_json(*lines);
  ASSERT_TRUE(line.has_value()) << *lines;
  ASSERT_EQ((*line)["held_out"].size(), 1U);
  EXPECT_EQ((*line)["held_out"][0]["protocol"], "one-caption");

  // The protocol is correct: `eval` gets the same figures with it, and others with all captions.
  const auto r1_by = [&](const std::string& captions) {
    const Outcome measured =
        run({"eval", "retrieval", "-m", "run/model", "--dataset", "data/cards.jsonl", "--captions", captions,
             "--resamples", "0", "--precision", "fp32", "--json"});
    EXPECT_EQ(measured.code, 0) << measured.err;
    const auto json = parse_json(measured.out);
    if (!json) return Json();
    for (const Json& result : (*json)["results"]) {
      if (result["model"] != "chance") return result["t2i"]["r1"]["value"];
    }
    return Json();
  };
  EXPECT_EQ(r1_by("one-caption"), (*line)["held_out"][0]["t2i"]["r1"]);
}

TEST_F(Train, AFinishedTrainingSaysThatItIs) {
  const std::vector<std::string> words = training("run", {"--steps", "2"});
  const Outcome first = run(words);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("2 steps done, loss"));
  EXPECT_THAT(first.out, HasSubstr("images a second"));
  const std::string before = snapshot("run");
  const Outcome again = run(words);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("finished already: 2 steps done, loss"));
  EXPECT_THAT(again.out, Not(HasSubstr("images a second")));
  EXPECT_EQ(snapshot("run"), before);
  std::vector<std::string> with_json = words;
  with_json.emplace_back("--json");
  const auto json = parse_json(run(with_json).out);
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ((*json)["resumed_from"], 2);
  EXPECT_EQ((*json)["finished"], true);
}

TEST_F(Train, WithoutRoomOrRightsItSaysSoAndGoesOnLater) {
  const std::vector<std::string> words = training("run", {"--steps", "2"});
  std::filesystem::create_directory(folder_ / "locked");
  using std::filesystem::perms;
  std::filesystem::permissions(folder_ / "locked", perms::owner_read | perms::owner_exec);
  expect_failure(training("locked/run", {"--steps", "2"}), 1, {"locked/run", "ermission denied"},
                 {.plain_rights = true});
  // The cache of decoded images fits. Then the weights do not, and then not the state of optimizer and
  // weights.
  for (const int64_t room : {20'000, 300'000}) {
    expect_failure(words, 1, {"run/", "File too large"}, {.max_file_bytes = room});
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run/state.safetensors"));
  }
  EXPECT_EQ(run(words).code, 0);
}

TEST_F(Train, PicturesReplacedUnderTheSameNamesAreAnotherTraining) {
  const std::vector<std::string> words = training("run", {"--steps", "2"});
  ASSERT_EQ(run(words).code, 0);
  picture("data/red0.png", 20, 20, 220);
  const std::string run_before = snapshot("run");
  const std::string cache_before = snapshot("cache");
  expect_failure(words, 1,
                 {"run folder run holds another training", "\"datasets/0/images_sha256\"",
                  "\"held_out/0/images_sha256\""});
  EXPECT_EQ(snapshot("run"), run_before);
  EXPECT_EQ(snapshot("cache"), cache_before);
}

TEST_F(Train, DryRunWritesNothing) {
  const Outcome outcome = run(training("run", {"--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  // It also reports the data, and the estimated cost.
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("images       8, with "), HasSubstr("held out     8 images"),
                                 HasSubstr("memory       "), HasSubstr("nothing was written")));
  const auto json = parse_json(run(training("run", {"--dry-run", "--json", "--steps", "100"})).out);
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ((*json)["images"], 8);
  EXPECT_EQ((*json)["steps"], 100);
  EXPECT_GT((*json)["memory_bytes"], 4 * 3 * (*json)["parameters"].get<int64_t>());
  EXPECT_GT((*json)["seconds_a_step"], 0);
  EXPECT_NEAR((*json)["seconds"].get<double>(), 100 * (*json)["seconds_a_step"].get<double>(), 1e-6);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

// Uses the config that docs/cli.md shows, with an existing tokenizer.
TEST_F(Train, TheDocumentsConfigCanBeTrained) {
  const std::filesystem::path source(kSourceDir);
  const std::string document = read_file(source / "docs/cli.md").value();
  constexpr std::string_view kFence = "```json\n{\n  \"model\"";
  const size_t begin = document.find(kFence);
  ASSERT_NE(begin, std::string::npos);
  const size_t end = document.find("```", begin + 3);
  auto config = parse_json(document.substr(begin + 8, end - begin - 8));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  (*config)["tokenizer"] = (source / (*config)["tokenizer"].get<std::string>()).string();
  std::vector<std::string> words = training("run", {"--dry-run", "--steps", "2"});
  *(std::ranges::find(words, "--config") + 1) = "shown.json";
  write("shown.json", dump_json(*config));
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("parameters   "));
}

TEST_F(Train, WithoutAConfigItIsThatOfTheCheckpointItBeginsWith) {
  ASSERT_EQ(run(training("first", {"--steps", "2"})).code, 0);
  std::vector<std::string> words = training("second", {"--steps", "2", "--initial", "first/model"});
  const auto config = std::ranges::find(words, "--config");
  ASSERT_NE(config, words.end());
  words.erase(config, config + 2);
  const Outcome outcome = run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_file(folder_ / "second/model/config.json").value(),
            read_file(folder_ / "first/model/config.json").value());
  EXPECT_EQ(read_json(folder_ / "second/run.json").value()["model"],
            read_json(folder_ / "first/run.json").value()["model"]);
  // Checkpoints are named as by -m.
  std::ranges::replace(words, std::string("first/model"), std::string("starter"));
  std::ranges::replace(words, std::string("second"), std::string("third"));
  words.emplace_back("--dry-run");
  const Outcome checked = run(words);
  EXPECT_EQ(checked.code, 0) << checked.err;
  std::erase(words, "--initial");
  std::erase(words, "starter");
  expect_failure(words, 2, {"give --config, or --initial with a checkpoint to begin with"});
}

}  // namespace
}  // namespace saccade::test
