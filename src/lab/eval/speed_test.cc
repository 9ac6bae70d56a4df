// Tests of speed with a fake clock: medians, percentiles, excluded passes, stages that add up.
#include "lab/eval/speed.h"

#include <cmath>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/hash.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::array<std::string_view, 2> kTwoStages = {"first", "second"};

// A clock that advances by a millisecond each time it is read, and on request.
struct FakeClock {
  double now = 1000;
  SpeedClock clock() {
    return [this] { return now += 0.001; };
  }
  // Returns a clock that advances only on request.
  SpeedClock still() {
    return [this] { return now; };
  }
};

TEST(Speed, SpreadIsTheMedianBetweenTheExtremes) {
  const Spread odd = spread_of({5, 1, 3});
  EXPECT_EQ(odd.value, 3);
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.high, 5);
  EXPECT_EQ(spread_of({4, 1, 2, 8}).value, 3);
  EXPECT_TRUE(std::isnan(spread_of({}).value));
}

TEST(Speed, ThroughputLeavesOutWarmUpAndWhatLiesBetweenStages) {
  FakeClock fake;
  const SpeedClock clock = fake.still();
  // Seconds of the second stage, pass by pass; the first two are warm-up.
  const std::vector<double> seconds = {90, 50, 2, 6, 4};
  size_t call = 0;
  SpeedOptions options;
  options.warm_up = 2;
  options.repeats = 3;
  const auto result = measure_throughput(kTwoStages, 8, options, clock, [&](StageWatch& watch) -> Status {
    for (int batch = 0; batch < 2; ++batch) {
      fake.now += 1000;  // between batches: nobody's
      watch.begin();
      fake.now += 1;
      watch.end_stage(0);
      fake.now += seconds[call] / 2;
      watch.end_stage(1);
    }
    ++call;
    return {};
  });
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(call, 5U);
  EXPECT_EQ(result->items, 8);
  EXPECT_DOUBLE_EQ(result->per_second.value, 8.0 / 6);  // of 4, 8 and 6 seconds
  EXPECT_DOUBLE_EQ(result->per_second.low, 1);
  EXPECT_DOUBLE_EQ(result->per_second.high, 2);
  ASSERT_THAT(result->stages, SizeIs(2));
  EXPECT_EQ(result->stages[0].name, "first");
  EXPECT_DOUBLE_EQ(result->stages[0].seconds.value, 2.0 / 8);
  EXPECT_DOUBLE_EQ(result->stages[1].seconds.value, 4.0 / 8);
  EXPECT_DOUBLE_EQ(result->stages[1].seconds.low, 2.0 / 8);
  EXPECT_DOUBLE_EQ(result->stages[1].seconds.high, 6.0 / 8);
}

TEST(Speed, PercentilesAreOfAllQueriesOfAllPassesThatCount) {
  FakeClock fake;
  const SpeedClock clock = fake.still();
  SpeedOptions options;
  options.warm_up = 1;
  options.repeats = 2;
  int64_t call = 0;
  const auto one = [&](int64_t item, StageWatch& watch) -> Status {
    watch.begin();
    fake.now += call++ < 100 ? 77 : 0.001;
    watch.end_stage(0);
    // 1 to 200 ms over the two passes that count, minus the first stage's 1.
    fake.now += 0.001 * static_cast<double>(call > 200 ? item + 100 : item);
    watch.end_stage(1);
    return {};
  };
  const auto result = measure_latency(kTwoStages, 100, options, clock, one);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->samples, 200);
  EXPECT_NEAR(result->p50, 100.5, 1e-6);
  EXPECT_NEAR(result->p95, 190.05, 1e-6);
  EXPECT_NEAR(result->p99, 198.01, 1e-6);
  EXPECT_NEAR(result->max, 200, 1e-6);
  ASSERT_THAT(result->stages, SizeIs(2));
  EXPECT_NEAR(result->stages[0].second, 1, 1e-6);
  EXPECT_NEAR(result->stages[1].second, 99.5, 1e-6);
}

TEST(Speed, APercentileWithNothingBeyondItIsNone) {
  FakeClock fake;
  const SpeedClock clock = fake.clock();
  SpeedOptions options;
  options.warm_up = 0;
  options.repeats = 1;
  const auto one = [](int64_t, StageWatch& watch) -> Status {
    watch.begin();
    watch.end_stage(0);
    return {};
  };
  const auto measured = [&](int64_t items) {
    return measure_latency(std::span(kTwoStages).first(1), items, options, clock, one).value_or(Latency());
  };
  EXPECT_TRUE(std::isnan(measured(19).p95));
  EXPECT_FALSE(std::isnan(measured(19).p50));
  EXPECT_NEAR(measured(20).p95, 1, 1e-6);
  EXPECT_TRUE(std::isnan(measured(99).p99));
  EXPECT_NEAR(measured(100).p99, 1, 1e-6);
  EXPECT_EQ(measured(0).samples, 0);
}

class SpeedOfEncoder : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 5; ++i) {
      const std::string bytes = one_colour(static_cast<uint8_t>(40 * i), 200, 100);
      hashes_.push_back(sha256_hex(bytes));
      inputs_.images.push_back({.path = folder_.write(fmt::format("{}.png", i), bytes), .member = ""});
    }
    inputs_.texts = {"rr", "gggg", "b"};
    options_.batch = 2;
    options_.repeats = 3;
    options_.gallery = 8;
    options_.candidates = 4;
  }
  Result<SpeedResult> measure(EncoderBackend& encoder) {
    return measure_speed(encoder, inputs_, options_, pool_, clock_);
  }

  test::TestFolder folder_;
  SpeedInputs inputs_;
  std::vector<std::string> hashes_;
  SpeedOptions options_;
  FakeClock fake_;
  SpeedClock clock_ = fake_.clock();
  ThreadPool pool_{2};
};

TEST_F(SpeedOfEncoder, EveryStageHasItsTimeAndNothingElseCounts) {
  ColourEncoder encoder;
  // An image takes 10 ms to encode, and one second during the warm-up passes. A text takes 2 ms.
  encoder.spoil = [&](const Matrix<float>& rows) {
    const bool pictures = encoder.texts == 0;
    const bool warm_up = encoder.images <= 5;
    fake_.now += static_cast<double>(rows.rows()) * (warm_up ? 1 : pictures ? 0.01 : 0.002);
  };
  const auto result = measure(encoder);
  ASSERT_TRUE(result) << result.error().message;

  // There are three batches per pass, and each reading of the clock takes a millisecond.
  EXPECT_EQ(result->images.items, 5);
  ASSERT_THAT(result->images.stages, SizeIs(4));
  double sum = 0;
  for (const StageTime& stage : result->images.stages) {
    EXPECT_NEAR(stage.seconds.value, (0.003 + (stage.name == "encode" ? 0.05 : 0)) / 5, 1e-9) << stage.name;
    sum += stage.seconds.value;
  }
  EXPECT_NEAR(result->images.per_second.value, 1 / sum, 1e-6);
  EXPECT_NEAR(result->images.per_second.low, result->images.per_second.high, 1e-6);

  EXPECT_EQ(result->texts.items, 3);
  EXPECT_NEAR(result->texts.per_second.value, 3 / (2 * 0.002 + 3 * 0.002), 1e-6);
  EXPECT_NEAR(result->queries.per_second.value, 3 / (2 * 0.003 + 3 * 0.002), 1e-6);
  ASSERT_THAT(result->queries.stages, SizeIs(3));
  EXPECT_NEAR(result->queries.stages[2].seconds.value, 0.002 / 3, 1e-9);

  // Latency is measured one item at a time: three texts, and five images, in each of three passes.
  EXPECT_EQ(result->text_latency.samples, 9);
  EXPECT_NEAR(result->text_latency.p50, 3 + 2, 1e-6);
  EXPECT_EQ(result->image_latency.samples, 15);
  EXPECT_NEAR(result->image_latency.p50, 5 + 2, 1e-6);
  ASSERT_THAT(result->image_latency.stages, SizeIs(5));
  EXPECT_EQ(result->image_latency.stages[3].first, "encode");
  EXPECT_NEAR(result->image_latency.stages[3].second, 3, 1e-6);

  EXPECT_EQ(result->gallery, 8);
  EXPECT_EQ(result->random_rows, 3);
  EXPECT_EQ(result->images_sha256, hash_of_hashes(hashes_));
  EXPECT_NEAR(result->mean_tokens, (4 + 6 + 3) / 3.0, 1e-9);
  EXPECT_EQ(result->texts_cut, 0);
  // There are four passes of each, warm-up included.
  EXPECT_EQ(encoder.images, 4 * (5 + 5));
  EXPECT_EQ(encoder.texts, 4 * (3 + 3 + 3));
}

TEST_F(SpeedOfEncoder, LateInteractionIsScoredByAllItsRows) {
  ColourEncoder encoder(true);
  const auto result = measure(encoder);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->late);
  EXPECT_EQ(result->rows_per_image, 2);
  EXPECT_EQ(result->random_rows, 3);
  const Json json = record_json(speed_record(*result));
  EXPECT_EQ(json["scored_by"], "maxsim");
  EXPECT_GT(json["queries_per_s"]["value"].get<double>(), 0);
  const auto back = read_record<SpeedRecord>(json);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(json));
  Json older = json;
  older["memory"] = {{"peak_bytes", 5}};  // as once written
  EXPECT_EQ(read_record<SpeedRecord>(older).value().peak_bytes, 5);
}

TEST_F(SpeedOfEncoder, WhatIsNotMeasuredIsNull) {
  ColourEncoder encoder;
  inputs_.texts = {};
  auto result = measure(encoder);
  ASSERT_TRUE(result) << result.error().message;
  Json json = record_json(speed_record(*result));
  for (const char* key : {"texts_per_s", "queries_per_s", "text_stages", "query_stages", "mean_tokens"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_TRUE(json["latency_ms"]["text"].is_null());
  EXPECT_TRUE(json["latency_ms"]["image"]["p99"].is_null());  // of 15 samples
  EXPECT_TRUE(json["latency_ms"]["image"]["p50"].is_number());
  EXPECT_TRUE(json["stages"]["encode"].is_number());

  inputs_ = {{}, {"r", "gggggggggggggggggggg"}};
  result = measure(encoder);
  ASSERT_TRUE(result) << result.error().message;
  json = record_json(speed_record(*result));
  EXPECT_TRUE(json["images_per_s"].is_null());
  EXPECT_TRUE(json["stages"].is_null());
  EXPECT_EQ(json["random_rows"], 8);
  EXPECT_EQ(json["texts_cut"], 1);
  EXPECT_EQ(result->images_sha256, "");
}

TEST_F(SpeedOfEncoder, BadInputIsNamed) {
  ColourEncoder encoder;
  inputs_.images[3].path = folder_.write("broken.png", "no picture");
  auto result = measure(encoder);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("broken.png"));
  inputs_ = {};
  result = measure(encoder);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kBadData);
  ColourEncoder late(true);
  inputs_.texts = {"r"};
  result = measure(late);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("images"));
  options_.batch = 0;
  result = measure(encoder);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUsage);
  options_.batch = 1;
  options_.gallery = int64_t{1} << 40;
  result = measure(encoder);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kLimit);
}

TEST_F(SpeedOfEncoder, ABenchmarkPassWithoutTextsIsRefusedAtOnce) {
  ColourEncoder encoder;
  inputs_.texts = {};
  options_.benchmark = true;
  const auto result = measure(encoder);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUsage);
  EXPECT_EQ(encoder.images, 0);
}

TEST_F(SpeedOfEncoder, StopsWhenAsked) {
  ColourEncoder encoder;
  std::stop_source source;
  options_.stop = source.get_token();
  int64_t calls = 0;
  options_.progress = [&](const ProgressUpdate& update) {
    EXPECT_LE(update.done, update.total);
    if (++calls == 7) source.request_stop();
  };
  const auto result = measure(encoder);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 7);
}

TEST(Speed, InputsAreTheFirstPicturesAndTheirFirstCaptions) {
  Dataset dataset;
  auto& items = dataset.as<CaptionedImages>().items;
  items.resize(3);
  for (size_t i = 0; i < 3; ++i) items[i].image.path = std::to_string(i);
  items[0].captions = {"a", "b"};
  items[2].captions = {"c"};
  EXPECT_THAT(speed_inputs(dataset, 0).images, SizeIs(3));
  EXPECT_THAT(speed_inputs(dataset, 0).texts, ElementsAre("a", "c"));
  EXPECT_THAT(speed_inputs(dataset, 2).images, SizeIs(2));
  EXPECT_THAT(speed_inputs(dataset, 2).texts, ElementsAre("a"));
  Dataset pairs;
  auto& tests = pairs.content.emplace<CompositionTests>().items;
  tests.resize(2);
  tests[0].images.resize(2);
  tests[0].captions = {"p", "q"};
  tests[1].images.resize(1);
  tests[1].captions = {"r", "s"};
  EXPECT_THAT(speed_inputs(pairs, 0).texts, ElementsAre("p", "q", "r"));
  EXPECT_THAT(speed_inputs(pairs, 1).texts, ElementsAre("p"));
}

TEST(Speed, MemoryOfThisProcess) {
  const ProcessMemory before = process_memory();
  ASSERT_GT(before.resident_bytes, 0);
  EXPECT_GE(before.peak_bytes, before.resident_bytes);
  constexpr size_t kBytes = size_t{64} << 20;
  {
    const auto block = std::make_unique<std::vector<char>>(kBytes, 'x');
    EXPECT_EQ(block->back(), 'x');
  }
  EXPECT_GE(process_memory().peak_bytes, before.resident_bytes + static_cast<int64_t>(kBytes) / 2);
}

}  // namespace
}  // namespace saccade::lab
