// Tests of `saccade eval speed` and `advise` as a user runs them.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SpeedCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    picture("images/1.png", 200, 30, 30);
    picture("images/2.png", 30, 200, 30);
    write("set.jsonl",
          "{\"image\": \"images/1.png\", \"captions\": [\"red\", \"a card\"]}\n"
          "{\"image\": \"images/2.png\", \"captions\": [\"green\"]}\n");
  }
};

TEST_F(SpeedCommand, MeasuresEachPrecisionInAProcessOfItsOwnAndAdvises) {
  const Outcome outcome =
      run({"-q", "eval", "speed", "-m", "model", "--dataset", "set.jsonl", "--precision", "fp32", "bf16",
           "--repeats", "2", "--gallery", "50", "--threads", "1", "--json", "-o", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = parse_json(outcome.out).value();
  EXPECT_EQ(json["kind"], "speed");
  EXPECT_EQ(json["protocol"]["device"], "cpu");
  EXPECT_EQ(json["protocol"]["repeats"], 2);
  EXPECT_EQ(json["machine"]["threads"], 1);
  EXPECT_EQ(json["datasets"][0]["images"], 2);
  EXPECT_EQ(json["datasets"][0]["images_sha256"].get<std::string>().size(), 64U);
  ASSERT_EQ(json["results"].size(), 2U);
  ASSERT_EQ(json["checkpoints"].size(), 2U);
  EXPECT_EQ(json["checkpoints"][1]["precision"], "bf16");
  EXPECT_EQ(json["results"][0]["model"], "model-fp32");
  for (const Json& result : json["results"]) {
    EXPECT_GT(result["images_per_s"]["value"].get<double>(), 0);
    EXPECT_LE(result["images_per_s"]["low"], result["images_per_s"]["high"]);
    EXPECT_GT(result["queries_per_s"]["value"].get<double>(), 0);
    EXPECT_GT(result["stages"]["encode"].get<double>(), 0);
    EXPECT_EQ(result["latency_ms"]["text"]["samples"], 4);
    EXPECT_TRUE(result["latency_ms"]["text"]["p99"].is_null());
    EXPECT_EQ(result["random_rows"], 48);
    EXPECT_GT(result["load_s"].get<double>(), 0);
    EXPECT_GT(result["memory"]["after_load_bytes"], result["memory"]["before_load_bytes"]);
    EXPECT_GE(result["memory"]["peak_bytes"], result["memory"]["after_load_bytes"]);
  }
  EXPECT_TRUE(fs::exists(folder_ / "run/metrics.json"));

  ASSERT_EQ(run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.jsonl", "-o", "accuracy",
                 "--threads", "1"})
                .code,
            0);
  const Outcome advice = run(
      {"eval", "advise", "accuracy", "run", "--json", "--min-images-per-s", "1e9", "--languages", "en,de"});
  ASSERT_EQ(advice.code, 0) << advice.err;
  const Json advised = parse_json(advice.out).value();
  EXPECT_EQ(advised["ranked_by"], "text-to-image R@1");
  ASSERT_EQ(advised["excluded"].size(), 2U) << advice.out;
  EXPECT_EQ(advised["excluded"][0]["precision"], "fp32");
  EXPECT_EQ(advised["excluded"][0]["excluded_by"][0]["limit"], "min_images_per_s");
  EXPECT_EQ(advised["asked"]["languages"], (Json{"en", "de"}));
}

TEST_F(SpeedCommand, SaysWhatWasLeftOut) {
  fs::remove(folder_ / "images/2.png");
  const Outcome outcome = run({"-q", "eval", "speed", "-m", "model", "--dataset", "set.jsonl#missing=skip",
                               "--warm-up", "0", "--repeats", "1", "--gallery", "10"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("left out: image files that are not there: 1"));
}

TEST_F(SpeedCommand, WhatAProcessOfItsOwnSaysIsSaidOnce) {
  write("images/2.png", "no picture");
  const Outcome outcome = run({"-q", "eval", "speed", "-m", "model", "model", "--dataset", "set.jsonl",
                               "--warm-up", "0", "--repeats", "1", "-o", "run"});
  EXPECT_EQ(outcome.code, 1);
  expect_one_line(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("2.png"));
  EXPECT_FALSE(fs::exists(folder_ / "run/run.json"));
}

}  // namespace
}  // namespace saccade::test
