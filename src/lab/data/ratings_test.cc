// Tests of labels from ratings, and of agreement against a published example.
#include "lab/data/ratings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/readers/manifest.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C: four observers, twelve units,
// some values missing. Its results: nominal 0.743, ordinal 0.815, interval 0.849.
TEST(KrippendorffAlpha, IsThatOfThePublishedExample) {
  const std::vector<std::vector<double>> units = {{1, 1, 1},    {2, 2, 3, 2}, {3, 3, 3, 3}, {3, 3, 3, 3},
                                                  {2, 2, 2, 2}, {1, 2, 3, 4}, {4, 4, 4, 4}, {1, 1, 2, 1},
                                                  {2, 2, 2, 2}, {5, 5, 5},    {1, 1},       {3}};
  EXPECT_NEAR(krippendorff_alpha(units, AlphaMetric::kNominal).value(), 0.743, 5e-4);
  EXPECT_NEAR(krippendorff_alpha(units, AlphaMetric::kOrdinal).value(), 0.815, 5e-4);
  EXPECT_NEAR(krippendorff_alpha(units, AlphaMetric::kInterval).value(), 0.849, 5e-4);
}

TEST(KrippendorffAlpha, AtItsEnds) {
  const std::vector<std::vector<double>> agree = {{1, 1}, {7, 7}};
  const std::vector<std::vector<double>> same = {{4, 4}, {4, 4, 4}};
  const std::vector<std::vector<double>> alone = {{1}, {2}, {}};
  for (const AlphaMetric metric : {AlphaMetric::kNominal, AlphaMetric::kOrdinal, AlphaMetric::kInterval}) {
    EXPECT_DOUBLE_EQ(krippendorff_alpha(agree, metric).value(), 1);
    EXPECT_FALSE(krippendorff_alpha(same, metric));
    EXPECT_FALSE(krippendorff_alpha(alone, metric));
  }
  const std::vector<std::vector<double>> against = {{1, 7}, {7, 1}};
  EXPECT_LT(krippendorff_alpha(against, AlphaMetric::kInterval).value(), 0);
}

constexpr const char* kWide =
    "text,image,anna,ben,carla,dora,check\n"
    "A red boat.,boat.png,7,6,5,1,\n"  // 3 of 4
    "It is so.,,1,2,3,3,\n"            // 4 of 4
    "\"Perhaps, then.\",,1,2,6,7,\n"   // a tie
    "Neutral.,,4,4,4,1,\n"             // nobody's majority
    "Few.,,7,,7,,\n"
    "Choose five.,,5,5,5,5,5\n";

TEST(Ratings, MajorityMakesLabels) {
  const auto ratings = read_ratings(kWide, 3);
  ASSERT_TRUE(ratings) << ratings.error().message;
  ASSERT_EQ(ratings->texts.size(), 4U);
  EXPECT_EQ(ratings->texts[0].visual, true);
  EXPECT_THAT(ratings->texts[0].ratings, ElementsAre(7, 6, 5, 1));
  EXPECT_EQ(ratings->texts[1].visual, false);
  EXPECT_EQ(ratings->texts[2].visual, std::nullopt);
  EXPECT_EQ(ratings->texts[3].visual, std::nullopt);
  EXPECT_EQ(ratings->too_few, 1);
  EXPECT_EQ(ratings->checks, 1);
  EXPECT_EQ(ratings->clear, 2);
  EXPECT_EQ(ratings->ratings, 16);
  const Dataset dataset = ratings_dataset(*ratings, "/data");
  const std::string manifest = format_manifest(dataset, "/data").value();
  EXPECT_EQ(manifest.substr(0, manifest.find('\n')),
            "{\"id\":\"line 1\",\"text\":\"A red boat.\",\"visual\":true,\"ratings\":[7.0,6.0,5.0,1.0],"
            "\"image\":\"boat.png\"}");
  EXPECT_EQ(parse_manifest(manifest, "/data")->as<RatedTexts>().items, dataset.as<RatedTexts>().items);
  EXPECT_THAT(dataset.as<RatedTexts>().items[2].ratings, ElementsAre(1, 2, 6, 7));
  const Json json = ratings_json(*ratings);
  EXPECT_EQ(json["visual"], 1);
  EXPECT_EQ(json["non_visual"], 1);
  EXPECT_EQ(json["ambiguous"], 2);
  EXPECT_TRUE(json["alpha"]["ordinal"].is_number());
}

TEST(Ratings, InattentiveRatersAreLeftOut) {
  std::string table = kWide;
  table.replace(table.find("5,5,5,5,5\n"), 10, "5,5,5,2,5\n");
  const auto ratings = read_ratings(table, 3);
  ASSERT_TRUE(ratings) << ratings.error().message;
  EXPECT_THAT(ratings->inattentive, ElementsAre("dora"));
  EXPECT_EQ(ratings->raters, 3);
  EXPECT_THAT(ratings->texts[0].ratings, ElementsAre(7, 6, 5));
}

TEST(Ratings, LongFormSaysTheSame) {
  const auto ratings = read_ratings(
      "rater,text,rating,id\nanna,A red boat.,7,a\nben,A red boat.,6,a\nanna,It is so.,1,b\nben,It is so.,4,b\n",
      2);
  ASSERT_TRUE(ratings) << ratings.error().message;
  EXPECT_EQ(ratings->texts[0].visual, true);
  EXPECT_EQ(ratings->texts[0].id, "a");
  EXPECT_EQ(ratings->texts[1].visual, std::nullopt);  // one of two is no majority
}

TEST(Ratings, WhatItRefuses) {
  const auto expect_failure = [](const std::string& table, const std::string& part) {
    const auto ratings = read_ratings(table, 2);
    ASSERT_FALSE(ratings) << table;
    EXPECT_THAT(ratings.error().message, HasSubstr(part));
  };
  expect_failure("", "empty");
  expect_failure("sentence,a,b\nx,1,2\n", "no column \"text\"");
  expect_failure("text,a\nx,1\n", "one column of raters");
  expect_failure("text,a,a\nx,1,2\n", "two columns named \"a\"");
  expect_failure("text,rater\nx,anna\n", "only one is there");
  expect_failure("text,rater,rating,extra\nx,anna,1,2\n", "\"extra\"");
  expect_failure("text,a,b\nx,1,2\ny,8,2\n", "line 3: rating \"8\"");
  expect_failure("text,a,b\nx,1,2.5\n", "line 2: rating \"2.5\"");
  expect_failure("text,a,b\nx,1\n", "line 2: 2 fields");
  expect_failure("text,a,b\n,1,2\n", "line 2: no text");
  expect_failure("text,a,b\nx,1,2\nx,3,4\n", "rater \"a\" rates the same text a second time");
  expect_failure("text,id,a,b\nx,1,1,\nx,2,,1\n", "id \"2\" for a text that had \"1\" before");
  expect_failure("text,a,b\nx,1,\n", "no text with 2 ratings");
}

}  // namespace
}  // namespace saccade::lab
