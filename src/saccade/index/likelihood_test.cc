// Tests of the calibration on scores with known truth: the probabilities must be calibrated, and the model
// must report when it cannot estimate them.
#include "saccade/index/likelihood.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/core/rows.h"

namespace saccade {
namespace {

constexpr int64_t kDim = 32;

// Random rows on the sphere, and queries near their one right row, at varying distances. `common` is added to
// all rows; `hubs` rows get it several times over.
struct World {
  std::mt19937_64 random;
  Matrix<float> rows;

  World(uint64_t seed, int64_t count, double common = 0.3, int64_t hubs = 0)
      : random(seed), rows(count, kDim) {
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < count; ++r) {
      for (float& value : rows.row(r)) value = normal(random);
      rows.row(r)[0] += static_cast<float>((r < hubs ? 6 : 1) * common * std::sqrt(kDim));
      normalize_row(rows.row(r));
    }
  }

  // Draws queries. `nearness` is the maximum closeness to the right row, drawn per query; 0 means unrelated.
  // `lean` moves all queries towards the hubs' common direction.
  LabelledQueries ask(int64_t count, double nearness, double lean = 0) {
    std::normal_distribution<float> normal;
    LabelledQueries queries;
    queries.rows = Matrix<float>(count, kDim);
    for (int64_t q = 0; q < count; ++q) {
      const auto right = static_cast<int64_t>(random() % static_cast<uint64_t>(rows.rows()));
      const double share = nearness * static_cast<double>(random() % 1000) / 1000;
      const std::span<float> row = queries.rows.row(q);
      for (float& value : row) value = normal(random);
      row[0] += static_cast<float>(lean * std::sqrt(kDim));
      normalize_row(row);
      for (int64_t i = 0; i < kDim; ++i) {
        row[static_cast<size_t>(i)] += static_cast<float>(share) * rows.row(right)[static_cast<size_t>(i)];
      }
      normalize_row(row);
      queries.right.push_back({right});
      queries.itself.push_back(-1);
      queries.words.push_back(1);
    }
    return queries;
  }
};

struct Judged {
  double promise = 0;
  bool right = false;
  int64_t row = 0;
};

class MatchTest : public ::testing::Test {
 protected:
  // Judges the first ten hits of each query, against all rows and against those without its right one.
  std::vector<Judged> judge(const World& world, const MatchModel& model, const Surroundings& surroundings,
                            const LabelledQueries& queries, std::vector<double>* absent_p = nullptr) {
    std::vector<Judged> judged;
    const auto found = exact_search(world.rows.view(), queries.rows.view(), kCompetitors + 1, pool_);
    EXPECT_TRUE(found);
    for (int64_t q = 0; q < queries.rows.rows(); ++q) {
      const auto at = static_cast<size_t>(q);
      for (const bool present : {true, false}) {
        std::vector<RowScore> best;
        for (const RowScore& hit : (*found)[at]) {
          if ((present || hit.row != queries.right[at][0]) && std::ssize(best) < kCompetitors)
            best.push_back(hit);
        }
        const Judgement judgement = judge_hits(model, surroundings, world.rows.view(), queries.rows.row(q),
                                               best, world.rows.rows(), 1);
        if (!present && absent_p != nullptr) absent_p->push_back(judgement.p_value);
        for (size_t h = 0; h < kJudgedHits; ++h) {
          judged.push_back(
              {judgement.hits[h].right, present && best[h].row == queries.right[at][0], best[h].row});
        }
      }
    }
    return judged;
  }

  ThreadPool pool_{2};
};

TEST_F(MatchTest, WhatIsPromisedComesTrueOnQueriesNotLearnedFrom) {
  int64_t confident = 0;
  for (const uint64_t seed : {1U, 2U, 3U}) {
    World world(seed, 1500, 0.3, 15);
    const LabelledQueries learned = world.ask(400, 4);
    const LabelledQueries fresh = world.ask(1500, 4);
    const Surroundings surroundings = surroundings_of(world.rows.view(), {}, learned.rows.view(), 20);
    const auto model = fit_matches(world.rows.view(), {}, surroundings, learned, pool_);
    ASSERT_TRUE(model);
    ASSERT_TRUE(model->tells) << model->reason;
    std::vector<double> absent;
    const std::vector<Judged> judged = judge(world, *model, surroundings, fresh, &absent);
    // Calibration per bin, within three standard errors and the uncertainty of 300 training queries.
    for (int bin = 0; bin < 5; ++bin) {
      double promised = 0;
      double came = 0;
      double count = 0;
      for (const Judged& hit : judged) {
        if (std::min(4, static_cast<int>(hit.promise * 5)) != bin) continue;
        promised += hit.promise;
        came += hit.right ? 1 : 0;
        ++count;
      }
      if (count < 30) continue;
      promised /= count;
      came /= count;
      EXPECT_NEAR(promised, came, 0.05 + 3 * std::sqrt(promised * (1 - promised) / count)) << "bin " << bin;
      if (bin == 4) confident += static_cast<int64_t>(count);
    }
    // A tenth of the queries without a relevant row stand out as much as the top tenth of the null
    // distribution.
    const auto rare = std::ranges::count_if(absent, [](double p) { return p <= 0.1; });
    EXPECT_NEAR(static_cast<double>(rare) / static_cast<double>(absent.size()), 0.1, 0.05);
  }
  EXPECT_GT(confident, 300);  // and it does promise something
}

// Features computed by their definitions.
TEST_F(MatchTest, FiguresAreThoseOfPlainSums) {
  World world(9, 400, 0.3, 5);
  const LabelledQueries queries = world.ask(20, 3);
  const Surroundings surroundings = surroundings_of(world.rows.view(), {}, queries.rows.view(), 20);
  const auto dot = [](std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
    return sum;
  };
  const auto moments = [](const std::vector<double>& values) {
    double mean = 0;
    double squares = 0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    for (const double value : values) squares += (value - mean) * (value - mean);
    return std::pair(mean, std::sqrt(squares / static_cast<double>(values.size())));
  };
  std::vector<double> sampled_hubs;
  for (int64_t s = 0; s < surroundings.sample.rows(); ++s) {
    sampled_hubs.push_back(dot(surroundings.sample.row(s), surroundings.mean_query));
  }
  const auto [hub_mean, hub_deviation] = moments(sampled_hubs);
  const auto found = exact_search(world.rows.view(), queries.rows.view(), kCompetitors, pool_);
  ASSERT_TRUE(found);
  for (int64_t q = 0; q < queries.rows.rows(); ++q) {
    const std::vector<RowScore>& best = (*found)[static_cast<size_t>(q)];
    const auto figures = hit_figures(surroundings, world.rows.view(), queries.rows.row(q), best, 3);
    ASSERT_EQ(figures.size(), best.size());
    std::vector<double> scores;
    for (int64_t s = 0; s < surroundings.sample.rows(); ++s) {
      scores.push_back(dot(surroundings.sample.row(s), queries.rows.row(q)));
    }
    const auto [mean, deviation] = moments(scores);
    for (size_t h = 0; h < best.size(); ++h) {
      double others = 0;
      for (const RowScore& other : best) {
        if (other.row != best[h].row) others += std::exp(20 * (double{other.score} - double{best[h].score}));
      }
      const double score = dot(world.rows.row(best[h].row), queries.rows.row(q));
      EXPECT_NEAR(figures[h].score, score, 1e-5);
      EXPECT_NEAR(figures[h].standard, (score - mean) / deviation, 1e-4);
      EXPECT_NEAR(figures[h].odds, std::clamp(-std::log(others), -20.0, 20.0), 1e-4);
      EXPECT_NEAR(figures[h].hub,
                  (dot(world.rows.row(best[h].row), surroundings.mean_query) - hub_mean) / hub_deviation,
                  1e-4);
      EXPECT_NEAR(figures[h].level, (double{best[kJudgedHits - 1].score} - mean) / deviation, 1e-4);
      EXPECT_NEAR(figures[h].words, std::log(4.0), 1e-9);
    }
  }
}

// Hubs are found by queries that do not mean them. The probabilities of these rows alone are calibrated;
// without the hub feature, they are too high.
TEST_F(MatchTest, HubsArePromisedNoMoreThanComesTrue) {
  double promised = 0;
  double blindly = 0;
  double came = 0;
  double count = 0;
  for (const uint64_t seed : {1U, 2U, 3U, 4U}) {
    constexpr int64_t kHubs = 60;
    World world(seed, 1500, 0.1, kHubs);
    const LabelledQueries learned = world.ask(400, 4, 0.5);
    const LabelledQueries fresh = world.ask(1500, 4, 0.5);
    const Surroundings surroundings = surroundings_of(world.rows.view(), {}, learned.rows.view(), 20);
    Surroundings blind;  // to which all rows are equally near to everything
    blind.mean_query.assign(static_cast<size_t>(kDim), 0.0F);
    blind.sample = surroundings.sample.copy();
    blind.temperature = surroundings.temperature;
    const auto add = [&](const Surroundings& known, double& sum) {
      const auto model = fit_matches(world.rows.view(), {}, known, learned, pool_);
      ASSERT_TRUE(model && model->tells);
      for (const Judged& hit : judge(world, *model, known, fresh)) {
        if (hit.row >= kHubs) continue;
        sum += hit.promise;
        if (&known == &blind) continue;
        came += hit.right ? 1 : 0;
        ++count;
      }
    };
    add(surroundings, promised);
    add(blind, blindly);
  }
  ASSERT_GT(count, 1000);
  EXPECT_NEAR(promised, came, 3 * std::sqrt(came));
  EXPECT_GT(blindly, 1.5 * came);
}

TEST_F(MatchTest, SaysThatNothingCanBeToldWhereScoresKnowNothing) {
  int64_t told = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed, 300);
    LabelledQueries queries = world.ask(200, 0);
    // Labels unrelated to scores, but so many that some are right by chance.
    for (auto& right : queries.right) {
      right.clear();
      for (int64_t r = 0; r < 300; ++r) {
        if (world.random() % 20 == 0) right.push_back(r);
      }
    }
    const Surroundings surroundings = surroundings_of(world.rows.view(), {}, queries.rows.view(), 20);
    const auto model = fit_matches(world.rows.view(), {}, surroundings, queries, pool_);
    ASSERT_TRUE(model);
    told += model->tells ? 1 : 0;
    if (!model->tells) {
      EXPECT_FALSE(model->reason.empty());
      EXPECT_FALSE(model->best.empty());  // the null is there all the same
      const auto found = exact_search(world.rows.view(), queries.rows.view(), kCompetitors, pool_);
      const Judgement judgement =
          judge_hits(*model, surroundings, world.rows.view(), queries.rows.row(0), found->front(), 300, 1);
      EXPECT_TRUE(std::isnan(judgement.hits[0].right));
      EXPECT_GT(judgement.p_value, 0);
      EXPECT_LE(judgement.p_value, 1);
    }
  }
  EXPECT_LE(told, 3);  // two standard errors: one time in forty by chance
}

TEST_F(MatchTest, TooFewRowsOrLabelsAreAReasonNotAnError) {
  for (const int64_t count : {int64_t{1}, int64_t{10}, kFewestRows - 1}) {
    World world(5, count);
    const LabelledQueries queries = world.ask(100, 4);
    const Surroundings surroundings = surroundings_of(world.rows.view(), {}, queries.rows.view(), 20);
    const auto model = fit_matches(world.rows.view(), {}, surroundings, queries, pool_);
    ASSERT_TRUE(model);
    EXPECT_FALSE(model->tells);
    EXPECT_NE(model->reason.find("too few"), std::string::npos) << model->reason;
    const auto found = exact_search(world.rows.view(), queries.rows.view(), kCompetitors, pool_);
    const Judgement judgement =
        judge_hits(*model, surroundings, world.rows.view(), queries.rows.row(0), found->front(), count, 1);
    EXPECT_TRUE(std::isnan(judgement.p_value));
    EXPECT_TRUE(std::isnan(judgement.hits[0].expected_false));
  }
  World world(6, 200);
  LabelledQueries queries = world.ask(kFewestLabelled + 20, 4);
  for (size_t q = 0; q < 21; ++q) queries.right[q].clear();
  const Surroundings surroundings = surroundings_of(world.rows.view(), {}, queries.rows.view(), 20);
  const auto model = fit_matches(world.rows.view(), {}, surroundings, queries, pool_);
  ASSERT_TRUE(model);
  EXPECT_FALSE(model->tells);
  EXPECT_EQ(model->labelled, kFewestLabelled - 1);
  EXPECT_EQ(model->queries, queries.rows.rows());  // all of them are the null
}

TEST_F(MatchTest, ExpectedFalseHitsAreThoseOfQueriesWithoutAnAnswer) {
  World world(9, 2000);
  const LabelledQueries learned = world.ask(300, 4);
  const Surroundings surroundings = surroundings_of(world.rows.view(), {}, learned.rows.view(), 20);
  const auto model = fit_matches(world.rows.view(), {}, surroundings, learned, pool_);
  ASSERT_TRUE(model);
  // New queries of the same kind, without their right rows: the number of rows at each score is as expected.
  const LabelledQueries fresh = world.ask(500, 4);
  const auto found = exact_search(world.rows.view(), fresh.rows.view(), kCompetitors + 1, pool_);
  for (const double expected : {0.05, 0.5, 5.0}) {
    double counted = 0;
    for (int64_t q = 0; q < fresh.rows.rows(); ++q) {
      const auto at = static_cast<size_t>(q);
      std::vector<RowScore> wrong = (*found)[at];
      std::erase_if(wrong, [&](const RowScore& hit) { return hit.row == fresh.right[at][0]; });
      const Judgement judgement =
          judge_hits(*model, surroundings, world.rows.view(), fresh.rows.row(q), wrong, 2000, 1);
      counted += static_cast<double>(std::ranges::count_if(
          judgement.hits, [&](const HitLikelihood& hit) { return hit.expected_false <= expected; }));
    }
    EXPECT_NEAR(counted / static_cast<double>(fresh.rows.rows()), expected, 0.25 * expected + 0.03);
  }
  // A filter that keeps half of the rows keeps half of the false ones.
  const Judgement all =
      judge_hits(*model, surroundings, world.rows.view(), fresh.rows.row(0), found->front(), 2000, 1);
  const Judgement half =
      judge_hits(*model, surroundings, world.rows.view(), fresh.rows.row(0), found->front(), 1000, 1);
  EXPECT_DOUBLE_EQ(half.hits[3].expected_false, all.hits[3].expected_false / 2);
}

TEST_F(MatchTest, ARowThatIsNoAnswerIsNeverLearnedFrom) {
  // Each query is a row itself: without `itself` it would be its own best hit, and a wrong one.
  World world(11, 300);
  LabelledQueries queries;
  queries.rows = Matrix<float>(100, kDim);
  for (int64_t q = 0; q < 100; ++q) {
    std::ranges::copy(world.rows.row(q), queries.rows.row(q).begin());
    queries.right.push_back({});
    queries.itself.push_back(q);
    queries.words.push_back(0);
  }
  const Surroundings surroundings = surroundings_of(world.rows.view(), {}, queries.rows.view(), 20);
  const auto model = fit_matches(world.rows.view(), {}, surroundings, queries, pool_);
  ASSERT_TRUE(model);
  const double own = (1 - 0.0) / 0.3;  // minimum standard score of a cosine of 1
  EXPECT_LT(model->best.back(), own + 3);
  const auto found = exact_search(world.rows.view(), queries.rows.view(), 2, pool_);
  const Judgement judgement =
      judge_hits(*model, surroundings, world.rows.view(), queries.rows.row(0), found->front(), 300, 1);
  EXPECT_GT(judgement.hits[0].standard, model->best.back());
}

}  // namespace
}  // namespace saccade
