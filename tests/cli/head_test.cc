// Tests of `saccade train head`: from images and captions to a head that other commands use like any
// checkpoint, sweeps, and invalid input.
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Cards of twelve colours: some to train on, others of the same colours for validation and test.
class TrainHeadTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::map<std::string, std::string> manifests;
    for (int colour = 0; colour < 12; ++colour) {
      const int red = 20 + 200 * (colour % 2);
      const int green = 20 + 100 * (colour / 2 % 3);
      const int blue = 30 + 190 * (colour / 6);
      for (int i = 0; i < 4; ++i) {
        const std::string name = fmt::format("card-{}-{}.png", colour, i);
        picture("data/" + name, red + 8 * i, green + 5 * i, blue);
        manifests[i < 2    ? "train"
                  : i == 2 ? "val"
                           : "test"] +=
            fmt::format("{{\"image\": \"{}\", \"captions\": [\"card number {}\", \"the card with a {}\"]}}\n",
                        name, colour, colour);
      }
    }
    for (const auto& [split, manifest] : manifests) write(fmt::format("data/{}.jsonl", split), manifest);
  }

  static std::vector<std::string> training(const std::string& run,
                                           const std::vector<std::string>& extra = {}) {
    std::vector<std::string> words = {"train",
                                      "head",
                                      "--dataset",
                                      "data/train.jsonl",
                                      "--held-out",
                                      "data/val.jsonl",
                                      "--test",
                                      "data/test.jsonl",
                                      "-o",
                                      run,
                                      "--batch-size",
                                      "16",
                                      "--width",
                                      "32",
                                      "--hidden-width",
                                      "32",
                                      "--resamples",
                                      "200",
                                      "--threads",
                                      "1"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }
  static std::vector<std::string> sweep(const std::string& run, const std::vector<std::string>& extra = {}) {
    std::vector<std::string> words = {"train",
                                      "head",
                                      "--dataset",
                                      "data/train.jsonl",
                                      "--held-out",
                                      "data/val.jsonl",
                                      "--test",
                                      "data/test.jsonl",
                                      "-o",
                                      run,
                                      "--batch-size",
                                      "12",
                                      "--sweep",
                                      "--sizes",
                                      "24",
                                      "48",
                                      "--widths",
                                      "24",
                                      "--seeds",
                                      "1",
                                      "2",
                                      "--resamples",
                                      "100",
                                      "--threads",
                                      "1"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }
};

TEST_F(TrainHeadTest, OthersTakeItLikeAnyCheckpoint) {
  const Outcome trained = run(training("run", {"--epochs", "30", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json report = parse_json(trained.out).value();
  EXPECT_EQ(report["finished"], true);
  EXPECT_EQ(report["pairs"], 48);
  ASSERT_EQ(report["outcome"].size(), 1U);
  const Json& set = report["outcome"][0];
  EXPECT_EQ(set["set"], "test");
  EXPECT_EQ(set["results"][0]["model"], "no head");
  EXPECT_EQ(set["results"][1]["model"], "mlp");
  EXPECT_EQ(read_json(folder_ / "run/run.json").value()["outcome"], report["outcome"]);

  // The reported figures of the head equal those of `eval retrieval` for its checkpoint, and for its encoder.
  const Outcome measured =
      run({"eval", "retrieval", "--dataset", "data/test.jsonl", "-m", "run/model",
           (fs::path(kSourceDir) / "models/starter").string(), "--resamples", "0", "--json"});
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Json evaluation = parse_json(measured.out).value();
  const auto r5 = [&](const std::string& model) {
    for (const Json& result : evaluation["results"]) {
      if (result["model"] == model) return result["i2t"]["r5"]["value"];
    }
    return Json();
  };
  EXPECT_EQ(r5("run"), set["results"][1]["i2t"]["r5"]["value"]);
  EXPECT_EQ(r5("starter"), set["results"][0]["i2t"]["r5"]["value"]);

  const Outcome conformed = run({"model", "conform", "run/model"});
  EXPECT_EQ(conformed.code, 0) << conformed.out << conformed.err;
  const Outcome shown = run({"model", "show", "run/model", "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(parse_json(shown.out).value()["family"], "head");
  EXPECT_EQ(run({"index", "data", "-c", "c", "-m", "run/model"}).code, 0);
  const Outcome found = run({"search", "-c", "c", "-k", "3", "card", "number", "3", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(parse_json(found.out).value()["hits"].size(), 3U);

  // Prints the comparison with the linear head as text. Heads are named as by -m.
  const std::string encoder = (fs::path(kSourceDir) / "models/starter").string();
  const Outcome linear =
      run(training("linear", {"--kind", "linear", "-m", encoder, "--against", "run/model", "starter"}),
          {.environment = {"SACCADE_STARTER=" + (folder_ / "run/model").string()}});
  ASSERT_EQ(linear.code, 0) << linear.err;
  EXPECT_THAT(linear.out, HasSubstr("mean recall"));
  EXPECT_THAT(linear.out, HasSubstr("than run/model: "));
  EXPECT_THAT(linear.out, HasSubstr("than starter: "));

  // Another checkpoint lies at its encoder's path.
  const std::string other = golden("clip-gelu").string();
  write("run/model/frozen.json", dump_json({{"path", other}}));
  expect_failure({"eval", "retrieval", "--dataset", "data/test.jsonl", "-m", "run/model"}, 1,
                 {"a head for another encoder: it was trained on starter"},
                 {.environment = {"SACCADE_STARTER=" + other}});
}

TEST_F(TrainHeadTest, ASweepGoesOnAndWritesItsPage) {
  const auto is_under_way = [&](std::string_view) { return fs::exists(folder_ / "sweep/heads/mlp-24-24-1"); };
  const Outcome cut = run(sweep("sweep"), {.stop_when = is_under_way});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, HasSubstr("of 8 heads; the same command goes on from there"));
  const Outcome rest = run(sweep("sweep", {"--json"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  const Outcome whole = run(sweep("whole", {"--json"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Json report = parse_json(rest.out).value();
  EXPECT_EQ(report["trained"], 8);
  EXPECT_EQ(report["cells"].size(), 4U);
  EXPECT_EQ(report["cells"], parse_json(whole.out).value()["cells"]);
  EXPECT_EQ(report["verdicts"].size(), 6U);  // each against no head, and MLPs against linear heads
  const std::string page = read_file(folder_ / "sweep/report.html").value();
  for (const char* words : {"id=\"heads\"", "baseline: linear head", "improved: MLP head", "modality-gap",
                            "the first five captions for a few images", "mean recall by pairs"}) {
    EXPECT_THAT(page, HasSubstr(words));
  }
  const Outcome text = run(sweep("sweep"));  // nothing is trained again
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("8 of 8 heads trained"));
  EXPECT_THAT(text.out, HasSubstr("than no head"));
  EXPECT_EQ(run({"report", "sweep/run", "-o", "again.html", "--no-charts"}).code, 0);
  expect_failure(sweep("sweep", {"--epochs", "3"}), 1,
                 {"holds another training", "\"epochs\" is 0.0 there, 3.0 here"});
}

TEST_F(TrainHeadTest, WhatItRefuses) {
  expect_failure(training("run", {"--pairs", "9"}), 2, {"a batch of 16 from 9 pairs"});
  expect_failure(training("run", {"--image-states", "queries"}), 2, {"gives no states of queries"});
  expect_failure(training("run", {"--kind", "deep"}), 2, {"deep"});
  expect_failure(training("run", {"--sweep"}), 2, {"--sweep"});
  expect_failure({"train", "head", "-o", "run"}, 2, {"--dataset", "--features"});
  expect_failure({"train", "head", "-o", "run", "--features", "nowhere.safetensors"}, 1,
                 {"nowhere.safetensors"});
  std::vector<std::string> same = training("run");
  same[5] = "data/train.jsonl";
  expect_failure(same, 2, {"24 images elsewhere in this training too"});
  const std::vector<float> values = {1, 2, 3, std::nanf(""), 5, 6};
  const std::vector<int64_t> relation = {0, 1};
  const auto floats = std::as_bytes(std::span(values));
  const std::vector<NamedTensor> tensors = {
      {"image_features", {DType::kF32, {2, 3}, floats}},
      {"text_features", {DType::kF32, {2, 3}, floats}},
      {"text_image", {DType::kI64, {2}, std::as_bytes(std::span(relation))}}};
  ASSERT_TRUE(write_safetensors(folder_ / "nan.safetensors", tensors));
  expect_failure({"train", "head", "-o", "run", "--features", "nan.safetensors"}, 1,
                 {"nan.safetensors: row 1 of \"image_features\" has a value that is NaN"});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace saccade::test
