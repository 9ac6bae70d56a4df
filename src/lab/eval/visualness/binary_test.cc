#include "lab/eval/visualness/binary.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lab/eval/figures/resampling.h"
#include "lab/eval/visualness/picture_rank.h"
#include "saccade/core/random.h"

namespace saccade::lab {
namespace {

// Computed by hand: 3 non-visual texts, one predicted visual, and 5 visual ones, two predicted non-visual.
TEST(Binary, FiguresAreMacroAveraged) {
  const BinaryFigures figures = binary_figures({{{2, 1}, {2, 3}}});
  EXPECT_NEAR(figures.precision, (2.0 / 4 + 3.0 / 4) / 2, 1e-12);
  EXPECT_NEAR(figures.recall, (2.0 / 3 + 3.0 / 5) / 2, 1e-12);
  EXPECT_NEAR(figures.f1, (4.0 / 7 + 6.0 / 9) / 2, 1e-12);
  EXPECT_NEAR(figures.accuracy, 5.0 / 8, 1e-12);
  const BinaryFigures one_answer = binary_figures({{{0, 4}, {0, 6}}});
  EXPECT_NEAR(one_answer.precision, 0.3, 1e-12);
  EXPECT_NEAR(one_answer.recall, 0.5, 1e-12);
  EXPECT_NEAR(one_answer.f1, 0.375, 1e-12);
  EXPECT_TRUE(std::isnan(binary_figures({}).f1));
}

BinaryAnswers random_answers(size_t texts, int64_t clusters, double right) {
  SplitMix random(7);
  BinaryAnswers answers;
  answers.clusters = clusters;
  for (size_t i = 0; i < texts; ++i) {
    const auto truth = static_cast<uint8_t>(random.below(2));
    const bool hit = static_cast<double>(random.below(1000)) < 1000 * right;
    answers.truth.push_back(truth);
    answers.answer.push_back(hit ? truth : static_cast<uint8_t>(1 - truth));
    answers.cluster.push_back(static_cast<int64_t>(i) % clusters);
  }
  return answers;
}

// The slow way: lists every resample's texts and counts.
TEST(Binary, ResamplesCountWholeClustersAnew) {
  const BinaryAnswers answers = random_answers(60, 12, 0.7);
  ThreadPool pool(3);
  const BootstrapOptions options{.resamples = 20, .seed = 5};
  const Estimates estimates = estimate_binary(answers, options, pool);
  EXPECT_NEAR(estimates.value[0], binary_figures(count_confusion(answers)).f1, 1e-12);
  for (int64_t r = 0; r < options.resamples; ++r) {
    std::vector<int32_t> times(12);
    draw_clusters(options.seed, r, times);
    BinaryAnswers drawn;
    for (size_t i = 0; i < answers.truth.size(); ++i) {
      for (int32_t t = 0; t < times[static_cast<size_t>(answers.cluster[i])]; ++t) {
        drawn.truth.push_back(answers.truth[i]);
        drawn.answer.push_back(answers.answer[i]);
      }
    }
    const BinaryFigures figures = binary_figures(count_confusion(drawn));
    EXPECT_NEAR(estimates.resampled(r, 0), figures.f1, 1e-12);
    EXPECT_NEAR(estimates.resampled(r, 3), figures.accuracy, 1e-12);
  }
  BinaryAnswers rest;
  for (size_t i = 0; i < answers.truth.size(); ++i) {
    if (answers.cluster[i] == 4) continue;
    rest.truth.push_back(answers.truth[i]);
    rest.answer.push_back(answers.answer[i]);
  }
  EXPECT_NEAR(estimates.left_out(4, 1), binary_figures(count_confusion(rest)).precision, 1e-12);
}

TEST(Binary, IntervalsHoldTheValueAndDifferencesArePaired) {
  ThreadPool pool(2);
  const BootstrapOptions options{.resamples = 500, .seed = 1};
  const Estimates good = estimate_binary(random_answers(400, 400, 0.9), options, pool);
  const Estimates bad = estimate_binary(random_answers(400, 400, 0.6), options, pool);
  const Figure f1 = figures_of(good, 0.95).front();
  EXPECT_EQ(f1.name, "f1");
  EXPECT_LT(f1.low, f1.value);
  EXPECT_GT(f1.high, f1.value);
  const auto differences = paired_differences(good, bad, 0.95);
  ASSERT_TRUE(differences);
  EXPECT_TRUE(differences->front().significant);
  EXPECT_GT(differences->front().figure.low, 0);
}

TEST(Binary, TheThresholdIsTheBestOfAll) {
  SplitMix random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> scores;
    std::vector<uint8_t> truth;
    for (int i = 0; i < 30; ++i) {
      truth.push_back(static_cast<uint8_t>(i % 3 == 0));
      scores.push_back((static_cast<double>(random.below(12)) + 4 * truth.back()) / 16);  // many ties
    }
    const auto chosen = choose_threshold(scores, truth);
    ASSERT_TRUE(chosen);
    double best = 0;
    for (int step = -1; step <= 17; ++step) {
      Confusion confusion{};
      for (size_t i = 0; i < scores.size(); ++i) ++confusion[truth[i]][scores[i] > (step + 0.5) / 16 ? 1 : 0];
      best = std::max(best, binary_figures(confusion).f1);
    }
    EXPECT_NEAR(chosen->f1, best, 1e-12);
    Confusion confusion{};
    for (size_t i = 0; i < scores.size(); ++i) ++confusion[truth[i]][scores[i] > chosen->value ? 1 : 0];
    EXPECT_NEAR(binary_figures(confusion).f1, best, 1e-12);
  }
}

TEST(Binary, AThresholdTakesBothClasses) {
  const std::vector<double> scores = {1, 2};
  EXPECT_EQ(choose_threshold(scores, std::vector<uint8_t>{1, 1}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(choose_threshold({}, {}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(choose_threshold(std::vector<double>{1, std::nan("")}, std::vector<uint8_t>{1, 0}).error().code,
            ErrorCode::kBadData);
  const auto between = choose_threshold(scores, std::vector<uint8_t>{0, 1});
  ASSERT_TRUE(between);
  EXPECT_EQ(between->value, 1.5);
  EXPECT_EQ(between->f1, 1);
}

TEST(PictureRanks, CountWhatScoresNoLower) {
  Matrix<float> pictures(4, 2);
  const std::array<std::array<float, 2>, 4> kRows = {{{1, 0}, {0, 1}, {1, 0}, {0.6F, 0.8F}}};
  for (int64_t i = 0; i < 4; ++i)
    std::copy_n(kRows[static_cast<size_t>(i)].begin(), 2, pictures.row(i).begin());
  Matrix<float> texts(4, 2);
  std::copy_n(kRows[0].begin(), 2, texts.row(0).begin());
  std::copy_n(kRows[1].begin(), 2, texts.row(1).begin());
  std::copy_n(kRows[1].begin(), 2, texts.row(2).begin());
  // Image 2 belongs to no text, so it is not in the gallery. The third text has no image.
  const std::vector<int64_t> own = {3, 0, -1, 1};
  texts(3, 0) = 1;
  EXPECT_EQ(picture_ranks(texts.view(), pictures.view(), own), (std::vector<double>{2, 3, 3}));
}

}  // namespace
}  // namespace saccade::lab
