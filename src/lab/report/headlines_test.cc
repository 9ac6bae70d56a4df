#include "lab/report/headlines.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"

#include "test_runs.h"

namespace saccade::lab {
namespace {

class Headlines : public testing::Test {
 protected:
  struct Model {
    std::string name;
    double value;
    double half;  // of the interval
  };
  static std::vector<Figure> group(double value, double half) {
    return {{.name = "group", .value = value, .low = value - half, .high = value + half}};
  }
  // A run of winoground with these group scores, and these p-values against the first model.
  void write(const std::string& name, const std::vector<Model>& models,
             const std::vector<double>& p_values = {}, bool with_part = false) const {
    CompositionMetrics metrics;
    std::vector<std::string> names;
    for (const Model& model : models) {
      names.push_back(model.name);
      metrics.results.push_back({"drawings", model.name, std::nullopt, 9, 0, group(model.value, model.half)});
      if (with_part) metrics.results.push_back({"drawings", model.name, "Object", 5, 0, group(0.9, 0.01)});
    }
    metrics.results.push_back({"drawings", "chance", std::nullopt, 9, 0, group(0.99, Figure::kNone)});
    for (size_t i = 0; i < p_values.size(); ++i) {
      const Difference difference = {.figure = {.name = "group", .value = 0.1}, .p_value = p_values[i]};
      metrics.comparisons.push_back({"drawings", names[0], names[i + 1], std::nullopt, {difference}});
    }
    test::write_plain_run(folder_ / name, "winoground", names, record_json(metrics));
  }
  std::vector<HeadlineColumn> columns(const std::vector<std::string>& names) {
    folders_.clear();
    for (const std::string& name : names) folders_.push_back(read_report_folder(folder_ / name).value());
    data_ = load_report_data(folders_).value();
    return headlines(data_);
  }
  static const Headline& of(const HeadlineColumn& column, const std::string& model) {
    for (const Headline& one : column.models) {
      if (one.series.name == model) return one;
    }
    ADD_FAILURE() << "no " << model;
    return column.models.front();
  }

  test::TestFolder folder_;
  std::vector<ReportFolder> folders_;
  ReportData data_;
};

TEST_F(Headlines, TheBestIsNamedAndRanked) {
  write("run", {{"a", 0.5, 0.02}, {"b", 0.3, 0.02}, {"c", 0.3, 0.02}, {"d", 0.1, 0.02}}, {}, true);
  const auto found = columns({"run"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].dataset, "drawings");
  ASSERT_EQ(found[0].models.size(), 4U) << "parts of the dataset, and guessing, are left out";
  EXPECT_TRUE(of(found[0], "a").best);
  EXPECT_EQ(of(found[0], "a").rank, 1);
  EXPECT_EQ(of(found[0], "b").rank, 2.5);
  EXPECT_EQ(of(found[0], "c").rank, 2.5);
  EXPECT_EQ(of(found[0], "d").rank, 4);
  EXPECT_FALSE(of(found[0], "b").best);
}

TEST_F(Headlines, IntervalsDecideTiesWhereNothingIsPaired) {
  write("run", {{"a", 0.5, 0.1}, {"b", 0.42, 0.05}, {"c", 0.3, 0.05}});
  const auto found = columns({"run"});
  EXPECT_FALSE(of(found[0], "a").tied);
  EXPECT_TRUE(of(found[0], "b").tied);
  EXPECT_FALSE(of(found[0], "c").tied);
}

// Paired tests see what overlapping intervals hide, but not before they are corrected for their number.
TEST_F(Headlines, PairedTestsDecideTiesAfterCorrection) {
  write("run", {{"a", 0.5, 0.1}, {"b", 0.48, 0.1}, {"c", 0.2, 0.01}}, {0.001, 0.4});
  auto found = columns({"run"});
  EXPECT_FALSE(of(found[0], "b").tied) << "told apart, though the intervals overlap";
  EXPECT_TRUE(of(found[0], "c").tied) << "not told apart, though they do not";
  write("two", {{"a", 0.5, 0.1}, {"b", 0.48, 0.1}, {"c", 0.45, 0.1}}, {0.03, 0.04});
  found = columns({"two"});
  EXPECT_TRUE(of(found[0], "b").tied) << "0.03 alone would be told apart, of two it is not";
  EXPECT_TRUE(of(found[0], "c").tied);
}

TEST_F(Headlines, ItemsOfOneImageHaveTheirTextScore) {
  CompositionMetrics metrics;
  for (const auto& [model, value] : {std::pair("a", 0.7), std::pair("b", 0.0)}) {
    Figure text = {.name = "text", .value = value, .low = value, .high = value};
    if (value == 0) text.wilson_high = 0.3;
    metrics.results.push_back({"drawings", model, std::nullopt, 9, 0, {text}});
  }
  metrics.comparisons.push_back(
      {"drawings", "a", "b", std::nullopt, {{.figure = {.name = "text", .value = 0.7}, .p_value = 0.6}}});
  test::write_plain_run(folder_ / "run", "winoground", {"a", "b"}, record_json(metrics));
  const auto found = columns({"run"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].figure, "text score");
  EXPECT_TRUE(of(found[0], "a").best);
  EXPECT_TRUE(of(found[0], "b").tied) << "by the paired test";
  EXPECT_EQ(of(found[0], "b").figure.wilson_high, 0.3);
}

TEST_F(Headlines, OfNothingFoundReachUpToWilsonsEnd) {
  const auto write_one = [&](const std::string& model, const Figure& text) {
    CompositionMetrics metrics;
    metrics.results.push_back({"drawings", model, std::nullopt, 9, 0, {text}});
    test::write_plain_run(folder_ / model, "winoground", {model}, record_json(metrics));
  };
  write_one("a", {.name = "text", .value = 0.2, .low = 0.1, .high = 0.3});
  write_one("b", {.name = "text", .value = 0, .low = 0, .high = 0, .wilson_high = 0.3});
  const auto found = columns({"a", "b"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(of(found[0], "b").tied) << "the intervals overlap";
}

TEST_F(Headlines, RunsOfOneProtocolShareAColumn) {
  write("one", {{"a", 0.5, 0.01}});
  write("two", {{"b", 0.4, 0.01}});
  const auto found = columns({"one", "two"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].models.size(), 2U);
  EXPECT_EQ(of(found[0], "b").rank, 2);
  EXPECT_FALSE(of(found[0], "b").tied);
  RunInfo info = test::small_info("winoground", {"a"});
  const std::string key = comparability(info, "drawings");
  info.protocol["description"] = "other words";
  EXPECT_EQ(comparability(info, "drawings"), key);
  info.protocol["ties"] = "mean";
  EXPECT_NE(comparability(info, "drawings"), key);
}

}  // namespace
}  // namespace saccade::lab
