// Tests of advice from hand-made runs: excluded models, models that do not differ significantly, missing
// measurements, and runs that do not fit together.
#include "lab/eval/advise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/length/length_metrics.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/winoground/composition_metrics.h"

namespace saccade::lab {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// In a test's body `Run` is the test's own.
using ARun = Run;

Figure figure(const char* name, double value, double half) {
  if (half < 0) return {.name = name, .value = value};
  return {.name = name, .value = value, .low = value - half, .high = value + half};
}

Difference difference(double value, double half, bool significant) {
  return {
      .figure = figure("r1", value, half), .p_value = significant ? 0.002 : 0.5, .significant = significant};
}

Run make_run(const std::string& kind, const std::string& dataset, const std::vector<std::string>& models,
             const std::string& precision = "fp32") {
  Run run;
  run.folder = "runs/" + kind;
  run.info.kind = kind;
  run.info.protocol = {{"description", "as it is done"}};
  if (kind == "speed") run.info.protocol["device"] = "cpu";
  RunDataset& described = run.info.datasets.emplace_back();
  described.name = dataset;
  described.sha256 = "hash of " + dataset;
  described.images = 10;
  described.texts = 20;
  for (const std::string& model : models) {
    RunCheckpoint& checkpoint = run.info.checkpoints.emplace_back();
    checkpoint.name = model;
    checkpoint.fingerprint = "fp-" + model;
    checkpoint.precision = precision;
    checkpoint.context = 77;
  }
  run.info.machine = {.processor = "some processor", .threads = 2, .memory_bytes = 1};
  return run;
}

struct Accuracy {
  std::string model;
  double r1;
  double half = 0.01;  // half width of the interval; below 0: none
};
Run retrieval(const std::vector<Accuracy>& models, const std::string& dataset = "photos") {
  std::vector<std::string> names;
  for (const Accuracy& one : models) names.push_back(one.model);
  Run run = make_run("retrieval", dataset, names);
  RetrievalMetrics metrics;
  const auto add = [&](const std::string& model, const Figure& r1) {
    RetrievalResult& result = metrics.results.emplace_back();
    result.dataset = dataset;
    result.model = model;
    result.directions.t2i.figures = {r1};
  };
  add("chance", figure("r1", 0.1, -1));
  for (const Accuracy& one : models) add(one.model, figure("r1", one.r1, one.half));
  run.metrics = record_json(metrics);
  return run;
}
void add_comparison(Run& run, const std::string& a, const std::string& b, const Difference& r1) {
  RetrievalMetrics metrics = read_metrics<RetrievalMetrics>(run).value();
  metrics.comparisons.push_back(
      {.dataset = run.info.datasets.front().name, .a = a, .b = b, .directions = {{r1}, {}}});
  run.metrics = record_json(metrics);
}

struct Speed {
  std::string model;
  double images_per_s;
  double p95 = 10;
  int64_t peak = 1000;
};
Run speed(const std::vector<Speed>& models, const std::string& dataset = "photos") {
  std::vector<std::string> names;
  for (const Speed& one : models) names.push_back(one.model);
  Run run = make_run("speed", dataset, names);
  SpeedMetrics metrics;
  for (const Speed& one : models) {
    SpeedRecord& result = metrics.results.emplace_back();
    result.dataset = dataset;
    result.model = one.model;
    result.images_per_s = {one.images_per_s, one.images_per_s - 1, one.images_per_s + 1};
    result.text_latency = {.samples = 12, .p95 = one.p95, .stages = {}};
    result.peak_bytes = one.peak;
  }
  run.metrics = record_json(metrics);
  return run;
}

struct Group {
  std::string model;
  double group;
};
Run winoground(const std::vector<Group>& models) {
  std::vector<std::string> names;
  for (const Group& one : models) names.push_back(one.model);
  Run run = make_run("winoground", "pairs", names);
  CompositionMetrics metrics;
  const auto add = [&](const std::string& model, const std::optional<std::string>& kind,
                       const Figure& group) {
    metrics.results.push_back({"pairs", model, kind, 9, 0, {group}});
  };
  add("chance", std::nullopt, figure("group", 0.167, -1));
  for (const Group& one : models) {
    add(one.model, std::nullopt, figure("group", one.group, 0.02));
    add(one.model, "relation", figure("group", 0.9, 0.02));
  }
  run.metrics = record_json(metrics);
  return run;
}

struct Length {
  std::string model;
  std::optional<int64_t> tokens;
  bool at_end = false;
  bool above_chance = true;
};
Run length(const std::vector<Length>& models) {
  std::vector<std::string> names;
  for (const Length& one : models) names.push_back(one.model);
  Run run = make_run("length", "photos", names);
  LengthMetrics metrics;
  for (const Length& one : models) {
    LengthResult& result = metrics.results.emplace_back();
    result.dataset = "photos";
    result.model = one.model;
    LengthCurveRecord& curve = result.curves.t2i;
    curve.effective.tokens = one.tokens;
    curve.effective.at_end = one.at_end;
    curve.effective.share = 0.95;
    curve.above_chance = one.above_chance;
  }
  run.metrics = record_json(metrics);
  return run;
}

std::vector<std::string> names(const std::vector<AdvisedModel>& models) {
  std::vector<std::string> result;
  for (const AdvisedModel& model : models) result.push_back(model.measured.name);
  return result;
}
Advice advice_of(const std::vector<ARun>& runs, const AdviceQuestion& question = {}) {
  auto advice = advise(runs, question);
  EXPECT_TRUE(advice) << advice.error().message;
  return advice ? *std::move(advice) : Advice();
}
std::string error_of(const std::vector<ARun>& runs, const AdviceQuestion& question = {},
                     ErrorCode code = ErrorCode::kMismatch) {
  const auto advice = advise(runs, question);
  EXPECT_FALSE(advice);
  if (advice) return {};
  EXPECT_EQ(advice.error().code, code) << advice.error().message;
  return advice.error().message;
}

TEST(Advise, RanksByAccuracyWhereModelsCanBeToldApart) {
  const Advice advice = advice_of({retrieval({{"low", 0.2}, {"high", 0.5}, {"mid", 0.4}}),
                                   speed({{"low", 90}, {"high", 30}, {"mid", 60}})});
  EXPECT_EQ(advice.ranked_by, "text-to-image R@1");
  EXPECT_EQ(advice.dataset, "photos");
  ASSERT_THAT(names(advice.ranked), ElementsAre("high", "mid", "low"));
  EXPECT_EQ(advice.ranked[2].rank, 3);
  EXPECT_EQ(advice.ranked[2].tier, 3);
  EXPECT_THAT(advice.ranked[0].why, Contains("Its text-to-image R@1 is 0.500 [0.490, 0.510]."));
  EXPECT_THAT(advice.ranked[1].why,
              Contains("It is behind high: no run compares the two, but their intervals do not overlap."));
  EXPECT_THAT(advice.ranked[1].why, Contains("It encodes 60 (59 to 61) images/s, 2 times as many as high."));
}

TEST(Advise, WhoCannotBeToldApartIsOrderedBySpeed) {
  // The paired difference decides, whatever the intervals say, in both directions.
  ARun run = retrieval({{"a", 0.50, 0.001}, {"b", 0.49, 0.001}, {"c", 0.48, 0.1}});
  add_comparison(run, "a", "b", difference(0.01, 0.02, false));
  add_comparison(run, "c", "a", difference(-0.02, 0.001, true));
  add_comparison(run, "b", "c", difference(0.01, 0.02, false));
  const Advice advice = advice_of({run, speed({{"a", 10}, {"b", 40}, {"c", 99}})});
  ASSERT_THAT(names(advice.ranked), ElementsAre("b", "a", "c"));
  EXPECT_EQ(advice.ranked[0].tier, 1);
  EXPECT_EQ(advice.ranked[1].tier, 1);
  EXPECT_EQ(advice.ranked[2].tier, 2);
  EXPECT_THAT(advice.ranked[0].why,
              Contains("It cannot be told apart from a: 0.010 [-0.010, 0.030] behind."));
  EXPECT_THAT(advice.ranked[0].why, Contains(HasSubstr("4 times as many as a")));
  EXPECT_THAT(advice.ranked[1].why, Not(Contains(HasSubstr("told apart"))));
  EXPECT_THAT(advice.ranked[2].why, Contains("It is behind a by 0.020 [0.019, 0.021]."));

  // The same by intervals alone, and without them.
  const Advice overlap =
      advice_of({retrieval({{"a", 0.50, 0.02}, {"b", 0.47, 0.02}}), speed({{"a", 10}, {"b", 40}})});
  ASSERT_THAT(names(overlap.ranked), ElementsAre("b", "a"));
  EXPECT_THAT(overlap.ranked[0].why, Contains(HasSubstr("their intervals overlap")));
  const Advice plain =
      advice_of({retrieval({{"a", 0.9, -1}, {"b", 0.1, -1}}), speed({{"a", 10}, {"b", 40}})});
  ASSERT_THAT(names(plain.ranked), ElementsAre("b", "a"));
  EXPECT_THAT(plain.ranked[0].why, Contains(HasSubstr("there are no intervals")));
}

TEST(Advise, EachLimitExcludesByWhatWasMeasured) {
  const std::vector<ARun> runs = {retrieval({{"slow", 0.9}, {"quick", 0.5}}),
                                  speed({{"slow", 10, 200, 5000}, {"quick", 50, 20, 2000}})};
  const auto excluded = [&](const AdviceQuestion& question, const std::string& limit, double measured) {
    const Advice advice = advice_of(runs, question);
    EXPECT_THAT(names(advice.ranked), ElementsAre("quick"));
    EXPECT_THAT(names(advice.excluded), ElementsAre("slow"));
    if (advice.excluded.empty()) return std::string();
    EXPECT_THAT(advice.excluded[0].excluded, SizeIs(1));
    EXPECT_EQ(advice.excluded[0].excluded[0].limit, limit);
    EXPECT_EQ(advice.excluded[0].excluded[0].measured, measured);
    return advice.excluded[0].why.front();
  };
  AdviceQuestion question;
  question.min_images_per_s = 50;
  EXPECT_EQ(excluded(question, "min_images_per_s", 10), "It encodes 10 (9 to 11) images/s, fewer than 50.");
  EXPECT_THAT(advice_of(runs, question).ranked[0].why,
              Contains("Not in every pass did it reach 50 images/s."));
  question = {};
  question.max_latency_ms = 20;
  EXPECT_EQ(excluded(question, "max_latency_ms", 200),
            "One text query in twenty takes 200 ms or longer, more than 20.");
  question = {};
  question.max_memory_bytes = 2000;
  EXPECT_EQ(excluded(question, "max_memory_bytes", 5000), "It took 5000 bytes of memory, more than 2000.");
  question.max_latency_ms = 1;
  const Advice none = advice_of(runs, question);
  EXPECT_THAT(none.ranked, IsEmpty());
  EXPECT_THAT(none.excluded[0].excluded, SizeIs(2));
  EXPECT_THAT(advice_text(none), HasSubstr("no model is left"));
}

TEST(Advise, QueryLengthGoesByContextAndEffectiveLength) {
  ARun accuracy = retrieval({{"short", 0.9}, {"long", 0.5}, {"tiny", 0.8}, {"open", 0.4}});
  accuracy.info.checkpoints[2].context = 16;
  const std::vector<ARun> runs = {accuracy, length({{"short", 20}, {"long", 40}, {"open", 18, true}})};
  AdviceQuestion question;
  question.query_length = 30;
  const Advice advice = advice_of(runs, question);
  ASSERT_THAT(names(advice.ranked), ElementsAre("long"));
  ASSERT_THAT(names(advice.excluded), ElementsAre("short", "tiny"));
  EXPECT_EQ(advice.excluded[0].why.front(),
            "It effectively reads 20 tokens (enough for 95% of its best R@1), fewer than 30.");
  EXPECT_EQ(advice.excluded[1].why.front(),
            "It has room for 16 tokens, start and end included; 30 are asked for.");
  // The texts were too short to tell, so this is no measurement.
  ASSERT_THAT(names(advice.not_judged), ElementsAre("open"));
  EXPECT_THAT(advice.not_judged[0].why.front(), HasSubstr("ended at 18 tokens"));
  question.query_length = 18;
  EXPECT_THAT(names(advice_of(runs, question).ranked), ElementsAre("short", "long", "open"));
  // Lengths of mean vectors are not those of the scores that search ranks by.
  ARun by_mean = length({{"short", 20}});
  by_mean.info.protocol["late_mean"] = true;
  question.query_length = 30;
  EXPECT_THAT(names(advice_of({accuracy, by_mean}, question).excluded), ElementsAre("tiny"));
}

// A curve that never rises above chance has a length, too. It neither excludes nor supports a model.
TEST(Advise, TheLengthOfNoiseIsNone) {
  const std::vector<ARun> runs = {
      retrieval({{"reads", 0.5}, {"guesses", 0.105}, {"lucky", 0.101}}),
      length({{"reads", 40}, {"guesses", 2, false, false}, {"lucky", 60, false, false}})};
  AdviceQuestion question;
  question.query_length = 30;
  const Advice advice = advice_of(runs, question);
  ASSERT_THAT(names(advice.ranked), ElementsAre("reads"));
  EXPECT_THAT(advice.excluded, IsEmpty());
  ASSERT_THAT(names(advice.not_judged), ElementsAre("guesses", "lucky"));
  for (const AdvisedModel& model : advice.not_judged) {
    EXPECT_THAT(model.why, ElementsAre("Not measured: query length: at no length did it find more than "
                                       "guessing does."));
  }
  const Json json = advice_json(advice, question);
  EXPECT_EQ(json["ranking"][0]["effective_tokens"], 40);
  EXPECT_TRUE(json["not_judged"][1]["effective_tokens"].is_null());
}

TEST(Advise, AccuracyThatIsGuessingIsMarked) {
  const Advice advice =
      advice_of({retrieval({{"sees", 0.5}, {"guesses", 0.105}, {"worse", 0.05}, {"unsure", 0.12, -1}})});
  std::vector<std::optional<bool>> above;
  for (const AdvisedModel& model : advice.ranked) above.push_back(model.above_chance);
  ASSERT_THAT(names(advice.ranked), ElementsAre("sees", "unsure", "guesses", "worse"));
  EXPECT_THAT(above, ElementsAre(true, std::nullopt, false, false));
  EXPECT_THAT(advice.ranked[2].why, Contains("That cannot be told from guessing (0.100)."));
  EXPECT_THAT(advice.ranked[3].why, Contains("That is below what guessing gets (0.100)."));
  const std::string text = advice_text(advice);
  EXPECT_THAT(text, HasSubstr("3. guesses (no better than guessing)\n"));
  EXPECT_THAT(text, HasSubstr("1. sees\n"));
  const Json json = advice_json(advice, {});
  EXPECT_EQ(json["ranking"][0]["above_chance"], true);
  EXPECT_TRUE(json["ranking"][1]["above_chance"].is_null());
  EXPECT_EQ(json["ranking"][2]["above_chance"], false);

  // Nothing found among few images is not below guessing: Wilson's end says how much it may be.
  for (const auto& [wilson, sentence] : {std::pair(0.2, "That cannot be told from guessing (0.100)."),
                                         std::pair(0.02, "That is below what guessing gets (0.100).")}) {
    ARun run = retrieval({{"sees", 0.5}, {"blind", 0, 0}});
    run.metrics["results"][2]["t2i"]["r1"]["wilson_high"] = wilson;
    const Advice nothing = advice_of({run});
    ASSERT_THAT(names(nothing.ranked), ElementsAre("sees", "blind"));
    EXPECT_EQ(nothing.ranked[1].above_chance, false);
    EXPECT_THAT(nothing.ranked[1].why, Contains(sentence));
    EXPECT_THAT(nothing.ranked[1].why, Contains(HasSubstr("R@1 is 0.000 [Wilson 0.")));
  }
}

// Nothing found among few images may be as much as another model's figure.
TEST(Advise, IntervalsReachUpToWilsonsEnd) {
  ARun run = retrieval({{"some", 0.1, 0.05}, {"blind", 0, 0}});
  for (const auto& [wilson, tier] : {std::pair(0.2, 1), std::pair(0.02, 2)}) {
    run.metrics["results"][2]["t2i"]["r1"]["wilson_high"] = wilson;
    const Advice advice = advice_of({run});
    ASSERT_THAT(names(advice.ranked), ElementsAre("some", "blind"));
    EXPECT_EQ(advice.ranked[1].tier, tier) << wilson;
  }
}

TEST(Advise, WhatNobodyMeasuredIsSaidAndJudgesNobody) {
  AdviceQuestion question;
  question.min_images_per_s = 5;
  question.languages = {"en", "de"};
  const Advice advice = advice_of({retrieval({{"a", 0.5}, {"b", 0.3}})}, question);
  ASSERT_THAT(names(advice.ranked), ElementsAre("a", "b"));
  EXPECT_THAT(advice.notes, Contains(AllOf(HasSubstr("images/s"), HasSubstr("nobody is judged"))));
  EXPECT_THAT(advice.notes, Contains(AllOf(HasSubstr("languages"), HasSubstr("en, de"))));
  EXPECT_THAT(advice.notes, Contains(HasSubstr("Not measured: speed")));
  EXPECT_THAT(advice.ranked[0].why, Contains("Its speed was not measured."));
}

TEST(Advise, WhatOthersHaveMeasuredIsNeededToBeJudged) {
  const std::vector<ARun> runs = {retrieval({{"a", 0.5}, {"b", 0.3}}),
                                  speed({{"b", 50}, {"fast", 90}, {"c", 9, Figure::kNone}})};
  AdviceQuestion question;
  question.max_latency_ms = 100;
  const Advice advice = advice_of(runs, question);
  ASSERT_THAT(names(advice.ranked), ElementsAre("b"));
  ASSERT_THAT(names(advice.not_judged), ElementsAre("a", "fast", "c"));
  EXPECT_THAT(advice.not_judged[0].why, ElementsAre("Not measured: latency."));
  EXPECT_THAT(advice.not_judged[1].why, ElementsAre("Not measured: text-to-image R@1."));
  EXPECT_THAT(advice.not_judged[2].why, Contains(HasSubstr("12 queries are too few")));
  // Without the limit, speed only affects the order.
  EXPECT_THAT(names(advice_of(runs).ranked), ElementsAre("a", "b"));
}

TEST(Advise, CompositionRanksByItsOwnTest) {
  ARun pairs = winoground({{"bag", 0.16}, {"parser", 0.4}, {"worse", 0.05}});
  const std::vector<ARun> runs = {retrieval({{"bag", 0.9}, {"parser", 0.2}, {"unseen", 0.95}}), pairs};
  AdviceQuestion question;
  question.composition = true;
  const Advice advice = advice_of(runs, question);
  EXPECT_EQ(advice.ranked_by, "group score");
  EXPECT_EQ(advice.dataset, "pairs");
  ASSERT_THAT(names(advice.ranked), ElementsAre("parser", "bag", "worse"));
  EXPECT_THAT(advice.ranked[1].why, Contains("That cannot be told from guessing (0.167)."));
  EXPECT_THAT(advice.ranked[2].why, Contains("That is below what guessing gets (0.167)."));
  ASSERT_THAT(names(advice.not_judged), ElementsAre("unseen"));
  EXPECT_THAT(advice.notes, Contains(HasSubstr("re-ranking. `saccade eval retrieval --rerank` measures")));
  EXPECT_THAT(error_of({runs.front()}, question, ErrorCode::kUsage), HasSubstr("eval winoground"));
  EXPECT_THAT(error_of({pairs}, {}, ErrorCode::kUsage), HasSubstr("eval retrieval"));
}

TEST(Advise, PrecisionsDoNotMix) {
  ARun fast = speed({{"a", 50}});
  fast.info.checkpoints[0].precision = "bf16";
  const Advice advice = advice_of({retrieval({{"a", 0.5}}), fast});
  ASSERT_THAT(names(advice.ranked), ElementsAre("a (fp32)"));
  EXPECT_FALSE(advice.ranked[0].measured.speed);
  EXPECT_THAT(advice.notes, Contains("a was scored in fp32 and its speed measured in bf16: "
                                     "the two do not go together."));
  // Runs are joined by fingerprint, not by name.
  ARun renamed = speed({{"other", 50}});
  renamed.info.checkpoints[0].fingerprint = "fp-a";
  EXPECT_TRUE(advice_of({retrieval({{"a", 0.5}}), renamed}).ranked[0].measured.speed);
  ARun same_name = speed({{"a", 50}});
  same_name.info.checkpoints[0].fingerprint = "another";
  EXPECT_FALSE(advice_of({retrieval({{"a", 0.5}}), same_name}).ranked[0].measured.speed);
}

TEST(Advise, RunsThatDoNotGoTogetherAreRefused) {
  const ARun photos = retrieval({{"a", 0.5}});
  const ARun icons = retrieval({{"b", 0.6}}, "icons");
  EXPECT_THAT(error_of({photos, icons}),
              AllOf(HasSubstr("photos"), HasSubstr("icons"), HasSubstr("--dataset")));
  AdviceQuestion question;
  question.datasets = {"icons"};
  EXPECT_THAT(names(advice_of({photos, icons}, question).ranked), ElementsAre("b"));
  question.datasets = {"nowhere"};
  EXPECT_THAT(error_of({photos, icons}, question, ErrorCode::kUsage), HasSubstr("icons, photos"));

  ARun changed = retrieval({{"b", 0.6}});
  changed.info.datasets[0].sha256 = "other captions";
  EXPECT_THAT(error_of({photos, changed}), HasSubstr("what was scored of photos"));
  ARun policy = retrieval({{"b", 0.6}});
  policy.info.protocol["captions"] = "first1";
  EXPECT_THAT(error_of({photos, policy}), AllOf(HasSubstr("captions"), HasSubstr("first1")));

  const ARun quick = speed({{"a", 50}});
  ARun threads = speed({{"b", 50}});
  threads.info.machine.threads = 8;
  EXPECT_THAT(error_of({photos, quick, threads}), AllOf(HasSubstr("threads"), HasSubstr("8")));
  ARun elsewhere = speed({{"a", 500}});
  elsewhere.info.protocol["device"] = "cuda";
  EXPECT_THAT(error_of({photos, quick, elsewhere}), HasSubstr("--device"));
  question = {};
  question.device = "cpu";
  const Advice advice = advice_of({photos, quick, elsewhere}, question);
  EXPECT_EQ(advice.ranked[0].measured.speed->images_per_s->value, 50);
  EXPECT_THAT(advice.notes, Contains(HasSubstr("measured on cuda, not on cpu")));
}

TEST(Advise, RunsThatContradictEachOther) {
  EXPECT_THAT(error_of({retrieval({{"a", 0.5}}), retrieval({{"a", 0.6}})}),
              AllOf(HasSubstr("contradict"), HasSubstr("0.5"), HasSubstr("0.6")));
  EXPECT_THAT(names(advice_of({retrieval({{"a", 0.5}}), retrieval({{"a", 0.5}})}).ranked), ElementsAre("a"));
  AdviceQuestion question;
  question.query_length = 10;
  EXPECT_THAT(error_of({retrieval({{"a", 0.5}}), length({{"a", 20}}), length({{"a", 30}})}, question),
              AllOf(HasSubstr("contradict"), HasSubstr("20"), HasSubstr("30")));
  // Speeds differ from one time to the next: the slower one counts.
  const Advice advice = advice_of(
      {retrieval({{"a", 0.5}}), speed({{"a", 60, 5, 900}}), speed({{"a", 40, 7, 800}}), speed({{"a", 50}})});
  const MeasuredSpeed& slower = *advice.ranked[0].measured.speed;
  EXPECT_EQ(slower.images_per_s->value, 40);
  EXPECT_EQ(*slower.text_p95_ms, 10);
  EXPECT_EQ(*slower.peak_bytes, 1000);
  EXPECT_THAT(advice.notes, Contains(HasSubstr("60 and 40 images/s")));
}

TEST(Advise, BrokenMetricsAreNamed) {
  EXPECT_THAT(error_of({}, {}, ErrorCode::kUsage), HasSubstr("no runs"));
  ARun run = retrieval({{"a", 0.5}});
  run.metrics = Json::array();
  EXPECT_THAT(error_of({run}, {}, ErrorCode::kBadData), HasSubstr("metrics.json"));
  run.metrics = {{"results", 5}};
  EXPECT_THAT(error_of({run}, {}, ErrorCode::kBadData), HasSubstr("\"results\""));
  run = retrieval({{"a", 0.5}});
  run.metrics["results"][1]["model"] = "z";
  EXPECT_THAT(error_of({run}, {}, ErrorCode::kBadData), HasSubstr("\"z\""));
  run = retrieval({{"a", 0.5}});
  run.metrics["results"][1]["t2i"]["r1"]["value"] = "much";
  EXPECT_THAT(error_of({run}, {}, ErrorCode::kBadData),
              HasSubstr("retrieval/metrics.json: \"results[1]\": \"t2i\": \"r1\": \"value\" is a string"));
  run.metrics["results"][1]["t2i"].erase("r1");
  EXPECT_THAT(error_of({run}, {}, ErrorCode::kBadData), HasSubstr("metrics.json: \"r1\" is missing"));
  ARun fast = speed({{"a", 5}});
  fast.metrics["results"][0].erase("latency_ms");
  EXPECT_THAT(error_of({retrieval({{"a", 0.5}}), fast}, {}, ErrorCode::kBadData), HasSubstr("latency_ms"));
}

TEST(Advise, JsonSaysWhatTheTextSays) {
  AdviceQuestion question;
  question.min_images_per_s = 20;
  const Advice advice =
      advice_of({retrieval({{"a", 0.5}, {"b", 0.4}, {"c", 0.3}}), speed({{"a", 10}, {"b", 30}})}, question);
  const Json json = advice_json(advice, question);
  EXPECT_EQ(json["asked"]["min_images_per_s"], 20);
  EXPECT_TRUE(json["asked"]["max_latency_ms"].is_null());
  EXPECT_EQ(json["ranking"][0]["model"], "b");
  EXPECT_EQ(json["ranking"][0]["rank"], 1);
  EXPECT_EQ(json["ranking"][0]["accuracy"]["value"], 0.4);
  EXPECT_EQ(json["excluded"][0]["excluded_by"][0]["measured"], 10);
  EXPECT_EQ(json["not_judged"][0]["missing"][0], "images/s");
  EXPECT_EQ(json["speed_machine"], "some processor, 2 threads");
  const std::string text = advice_text(advice);
  for (const char* part : {"1. b", "excluded:", "fewer than 20", "cannot be judged:", "some processor"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace saccade::lab
