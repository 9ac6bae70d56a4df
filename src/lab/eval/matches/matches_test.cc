#include "lab/eval/matches/matches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/rows.h"
#include "saccade/text/caption_queries.h"

namespace saccade::lab {
namespace {

constexpr int64_t kDim = 24;

TEST(Auroc, CountsPairsAndHalvesTies) {
  ThreadPool pool(2);
  const ClusteredValues high = {{3, 2, 1}, {0, 1, 2}};
  const ClusteredValues low = {{2, 0}, {0, 1}};
  const Figure figure = clustered_auroc(high, low, 3, {.resamples = 200}, pool);
  EXPECT_DOUBLE_EQ(figure.value, (2 + 1.5 + 1) / 6.0);
  EXPECT_LE(figure.low, figure.value);
  EXPECT_GE(figure.high, figure.value);
  EXPECT_TRUE(std::isnan(clustered_auroc({}, low, 3, {}, pool).value));
}

// If both samples have the same distribution, the interval contains one half in nearly all cases.
TEST(Auroc, IntervalsCoverTheTruth) {
  ThreadPool pool(2);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  int covered = 0;
  for (int sample = 0; sample < 60; ++sample) {
    ClusteredValues high;
    ClusteredValues low;
    for (int c = 0; c < 50; ++c) {
      // The values are clustered: the common part of a class's queries is drawn once.
      const double common = normal(random);
      const double other = normal(random);
      for (int i = 0; i < 3; ++i) {
        high.add(common + normal(random), c);
        low.add(other + normal(random), c);
      }
    }
    const Figure figure = clustered_auroc(high, low, 50, {.resamples = 300}, pool);
    covered += figure.low <= 0.5 && 0.5 <= figure.high ? 1 : 0;
  }
  EXPECT_GE(covered, 51);  // of 57 expected
}

class MatchStudyTest : public testing::Test {
 protected:
  std::span<const float> direction(const std::string& word) {
    const auto [place, fresh] = words_.try_emplace(word);
    if (fresh) {
      std::normal_distribution<float> normal;
      for (int64_t i = 0; i < kDim; ++i) place->second.push_back(normal(random_));
    }
    return place->second;
  }
  // Returns items with two images per class, with the same names.
  std::vector<DatasetItem> items(int64_t classes) {
    std::vector<DatasetItem> items;
    for (int64_t c = 0; c < classes; ++c) {
      for (const char* style : {"plain", "filled"}) {
        DatasetItem item;
        item.id = fmt::format("{}-{}", c, style);
        item.group = fmt::format("class {}", c);
        item.captions = {fmt::format("thing{} {}", c, style)};
        items.push_back(std::move(item));
      }
    }
    return items;
  }
  Matrix<float> rows_of(const std::vector<std::string>& texts, float noise) {
    std::normal_distribution<float> normal;
    Matrix<float> rows(std::ssize(texts), kDim);
    for (int64_t t = 0; t < rows.rows(); ++t) {
      for (const std::string& word : caption_words(texts[static_cast<size_t>(t)])) {
        const std::span<const float> of_word = direction(word);
        for (size_t i = 0; i < of_word.size(); ++i) rows.row(t)[i] += of_word[i];
      }
      for (float& value : rows.row(t)) value += noise * normal(random_);
      normalize_row(rows.row(t));
    }
    return rows;
  }

  std::mt19937_64 random_{11};
  std::map<std::string, std::vector<float>> words_;
  ThreadPool pool_{2};
};

TEST_F(MatchStudyTest, NoClassIsOnBothSides) {
  const std::vector<DatasetItem> all = items(50);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < std::ssize(all); ++i) numbers.push_back(i);
  const MatchTask task = match_task(all, numbers, 0);
  EXPECT_EQ(task.classes, 50);
  EXPECT_EQ(std::ranges::count(task.learned, 1), 25);
  for (const int64_t c : learned_texts(task, 100).cluster)
    EXPECT_TRUE(c < 0 || task.learned[static_cast<size_t>(c)] == 1);
  const MatchQueries asked = asked_texts(task);
  ASSERT_EQ(asked.texts.size(), 50U);
  for (size_t q = 0; q < asked.texts.size(); ++q) {
    EXPECT_EQ(task.learned[static_cast<size_t>(asked.cluster[q])], 0);
    EXPECT_EQ(asked.right[q].size(), 2U)
        << asked.texts[q];  // the class, though only one has the caption's words
  }
  const MatchQueries pictures = asked_pictures(task);
  for (size_t q = 0; q < pictures.right.size(); ++q) {
    EXPECT_FALSE(std::ranges::binary_search(pictures.right[q], pictures.itself[q]));
    EXPECT_EQ(pictures.right[q].size(), 1U);
  }
  // Items with neither group nor captions are classes of their own, and are never queries.
  std::vector<DatasetItem> bare(2);
  bare[0].id = "a";
  bare[1].id = "b";
  const MatchTask none = match_task(bare, std::vector<int64_t>{0, 1}, 0);
  EXPECT_EQ(none.classes, 2);
  EXPECT_TRUE(asked_texts(none).texts.empty());
}

TEST_F(MatchStudyTest, PromisesComeTrueAndWhatKnowsNothingSaysSo) {
  const std::vector<DatasetItem> all = items(300);
  std::vector<int64_t> numbers;
  std::vector<std::string> captions;
  for (int64_t i = 0; i < std::ssize(all); ++i) {
    numbers.push_back(i);
    captions.push_back(all[static_cast<size_t>(i)].captions[0]);
  }
  const MatchTask task = match_task(all, numbers, 0);
  const MatchQueries learned = learned_texts(task, 400);
  const MatchQueries asked = asked_texts(task);
  const Matrix<float> rows = rows_of(captions, 1.2F);
  const auto figures = measure_matches(rows.view(), learned, rows_of(learned.texts, 0.3F), asked,
                                       rows_of(asked.texts, 0.3F), 15, {.resamples = 200}, pool_);
  ASSERT_TRUE(figures);
  ASSERT_TRUE(figures->tells) << figures->reason;
  EXPECT_GT(figures->found_auroc.low, 0.5);
  EXPECT_GT(figures->hit_auroc.value, 0.8);
  ASSERT_FALSE(figures->bins.empty());
  for (const MatchFigures::Bin& bin : figures->bins) {
    if (bin.hits < 40) continue;
    EXPECT_NEAR(bin.promised, bin.came.value, 0.2) << bin.from;
  }
  ASSERT_EQ(figures->cuts.size(), 4U);
  for (size_t c = 1; c < figures->cuts.size(); ++c)
    EXPECT_LE(figures->cuts[c].hits, figures->cuts[c - 1].hits);
  EXPECT_LT(figures->cuts[1].false_found.value, figures->cuts[1].found.value);

  // The same queries on images that are unrelated to their captions.
  std::vector<std::string> other(captions);
  for (size_t i = 0; i < other.size(); ++i) other[i] = fmt::format("noise{}", i);
  const Matrix<float> noise = rows_of(other, 1);
  const auto nothing = measure_matches(noise.view(), learned, rows_of(learned.texts, 0.3F), asked,
                                       rows_of(asked.texts, 0.3F), 15, {.resamples = 50}, pool_);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->tells);
  EXPECT_FALSE(nothing->reason.empty());
  EXPECT_TRUE(nothing->cuts.empty());
  EXPECT_NEAR(nothing->found_auroc.value, 0.5, 0.1);
  const Json json = record_json(*nothing);
  for (const MatchFigures* each : {&*figures, &*nothing}) {
    const auto back = read_record<MatchFigures>(record_json(*each));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(dump_json(record_json(*back)), dump_json(record_json(*each)));
  }
  EXPECT_EQ(json["tells"], false);
  EXPECT_TRUE(json["cuts"].empty());
}

}  // namespace
}  // namespace saccade::lab
