// Tests of zero-shot classification: ranks and figures by hand, prompts, and files of classes and templates.
#include <array>
#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/classification/classification_study.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ClassNames, HaveALabelAndAName) {
  const auto classes = parse_class_names(
      "\xef\xbb\xbf"
      "cat\ndog\ttoy dog\r\n\nn0123\t\n");
  ASSERT_TRUE(classes) << classes.error().message;
  ASSERT_EQ(classes->size(), 3U);
  EXPECT_EQ((*classes)[1].label, "dog");
  EXPECT_EQ((*classes)[1].name, "toy dog");
  EXPECT_EQ((*classes)[2].name, "n0123");
  EXPECT_THAT(parse_class_names("a\nb\na\n").error().message,
              HasSubstr("line 3: label \"a\" is there twice"));
  EXPECT_THAT(parse_class_names("\tb\n").error().message, HasSubstr("line 1: no label"));
  EXPECT_FALSE(parse_class_names("\n"));
  EXPECT_THAT(*parse_templates("a {}.\nthe {}, {}\n"), ElementsAre("a {}.", "the {}, {}"));
  EXPECT_THAT(parse_templates("a {}.\na photo\n").error().message, HasSubstr("line 2: no {}"));
}

TEST(ClassRanks, CountTiesAgainstTheModel) {
  Matrix<float> scores(3, 4);
  const std::vector<float> values = {0.1F, 0.9F, 0.5F, 0.5F, 0.7F, 0.1F, 0.7F, 0.2F, 1, 1, 1, 1};
  std::ranges::copy(values, scores.data());
  const ClassRanks ranks = rank_classes(scores.view(), std::vector<int64_t>{2, 0, 3});
  EXPECT_THAT(ranks.rank, ElementsAre(3, 2, 4));
  EXPECT_THAT(ranks.best, ElementsAre(1, 2, 0));  // a class that ties with the right one is taken for it
  EXPECT_THAT(ranks.tied, ElementsAre(true, true, true));
}

class ClassificationTest : public testing::Test {
 protected:
  // Three images of class "r", one of which is green, and one each of "g" and "b".
  void SetUp() override {
    const std::vector<std::array<uint8_t, 3>> colours = {
        {250, 0, 0}, {200, 10, 10}, {0, 250, 0}, {0, 250, 0}, {0, 0, 250}};
    const std::string labels = "rrrgb";
    std::string manifest;
    for (size_t i = 0; i < colours.size(); ++i) {
      folder_.write(fmt::format("{}.png", i), one_colour(colours[i][0], colours[i][1], colours[i][2]));
      manifest += fmt::format(R"({{"image": "{}.png", "captions": ["{}"], "group": "class {}"}})", i,
                              labels[i], labels[i]) +
                  "\n";
    }
    folder_.write("set.jsonl", manifest);
    options_.datasets = {(folder_ / "set.jsonl").string()};
    options_.checkpoints = {"single"};
    options_.bootstrap.resamples = 100;
    source_.find = [](const std::string& given) -> Result<fs::path> { return fs::path(given); };
    source_.fingerprint = [](const std::string& given) -> Result<std::string> { return given; };
    source_.load = [](const std::string& given, Precision) -> Result<LoadedEncoder> {
      LoadedEncoder loaded;
      loaded.id.name = given;
      loaded.id.path = "/models/" + given;
      loaded.encoder = std::make_unique<ColourEncoder>(given == "late");
      return loaded;
    };
    classification_.templates = {"{}"};
  }
  Result<ClassificationMetrics> measure() {
    ClassificationStudy study(classification_, options_);
    SACCADE_ASSIGN(const Evaluation evaluation, evaluate(study, options_, source_, pool_));
    protocol_ = evaluation.info.protocol;
    return read_record<ClassificationMetrics>(evaluation.metrics);
  }
  static double figure(const ClassificationResult& result, const std::string& name) {
    return find_named(result.figures, name)->value;
  }

  test::TestFolder folder_;
  EvaluationOptions options_;
  ClassificationOptions classification_;
  CheckpointSource source_;
  ThreadPool pool_{2};
  Json protocol_;
};

TEST_F(ClassificationTest, FiguresByHand) {
  options_.checkpoints = {"single", "late"};
  options_.run = folder_ / "run";
  const auto metrics = measure();
  ASSERT_TRUE(metrics) << metrics.error().message;
  ASSERT_EQ(metrics->results.size(), 3U);
  EXPECT_NEAR(figure(metrics->results[0], "top1"), 1.0 / 3, 1e-12);
  EXPECT_EQ(figure(metrics->results[0], "top5"), 1);
  for (const size_t model : {1U, 2U}) {
    const ClassificationResult& result = metrics->results[model];
    EXPECT_NEAR(figure(result, "top1"), 4.0 / 5, 1e-12);
    EXPECT_NEAR(figure(result, "mean_per_class"), (2.0 / 3 + 1 + 1) / 3, 1e-12);
    ASSERT_EQ(result.classes.size(), 3U);
    EXPECT_EQ(result.classes[0].label, "r");
    EXPECT_EQ(result.classes[0].images, 3);
    EXPECT_EQ(result.classes[0].top1, 2);
    EXPECT_EQ(result.classes[0].mistaken_for, "g");
    EXPECT_EQ(result.classes[1].mistaken_for, std::nullopt);
    EXPECT_LT(find_named(result.figures, "top1")->low, 0.8);
  }
  ASSERT_EQ(metrics->comparisons.size(), 1U);
  EXPECT_EQ(metrics->comparisons[0].figures[0].figure.value, 0);
  EXPECT_TRUE(fs::exists(folder_ / "run/predictions.jsonl"));
  EXPECT_EQ(protocol_["templates"], (Json{"{}"}));
}

// Against a loop over classes and prompts: sums of unit rows, brought to length 1.
TEST_F(ClassificationTest, AnEnsembleIsTheMeanOfItsPrompts) {
  classification_.templates = {"{}", "gg{}", "b{}{}{}b"};
  classification_.classes = {{"r", "rrg"}, {"g", "gbb"}, {"b", "rb"}};
  options_.run = folder_ / "run";
  ASSERT_TRUE(measure());
  ColourEncoder encoder;
  std::vector<std::array<double, 4>> classes;
  for (const std::string name : {"rrg", "gbb", "rb"}) {
    std::vector<TokenizedText> prompts;
    for (const std::string& prompt : {name, "gg" + name, "b" + name + name + name + "b"}) {
      prompts.push_back(encoder.tokenizer()->encode(prompt, 16));
    }
    const Matrix<float> rows = encoder.encode_texts(prompts).value();
    std::array<double, 4>& sum = classes.emplace_back();
    for (int64_t p = 0; p < rows.rows(); ++p) {
      for (size_t d = 0; d < 4; ++d) sum[d] += rows.row(p)[d];
    }
    const double length = std::sqrt(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2] + sum[3] * sum[3]);
    for (double& value : sum) value /= length;
  }
  const std::vector<std::array<double, 3>> colours = {
      {250, 0, 0}, {200, 10, 10}, {0, 250, 0}, {0, 250, 0}, {0, 0, 250}};
  std::vector<std::string> expected;
  for (const auto& colour : colours) {
    // An image's row is (red, green, blue, 1/2) normalized; its length changes no order.
    size_t best = 0;
    std::array<double, 3> scores{};
    for (size_t c = 0; c < 3; ++c) {
      for (size_t d = 0; d < 3; ++d) scores[c] += classes[c][d] * colour[d] / 255;
      scores[c] += classes[c][3] * 0.5;
      if (scores[c] > scores[best]) best = c;
    }
    expected.push_back(std::string(1, "rgb"[best]));
  }
  std::vector<std::string> predicted;
  const auto run = read_run(folder_ / "run");
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_TRUE(read_run_lines(*run, "predictions.jsonl", [&](const Json& line) -> Status {
    predicted.push_back(line["predicted"]);
    return {};
  }));
  EXPECT_EQ(predicted, expected);
}

TEST_F(ClassificationTest, ClassesHaveNamesOfTheirOwn) {
  classification_.label = ClassLabel::kGroup;
  classification_.classes = {{"class g", "g"}, {"class b", "b"}, {"class r", "r"}, {"class x", "rgb"}};
  const auto metrics = measure();
  ASSERT_TRUE(metrics) << metrics.error().message;
  EXPECT_NEAR(figure(metrics->results[1], "top1"), 4.0 / 5, 1e-12);
  // A class without images counts in no mean.
  EXPECT_NEAR(figure(metrics->results[1], "mean_per_class"), (2.0 / 3 + 1 + 1) / 3, 1e-12);
  EXPECT_NEAR(figure(metrics->results[0], "top1"), 1.0 / 4, 1e-12);
  classification_.classes.erase(classification_.classes.begin());
  EXPECT_THAT(measure().error().message,
              HasSubstr("is of class \"class g\", which is not among the 3 of --classes"));
}

}  // namespace
}  // namespace saccade::lab
