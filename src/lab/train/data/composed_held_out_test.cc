// Tests of the figure that selects the best step of a composer's training.
#include "lab/train/data/composed_held_out.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/dataset.h"
#include "lab/eval/composed/composed_figures.h"
#include "saccade/core/random.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

// Queries of Fashion-IQ's layout, a category per number of queries, with a gallery of 60 images each.
Dataset fashion_iq(const std::vector<int>& queries) {
  Dataset dataset{.name = "made", .layout = "fashion_iq", .content = EditQueries()};
  auto& edits = dataset.as<EditQueries>();
  for (size_t category = 0; category < queries.size(); ++category) {
    for (int i = 0; i < 60; ++i) {
      GalleryPicture& picture = edits.gallery.emplace_back();
      picture.id = fmt::format("p{}", i);
      picture.gallery = fmt::format("c{}", category);
      picture.image.path = picture.gallery + picture.id;
    }
    for (int q = 0; q < queries[category]; ++q) {
      EditQuery& query = edits.items.emplace_back();
      query.id = fmt::format("c{}.{}", category, q);
      query.gallery = query.kind = fmt::format("c{}", category);
      query.reference = fmt::format("p{}", q);
      query.texts = {fmt::format("text {}", q)};
      query.targets = {fmt::format("p{}", q + 1)};
    }
  }
  return dataset;
}

Matrix<float> random_rows(int64_t rows, uint64_t seed) {
  Matrix<float> matrix(rows, 6);
  SplitMix random(seed, 0);
  for (float& value : matrix.values()) value = static_cast<float>(random.below(2001)) / 1000 - 1;
  return matrix;
}

class HeldOut : public testing::Test {
 protected:
  // Measures random embeddings. They are the same for every number of categories.
  Json line(const Dataset& dataset) {
    task_ = composed_task(dataset, {}, {}).value();
    const Matrix<float> asked = random_rows(std::ssize(task_.asked), 1);
    const Matrix<float> pictures = random_rows(std::ssize(task_.pictures), 2);
    answers_ = rank_composed(task_, asked.view(), pictures.view(), TiePolicy::kPessimistic, 0, pool_).value();
    return composed_held_out_json("made", task_, asked.view(), pictures.view(), {.resamples = 0}, pool_)
        .value();
  }
  // Returns the mean of r10 and r50 of a category, counted one query at a time.
  [[nodiscard]] double mean_r10_r50(const std::string& category) const {
    double found = 0;
    double queries = 0;
    for (size_t a = 0; a < task_.asked.size(); ++a) {
      if (task_.edits[static_cast<size_t>(task_.asked[a].query)].kind != category) continue;
      found += (answers_[a].recall_rank <= 10 ? 0.5 : 0) + (answers_[a].recall_rank <= 50 ? 0.5 : 0);
      queries += 1;
    }
    return found / queries;
  }
  static double headline(const Json& held_out) { return composed_headline(held_out).value().value(); }

  ThreadPool pool_{1};
  ComposedTask task_;
  std::vector<ComposedAnswer> answers_;
};

TEST_F(HeldOut, FashionIqsStepIsSelectedByItsOwnHeadline) {
  const Json three = line(fashion_iq({40, 10, 25}));
  const double expected = (mean_r10_r50("c0") + mean_r10_r50("c1") + mean_r10_r50("c2")) / 3;
  EXPECT_NEAR(headline(Json::array({three})), expected, 1e-12);
  EXPECT_EQ(three["selection"]["metric"], "mean_r10_r50");
  EXPECT_EQ(three["selection"]["categories"], 3);
  // Every category counts once, whatever its queries; and it is not the mean of R@1, R@5 and R@10.
  EXPECT_GT(std::abs(expected - three["figures"]["mean_r10_r50"]["value"].get<double>()), 1e-3);
  Json recalls = three;
  recalls.erase("selection");
  EXPECT_GT(std::abs(expected - headline(Json::array({recalls}))), 0.05);

  // A file per category, and two datasets of one and of three categories.
  const Json one = line(fashion_iq({30}));
  const double alone = mean_r10_r50("c0");
  EXPECT_NEAR(headline(Json::array({one})), alone, 1e-12);
  EXPECT_EQ(one["selection"]["categories"], 1);
  EXPECT_NEAR(headline(Json::array({one, three})), (alone + 3 * expected) / 4, 1e-12);
}

TEST_F(HeldOut, OtherLayoutsAreSelectedByTheMeanOfRecalls) {
  const Json fashion = line(fashion_iq({40, 10}));
  const double value = (mean_r10_r50("c0") + mean_r10_r50("c1")) / 2;
  Dataset dataset = fashion_iq({30});
  dataset.layout = "manifest";
  const Json other = line(dataset);
  EXPECT_FALSE(other.contains("selection"));
  const Json& figures = other["figures"];
  const double mean = (figures["r1"]["value"].get<double>() + figures["r5"]["value"].get<double>() +
                       figures["r10"]["value"].get<double>()) /
                      3;
  EXPECT_NEAR(headline(Json::array({other})), mean, 1e-12);
  // Beside another layout, queries count.
  EXPECT_NEAR(headline(Json::array({fashion, other})), (50 * value + 30 * mean) / 80, 1e-12);
  EXPECT_EQ(composed_headline(Json::array()).value(), std::nullopt);

  // Galleries below 50 images have no R@50.
  Dataset small = fashion_iq({20});
  small.as<EditQueries>().gallery.resize(45);
  EXPECT_FALSE(line(small).contains("selection"));
}

TEST_F(HeldOut, RefusesOtherJson) {
  for (const char* selection : {"3", "{}", R"({"value": 0.5})", R"({"value": "x", "categories": 1})"}) {
    Json set = {{"queries", 3}, {"selection", parse_json(selection).value()}};
    const auto headline = composed_headline(Json::array({set}));
    ASSERT_FALSE(headline) << selection;
    EXPECT_EQ(headline.error().code, ErrorCode::kBadData);
  }
  const auto without = composed_headline(Json::array({{{"queries", 3}}}));
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("figures"));
}

}  // namespace
}  // namespace saccade::lab
