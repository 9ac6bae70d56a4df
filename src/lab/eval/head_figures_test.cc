// Tests of the comparison of two models: figures over both directions, over several trainings, and verdicts.
#include "lab/eval/head_figures.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/rows/pair_scores.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

// Makes a retrieval of `images` images by one text each, whose embeddings differ by `noise`.
RetrievalOutcome outcome(int64_t images, float noise, uint32_t seed, int64_t resamples = 300) {
  std::mt19937 hidden(7);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> image_rows(images, 16);
  Matrix<float> text_rows(images, 16);
  for (size_t i = 0; i < image_rows.values().size(); ++i) {
    image_rows.values()[i] = normal(hidden);
    text_rows.values()[i] = image_rows.values()[i] + noise * normal(random);
  }
  RetrievalSource source;
  source.captions_known = false;
  for (int64_t i = 0; i < images; ++i) {
    source.images.push_back({std::to_string(i), {}});
    source.texts.push_back({{}, i});
  }
  const RetrievalTask task = make_retrieval_task(source, CaptionPolicy::kAll, {}, false).value();
  const auto scores = dot_scores(text_rows.view(), image_rows.view()).value();
  ThreadPool pool(1);
  return evaluate_retrieval(*scores, task, {}, {.resamples = resamples, .seed = 3, .confidence = 0.95}, pool)
      .value();
}

TEST(HeadFigures, MeanRecallIsTheMeanOfSix) {
  const RetrievalOutcome one = outcome(60, 1.5F, 1);
  const Estimates estimates = recall_estimates(one);
  ASSERT_EQ(estimates.names.size(), 7U);
  EXPECT_EQ(estimates.names.front(), "t2i_r1");
  EXPECT_EQ(estimates.names.back(), "mean_recall");
  const auto value = [](const DirectionOutcome& of, size_t figure) { return of.figures[figure].value; };
  double sum = 0;
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(estimates.value[k], value(one.text_to_image, k));
    EXPECT_EQ(estimates.value[3 + k], value(one.image_to_text, k));
    sum += value(one.text_to_image, k) + value(one.image_to_text, k);
  }
  EXPECT_NEAR(estimates.value[6], sum / 6, 1e-12);
  for (const Matrix<double>* rows : {&estimates.resampled, &estimates.left_out}) {
    ASSERT_GT(rows->rows(), 0);
    for (int64_t r = 0; r < rows->rows(); ++r) {
      double mean = 0;
      for (int64_t c = 0; c < 6; ++c) mean += (*rows)(r, c) / 6;
      EXPECT_NEAR((*rows)(r, 6), mean, 1e-12);
    }
  }
  const RecallOf<Figure> recall = recall_figures(estimates, 0.95);
  const Json json = record_json(recall);
  const auto back = read_record<RecallOf<Figure>>(json);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(json));
  EXPECT_EQ(json["t2i"]["r5"]["value"], value(one.text_to_image, 1));
  EXPECT_EQ(json["i2t"]["r5"]["low"], one.image_to_text.figures[1].low);
  EXPECT_LT(json["mean_recall"]["low"], json["mean_recall"]["high"]);
}

TEST(HeadFigures, SeveralTrainingsWidenTheInterval) {
  std::vector<Estimates> good;
  std::vector<Estimates> mixed;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    good.push_back(recall_estimates(outcome(60, 1.0F, 1)));
    mixed.push_back(recall_estimates(outcome(60, seed % 2 == 0 ? 0.6F : 2.0F, seed)));
  }
  const Estimates one = mean_over_trainings(std::span(good).first(1), 5).value();
  EXPECT_EQ(one.value, good.front().value);
  EXPECT_TRUE(std::ranges::equal(one.resampled.values(), good.front().resampled.values()));
  const auto width = [](const Estimates& of) {
    const Figure figure = figures_of(of, 0.95).back();
    return figure.high - figure.low;
  };
  const Estimates mean = mean_over_trainings(mixed, 5).value();
  double value = 0;
  double own = 0;
  for (const Estimates& each : mixed) {
    value += each.value.back() / 4;
    own = std::max(own, width(each));
  }
  EXPECT_NEAR(mean.value.back(), value, 1e-12);
  EXPECT_GT(width(mean), own);  // trainings differ by more than queries do
  EXPECT_FALSE(mean_over_trainings({}, 5));
  good.push_back(recall_estimates(outcome(30, 1.0F, 1)));
  EXPECT_FALSE(mean_over_trainings(good, 5));
}

TEST(HeadFigures, OnlyWhatShowsIsCalledBetter) {
  const Estimates good = recall_estimates(outcome(80, 0.8F, 1));
  const Estimates other = recall_estimates(outcome(80, 0.8F, 2));
  const Estimates bad = recall_estimates(outcome(80, 2.5F, 1));
  const Verdict better = compare_recall("mlp", good, "linear", bad, 0.95).value();
  EXPECT_TRUE(better.better);
  EXPECT_THAT(better.sentence, HasSubstr("mlp is better than linear: mean recall +0."));
  const Verdict worse = compare_recall("mlp", bad, "linear", good, 0.95).value();
  EXPECT_TRUE(worse.worse);
  EXPECT_FALSE(worse.better);
  EXPECT_THAT(worse.sentence, HasSubstr("mlp is worse than linear: mean recall -0."));
  const Verdict even = compare_recall("mlp", good, "linear", other, 0.95).value();
  EXPECT_FALSE(even.better);
  EXPECT_FALSE(even.worse);
  EXPECT_THAT(even.sentence,
              HasSubstr("mlp cannot be called better than linear: the difference in mean recall is"));
  EXPECT_THAT(even.sentence, HasSubstr("an interval that holds 0"));
  const Verdict blind = compare_recall("mlp", recall_estimates(outcome(80, 0.8F, 1, 0)), "linear",
                                       recall_estimates(outcome(80, 2.5F, 1, 0)), 0.95)
                            .value();
  EXPECT_FALSE(blind.better);
  EXPECT_THAT(blind.sentence, HasSubstr("there is no interval"));
  const Json json = record_json(better);
  EXPECT_EQ(json["better"], true);
  EXPECT_EQ(json["t2i"]["r1"]["significant"], true);
}

}  // namespace
}  // namespace saccade::lab
