// Tests of composition metrics: Winoground's scores by hand and over all orders, and by kind.
#include "lab/eval/winoground/winoground.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/safetensors.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Makes an item with its own two images, or with one.
CompositionItem item(const std::string& id, const std::string& kind,
                     const std::vector<std::string>& pictures) {
  CompositionItem result;
  result.id = id;
  result.kind = kind;
  result.captions = {"a b", "b a"};
  for (const std::string& picture : pictures) {
    result.images.push_back({.path = picture, .member = "", .offset = 0, .size = 0});
  }
  return result;
}
CompositionTask pairs(int count) {
  Dataset dataset;
  auto& items = dataset.content.emplace<CompositionTests>().items;
  for (int i = 0; i < count; ++i) {
    items.push_back(item(std::to_string(i), i % 2 == 0 ? "object" : "relation",
                         {fmt::format("{}a.png", i), fmt::format("{}b.png", i)}));
  }
  return composition_task(dataset).value();
}

TEST(Composition, ScoresByHand) {
  // [caption][picture]
  const auto all = judge({{{0.9F, 0.1F}, {0.2F, 0.8F}}}, true);
  EXPECT_TRUE(all.text && all.image && all.group && !all.tied);
  // The second caption fits both images better: each image's caption is wrong once.
  const auto image = judge({{{0.5F, 0.1F}, {0.6F, 0.8F}}}, true);
  EXPECT_FALSE(image.text);
  EXPECT_TRUE(image.image);
  EXPECT_FALSE(image.group);
  // The second image fits both captions better.
  const auto text = judge({{{0.5F, 0.6F}, {0.1F, 0.8F}}}, true);
  EXPECT_TRUE(text.text);
  EXPECT_FALSE(text.image);
  // A tie is wrong.
  const auto tie = judge({{{0.5F, 0.1F}, {0.5F, 0.8F}}}, true);
  EXPECT_FALSE(tie.text);
  EXPECT_TRUE(tie.image);
  EXPECT_TRUE(tie.tied);
  EXPECT_TRUE(judge({{{0.5F, 0.5F}, {0.1F, 0.8F}}}, true).tied);
  // The diagonal is never compared.
  EXPECT_FALSE(judge({{{0.5F, 0.1F}, {0.1F, 0.5F}}}, true).tied);
  // With one image, the second column is ignored.
  EXPECT_TRUE(judge({{{0.5F, 0.0F}, {0.4F, 9.0F}}}, false).text);
  EXPECT_TRUE(judge({{{0.5F, 0.0F}, {0.5F, 9.0F}}}, false).tied);
}

// Over all orders of four scores, the mean equals the chance rows.
TEST(Composition, ChanceIsTheMeanOverAllOrders) {
  std::array<float, 4> order = {1, 2, 3, 4};
  double text = 0;
  double image = 0;
  double group = 0;
  int count = 0;
  do {
    const auto verdict = judge({{{order[0], order[1]}, {order[2], order[3]}}}, true);
    text += verdict.text ? 1 : 0;
    image += verdict.image ? 1 : 0;
    group += verdict.group ? 1 : 0;
    ++count;
  } while (std::ranges::next_permutation(order).found);
  ThreadPool pool(1);
  const CompositionTask task = pairs(2);
  const std::vector<CompositionScores> scores(2);
  const auto outcome = evaluate_compositions(task, scores, {}, pool);
  ASSERT_TRUE(outcome);
  CompositionMetrics metrics;
  add_chance("w", task, *outcome, metrics);
  const std::vector<Figure>& chance = metrics.results[0].scores;
  EXPECT_DOUBLE_EQ(find_named(chance, "text")->value, text / count);
  EXPECT_DOUBLE_EQ(find_named(chance, "image")->value, image / count);
  EXPECT_DOUBLE_EQ(find_named(chance, "group")->value, group / count);
}

TEST(Composition, FiguresAreSharesByKind) {
  ThreadPool pool(2);
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    const CompositionTask task = pairs(1 + static_cast<int>(random() % 12));
    std::vector<CompositionScores> scores(task.items.size());
    for (auto& one : scores) {
      for (auto& caption : one) {
        for (float& score : caption) score = static_cast<float>(random() % 4);
      }
    }
    const auto outcome = evaluate_compositions(task, scores, {.resamples = 20}, pool);
    ASSERT_TRUE(outcome);
    ASSERT_THAT(outcome->groups, SizeIs(task.items.size() == 1 ? 1 : 3));
    for (const CompositionGroup& group : outcome->groups) {
      int64_t members = 0;
      int64_t tied = 0;
      std::array<int64_t, 3> right{};
      for (size_t i = 0; i < scores.size(); ++i) {
        if (group.kind && task.items[i].kind != *group.kind) continue;
        const auto& s = scores[i];
        ++members;
        const bool text = s[0][0] > s[1][0] && s[1][1] > s[0][1];
        const bool image = s[0][0] > s[0][1] && s[1][1] > s[1][0];
        right[0] += text ? 1 : 0;
        right[1] += image ? 1 : 0;
        right[2] += text && image ? 1 : 0;
        tied += s[0][0] == s[1][0] || s[1][1] == s[0][1] || s[0][0] == s[0][1] || s[1][1] == s[1][0] ? 1 : 0;
      }
      ASSERT_EQ(group.items, members);
      ASSERT_EQ(group.tied, tied);
      for (size_t f = 0; f < 3; ++f) {
        ASSERT_DOUBLE_EQ(group.figures[f].value,
                         static_cast<double>(right[f]) / static_cast<double>(members));
        ASSERT_EQ(std::isnan(group.figures[f].low), members == 1);  // one cluster has no interval
        ASSERT_FALSE(group.figures[f].low > group.figures[f].value + 1e-12);
      }
    }
    CompositionMetrics metrics;
    add_results("w", "a", *outcome, metrics);
    ASSERT_TRUE(add_comparisons("w", "a", *outcome, "b", *outcome, 0.95, metrics));
    const Json json = record_json(metrics);
    EXPECT_EQ(json["results"][0]["kind"], nullptr);
    EXPECT_EQ(json["comparisons"][0]["scores"]["group"]["difference"], 0);
    EXPECT_EQ(json["comparisons"][0]["scores"]["group"]["significant"], false);
    const auto back = read_record<CompositionMetrics>(json);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(dump_json(record_json(*back)), dump_json(json));
  }
}

// Items of one image are resampled together with those that share it.
TEST(Composition, ItemsOfOnePictureAreOneCluster) {
  Dataset dataset;
  auto& items = dataset.content.emplace<CompositionTests>().items;
  for (int i = 0; i < 6; ++i) {
    items.push_back(item(std::to_string(i), "swap", {i < 5 ? "a.jpg" : "b.jpg"}));
  }
  const auto task = composition_task(dataset);
  ASSERT_TRUE(task);
  EXPECT_THAT(task->pictures, SizeIs(2));
  EXPECT_FALSE(task->two_pictures);
  std::vector<CompositionScores> scores(6);
  for (size_t i = 0; i < 5; ++i) scores[i][0][0] = 1;
  ThreadPool pool(1);
  const auto outcome = evaluate_compositions(*task, scores, {.resamples = 400}, pool);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->groups, SizeIs(1));  // of one kind alone
  const Figure& figure = outcome->groups[0].figures[0];
  EXPECT_DOUBLE_EQ(figure.value, 5.0 / 6);
  // Two clusters: a resample is all of one, all of the other, or both.
  EXPECT_EQ(figure.low, 0);
  EXPECT_EQ(figure.high, 1);
  CompositionMetrics metrics;
  add_chance("s", *task, *outcome, metrics);
  EXPECT_EQ(find_named(metrics.results[0].scores, "text")->value, 0.5);
  EXPECT_EQ(find_named(metrics.results[0].scores, "group"), nullptr);
}

// Images connect items in a chain, by the second image, or not at all.
TEST(Composition, ItemsThatPicturesConnectAreOneCluster) {
  Dataset dataset;
  dataset.content.emplace<CompositionTests>().items = {
      item("0", "k", {"a", "b"}), item("1", "k", {"c", "d"}), item("2", "k", {"e", "b"}),
      item("3", "k", {"f", "g"}), item("4", "k", {"d", "e"}), item("5", "k", {"h", "g"})};
  const CompositionTask task = composition_task(dataset).value();
  ThreadPool pool(1);
  // Items 0, 1, 2 and 4 are right, connected through 4; items 3 and 5 are wrong. So a resample draws two of
  // two clusters: all right, all wrong, or the sample itself.
  std::vector<CompositionScores> scores(6, {{{1, 0}, {0, 1}}});
  scores[3] = scores[5] = {{{0, 1}, {1, 0}}};
  const auto outcome = evaluate_compositions(task, scores, {.resamples = 200}, pool);
  ASSERT_TRUE(outcome);
  const Estimates& estimates = outcome->groups[0].estimates;
  EXPECT_EQ(estimates.left_out.rows(), 2);
  std::set<double> values;
  for (int64_t r = 0; r < estimates.resampled.rows(); ++r) values.insert(estimates.resampled(r, 0));
  EXPECT_THAT(values, ElementsAre(0, 4.0 / 6, 1));
}

TEST(Composition, WithoutPicturesTheOthersAreKnownByTheirNumbers) {
  Dataset dataset;
  dataset.content.emplace<CompositionTests>().items = {
      item("0", "k", {"gone", "x"}), item("1", "k", {"y", "x"}), item("2", "k", {"z", "lost"}),
      item("3", "k", {"x", "z"})};
  const CompositionTask whole = composition_task(dataset).value();
  EXPECT_THAT(whole.source, ElementsAre(0, 1, 2, 3, 4));
  const std::vector<int64_t> unreadable = {0, 4};
  const auto rest = without_pictures(whole, unreadable);
  ASSERT_TRUE(rest);
  ASSERT_THAT(rest->items, SizeIs(2));
  ASSERT_THAT(rest->pictures, SizeIs(3));
  for (size_t p = 0; p < rest->pictures.size(); ++p) {
    EXPECT_EQ(rest->pictures[p], whole.pictures[static_cast<size_t>(rest->source[p])]) << p;
  }
  EXPECT_THAT(rest->source, ElementsAre(2, 1, 3));  // y before x now
  // Applied twice, the numbers are still those of the whole task.
  const std::vector<int64_t> more = {0};
  EXPECT_THAT(without_pictures(*rest, more)->source, ElementsAre(1, 3));
}

TEST(Composition, WhatDoesNotFitIsAnError) {
  Dataset dataset;
  dataset.as<CaptionedImages>().items.resize(1);
  EXPECT_EQ(composition_task(dataset).error().code, ErrorCode::kUsage);
  dataset.content.emplace<CompositionTests>().items = {item("one", "k", {"a", "b"}), item("two", "k", {"c"})};
  EXPECT_THAT(composition_task(dataset).error().message, HasSubstr("item one has 2 images, item two has 1"));

  const CompositionTask task = pairs(3);
  const std::vector<int64_t> gone = {2};  // 1a.png
  const auto rest = without_pictures(task, gone);
  ASSERT_TRUE(rest);
  EXPECT_THAT(rest->items, SizeIs(2));
  EXPECT_THAT(rest->pictures, SizeIs(4));
  ASSERT_THAT(rest->excluded, SizeIs(1));
  EXPECT_EQ(rest->excluded[0].count, 1);
  EXPECT_THAT(rest->excluded[0].examples, ElementsAre("1"));
  const std::vector<int64_t> all = {0, 3, 4};
  EXPECT_THAT(without_pictures(task, all).error().message, HasSubstr("no item is left"));

  std::vector<CompositionScores> scores(3);
  scores[1][1][0] = std::numeric_limits<float>::quiet_NaN();
  ThreadPool pool(1);
  const auto outcome = evaluate_compositions(task, scores, {}, pool);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("item 1: the score of caption 1 with image 0"));
}

TEST(Composition, ScoresFromAFile) {
  const test::TestFolder folder;
  const CompositionTask task = pairs(2);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const fs::path path = folder.path() / "s.safetensors";
  const auto write = [&](const std::vector<int64_t>& shape) {
    ASSERT_TRUE(write_safetensors(
        path, std::vector<NamedTensor>{{"scores", {DType::kF32, shape, std::as_bytes(std::span(values))}}}));
  };
  write({2, 2, 2});
  const auto scores = read_composition_scores(path, task);
  ASSERT_TRUE(scores) << scores.error().message;
  EXPECT_EQ((*scores)[1][0][1], 6);
  EXPECT_EQ((*scores)[0][1][0], 3);
  write({4, 2, 1});
  const auto wrong = read_composition_scores(path, task);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("[4, 2, 1], expected [2, 2, 2]"));
}

}  // namespace
}  // namespace saccade::lab
