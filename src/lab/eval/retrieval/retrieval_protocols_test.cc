// Tests of named protocols: figures of the published program on shared scores, and the symmetric protocol against a loop over
// the matrix of first captions.
#include "lab/eval/retrieval/retrieval_protocols.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/retrieval/retrieval_study.h"
#include "lab/eval/winoground/winoground.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(test::kSourceDir) / "tests/golden/retrieval" / name;
}

Result<Evaluation> evaluate_golden(const RetrievalOptions& retrieval, const std::string& file, bool rows) {
  ThreadPool pool(2);
  EvaluationOptions options;
  options.bootstrap.resamples = 200;
  return evaluate_given_retrieval({.files = {golden(file)}, .rows = rows}, retrieval, options, pool);
}

// Returns the one model's results; chance is the other.
RetrievalResult model_result(const Evaluation& evaluation) {
  return read_record<RetrievalMetrics>(evaluation.metrics).value().results.back();
}
double figure(const RetrievalDirection& direction, const std::string& name) {
  return find_named(direction.figures, name)->value;
}

TEST(RetrievalProtocols, SetTheirCaptions) {
  const auto captions_of = [](RetrievalProtocol protocol) {
    RetrievalOptions options;
    use_protocol(protocol, options);
    EXPECT_EQ(options.protocol, protocol);
    EXPECT_EQ(options.first_queries, protocol == RetrievalProtocol::kSevenModels);
    return options.captions;
  };
  EXPECT_EQ(captions_of(RetrievalProtocol::kSevenModels), CaptionPolicy::kFirst5);
  EXPECT_EQ(captions_of(RetrievalProtocol::kKarpathy), CaptionPolicy::kFirst5);
  EXPECT_EQ(captions_of(RetrievalProtocol::kClipBenchmark), CaptionPolicy::kAll);
  EXPECT_EQ(captions_of(RetrievalProtocol::kLongClip), CaptionPolicy::kFirst5);
  EXPECT_EQ(captions_of(RetrievalProtocol::kSymmetric), CaptionPolicy::kFirst1);
}

TEST(RetrievalProtocols, SevenModelsHasTheFiguresOfItsOwnProgram) {
  RetrievalOptions retrieval;
  use_protocol(RetrievalProtocol::kSevenModels, retrieval);
  const Json columns = read_json(golden("seven_models.json")).value();
  const auto evaluation = evaluate_golden(retrieval, "seven_models.safetensors", false);
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_EQ(evaluation->info.protocol["protocol"], "seven-models");
  EXPECT_EQ(evaluation->info.protocol["queries"], "first1");
  const RetrievalResult result = model_result(*evaluation);
  EXPECT_EQ(result.directions.t2i.counts.queries, 24);
  EXPECT_EQ(result.texts, 120);
  for (const int k : {1, 5, 10}) {
    const std::string name = fmt::format("r{}", k);
    EXPECT_NEAR(100 * figure(result.directions.t2i, name), columns[fmt::format("T2I_R@{}", k)].get<double>(),
                1e-9);
    EXPECT_NEAR(100 * figure(result.directions.i2t, name), columns[fmt::format("I2T_R@{}", k)].get<double>(),
                1e-9);
  }
  ASSERT_TRUE(result.gap);
  EXPECT_NEAR(result.gap->figure.value,
              figure(result.directions.i2t, "r1") - figure(result.directions.t2i, "r1"), 1e-12);
  // With all captions as queries it is another figure: the protocol is not without effect.
  const auto karpathy =
      evaluate_golden({.captions = CaptionPolicy::kFirst5}, "seven_models.safetensors", false);
  EXPECT_NE(figure(model_result(*karpathy).directions.t2i, "r1"), figure(result.directions.t2i, "r1"));
}

// The program counts the official text score as its image score, and the other way round. Ours are the official ones.
TEST(RetrievalProtocols, TheProgramsWinogroundColumnsAreSwapped) {
  const Json columns = read_json(golden("seven_models.json")).value();
  const auto file = SafeTensors::open(golden("seven_models.safetensors"));
  ASSERT_TRUE(file) << file.error().message;
  const std::vector<float> values = file->find("compositions")->to_floats().value();
  double text = 0, image = 0, group = 0;
  const size_t items = values.size() / 4;
  for (size_t i = 0; i < items; ++i) {
    const float* s = &values[4 * i];
    const CompositionVerdict verdict =
        judge(CompositionScores{std::array{s[0], s[1]}, std::array{s[2], s[3]}}, true);
    text += verdict.text ? 1 : 0;
    image += verdict.image ? 1 : 0;
    group += verdict.group ? 1 : 0;
  }
  const auto percent = [&](double count) { return 100 * count / static_cast<double>(items); };
  EXPECT_NEAR(percent(text), columns["Wino Image"].get<double>(), 1e-9);
  EXPECT_NEAR(percent(image), columns["Wino Text"].get<double>(), 1e-9);
  EXPECT_NEAR(percent(group), columns["Wino Group"].get<double>(), 1e-9);
  EXPECT_NE(text, image);
}

TEST(RetrievalProtocols, SymmetricRanksFirstCaptionsAlone) {
  RetrievalOptions retrieval{.captions = CaptionPolicy::kFirst5, .symmetric = true};
  const auto evaluation = evaluate_golden(retrieval, "seven_models.safetensors", false);
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_EQ(evaluation->info.protocol["symmetric"], true);
  const RetrievalResult result = model_result(*evaluation);
  ASSERT_TRUE(result.symmetric);

  const auto file = SafeTensors::open(golden("seven_models.safetensors"));
  const std::vector<float> values = file->find("scores")->to_floats().value();
  constexpr size_t kImages = 24;
  const auto score = [&](size_t caption_of, size_t image) {
    return values[5 * caption_of * kImages + image];
  };
  for (const int k : {1, 5, 10}) {
    double t2i = 0, i2t = 0;
    for (size_t i = 0; i < kImages; ++i) {
      int above_text = 0, above_image = 0;
      for (size_t j = 0; j < kImages; ++j) {
        above_text += score(i, j) > score(i, i) ? 1 : 0;
        above_image += score(j, i) > score(i, i) ? 1 : 0;
      }
      t2i += above_text < k ? 1 : 0;
      i2t += above_image < k ? 1 : 0;
    }
    const std::string name = fmt::format("r{}", k);
    EXPECT_NEAR(figure(result.symmetric->directions.t2i, name), t2i / kImages, 1e-12);
    EXPECT_NEAR(figure(result.symmetric->directions.i2t, name), i2t / kImages, 1e-12);
  }
  const Difference* gain = find_named(result.symmetric->gain.i2t, "r1");
  ASSERT_NE(gain, nullptr);
  EXPECT_NEAR(gain->figure.value,
              figure(result.directions.i2t, "r1") - figure(result.symmetric->directions.i2t, "r1"), 1e-12);
  EXPECT_LT(gain->figure.low, gain->figure.high);

  // It is the protocol that captions first1 is.
  const auto alone = evaluate_golden({.captions = CaptionPolicy::kFirst1}, "seven_models.safetensors", false);
  const RetrievalResult first_alone = model_result(*alone);
  for (const Direction direction : kBothDirections) {
    for (const Figure& one : first_alone.directions.of(direction).figures) {
      const Figure* same = find_named(result.symmetric->directions.of(direction).figures, one.name);
      EXPECT_EQ(record_json(*same), record_json(one)) << one.name;
    }
  }
}

TEST(RetrievalProtocols, FirstCaptionsGoWithPoliciesThatDoNotCompare) {
  Dataset dataset;
  DatasetItem& item = dataset.as<CaptionedImages>().items.emplace_back();
  item.id = "a";
  item.image.path = "a.png";
  item.captions = {"x"};
  const EvaluationOptions options;
  const RetrievalOptions retrieval{.captions = CaptionPolicy::kDedup, .symmetric = true};
  RetrievalStudy study(retrieval, options);
  study.add_source(retrieval_source(dataset).value());
  const auto settled = study.settle(0, {});
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().code, ErrorCode::kUsage);
  EXPECT_THAT(settled.error().message, HasSubstr("captions dedup compares captions"));
}

}  // namespace
}  // namespace saccade::lab
