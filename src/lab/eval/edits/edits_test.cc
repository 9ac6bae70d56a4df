// Tests of the quality of generated images, on images of one colour whose embeddings can be computed by hand.
#include <algorithm>
#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/edits/edits_study.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

class EditsStudyTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto picture = [&](const std::string& name, std::array<uint8_t, 3> colour) {
      Image image{.width = 2, .height = 2, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
      for (int i = 0; i < 4; ++i) image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
      folder.write(name, *encode_png(image));
    };
    std::string manifest;
    for (const auto& [id, colour] : {std::pair<const char*, std::array<uint8_t, 3>>{"red", {250, 0, 0}},
                                     {"green", {0, 250, 0}},
                                     {"blue", {0, 0, 250}},
                                     {"grey", {90, 90, 90}}}) {
      picture(fmt::format("{}.png", id), colour);
      manifest +=
          fmt::format("{{\"gallery_image\": \"{0}.png\", \"id\": \"{0}\", \"gallery\": \"g\"}}\n", id);
    }
    const auto query = [&](const char* id, const char* reference, const char* text, const char* target,
                           const char* kind) {
      manifest += fmt::format(
          "{{\"id\": \"{}\", \"reference\": \"{}\", \"texts\": [\"{}\"], \"targets\": [\"{}\"], \"gallery\": \"g\", "
          "\"kind\": \"{}\"}}\n",
          id, reference, text, target, kind);
    };
    // The generated images are: right; right; like the reference; missing.
    query("q1", "green", "r", "red", "warm");
    query("q2", "grey", "rr", "red", "warm");
    query("q3", "green", "b", "blue", "cold");
    query("q4", "red", "b", "blue", "cold");
    options.datasets = {folder.write("edits.jsonl", manifest).string()};
    picture("made/pictures/1.png", {240, 10, 10});
    picture("made/pictures/2.png", {200, 0, 0});
    picture("made/pictures/3.png", {0, 240, 10});
    GeneratedEdits generated;
    generated.dataset = "edits";
    generated.dataset_hash = "h";
    generated.engine = {{"name", "own"}};
    generated.edits = {{"q1", "g", "green", "r", "pictures/1.png", 2, 2, ""},
                       {"q2", "g", "grey", "rr", "pictures/2.png", 2, 2, ""},
                       {"q3", "g", "green", "b", "pictures/3.png", 2, 2, ""},
                       {"q4", "g", "red", "b", "", 0, 0, "no answer"}};
    folder.write("made/generated.jsonl", *format_generated_edits(generated));
    edits.generated = folder / "made";
    options.checkpoints = {"colour"};
    options.bootstrap.resamples = 50;
    source.find = [](const std::string& given) -> Result<std::filesystem::path> { return given; };
    source.fingerprint = [](const std::string& given) -> Result<std::string> { return given; };
    source.load = [](const std::string& given, Precision) -> Result<LoadedEncoder> {
      LoadedEncoder loaded;
      loaded.encoder = std::make_unique<ColourEncoder>();
      loaded.id.name = given;
      loaded.id.path = given;
      loaded.id.fingerprint = loaded.encoder->info().fingerprint;
      return loaded;
    };
  }
  Result<Evaluation> measure(bool note = false) { return evaluate_edits(edits, note, options, source, pool); }
  static const Json& find(const Json& list, const std::string& method, const char* of, const Json& name) {
    for (const Json& each : list) {
      if ((method.empty() || each["method"] == method) && each["of"] == of && each["name"] == name)
        return each;
    }
    ADD_FAILURE() << method << " " << of;
    return list;
  }

  const test::TestFolder folder;
  EditsOptions edits;
  EvaluationOptions options;
  CheckpointSource source;
  ThreadPool pool{2};
};

TEST_F(EditsStudyTest, CountsByHand) {
  options.run = folder / "run";
  const auto evaluation = measure(true);
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json& results = evaluation->metrics["results"];
  const Json& all = find(results, "generated", "all", Json());
  EXPECT_EQ(all["queries"], 3);
  EXPECT_NEAR(all["figures"]["r1"]["value"].get<double>(), 2.0 / 3, 1e-12);
  EXPECT_EQ(find(results, "generated", "kind", "warm")["figures"]["r1"]["value"], 1);
  EXPECT_EQ(find(results, "generated", "kind", "cold")["figures"]["r1"]["value"], 0);
  EXPECT_EQ(find(results, "reference", "all", Json())["figures"]["r1"]["value"], 0);
  EXPECT_TRUE(find(results, "reference + text", "all", Json())["figures"].contains("r5"));
  EXPECT_EQ(evaluation->metrics["comparisons"].size(), 2U);
  const auto back = read_record<EditsMetrics>(evaluation->metrics);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(evaluation->metrics));

  // Red of 240, 10, 10 against 250, 0, 0, each with 1/2 beside the colours, computed by hand.
  const auto row = [](double r, double g, double b) {
    std::array<double, 4> values = {r / 255, g / 255, b / 255, 0.5};
    double squares = 0;
    for (const double value : values) squares += value * value;
    for (double& value : values) value /= std::sqrt(squares);
    return values;
  };
  const auto cosine = [&](const std::array<double, 4>& a, const std::array<double, 4>& b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
  };
  const std::array<double, 3> expected = {cosine(row(240, 10, 10), row(250, 0, 0)),
                                          cosine(row(200, 0, 0), row(250, 0, 0)),
                                          cosine(row(0, 240, 10), row(0, 0, 250))};
  const Json& likeness = find(evaluation->metrics["likeness"], "", "all", Json());
  EXPECT_NEAR(likeness["cosine"]["value"].get<double>(), (expected[0] + expected[1] + expected[2]) / 3, 1e-5);
  EXPECT_TRUE(likeness["correlation"]["value"].is_null());  // three queries are too few for a correlation
  const auto quality = read_generated_quality(folder / "made");
  ASSERT_TRUE(quality) << quality.error().message;
  EXPECT_EQ(quality->size(), 3U);
  EXPECT_NEAR(quality->at("q3").cosine, expected[2], 1e-5);
  EXPECT_EQ(quality->at("q1").rank, 1);
  EXPECT_GT(quality->at("q3").rank, 1);

  bool said = false;
  for (const RunDataset& dataset : evaluation->info.datasets) {
    for (const Exclusion& each : dataset.excluded)
      said = said || each.reason.find("the engine gave none") != std::string::npos;
  }
  EXPECT_TRUE(said);
  const auto lines = read_file(folder / "run/edits.jsonl");
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_EQ(std::ranges::count(*lines, '\n'), 3);
}

TEST_F(EditsStudyTest, WhatCannotBeReadIsLeftOutWhereAskedFor) {
  folder.write("made/pictures/2.png", "<html>");
  EXPECT_FALSE(measure());
  options.leave_out = true;
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_EQ(find(evaluation->metrics["results"], "generated", "all", Json())["queries"], 2);
  EXPECT_EQ(find(evaluation->metrics["results"], "generated", "all", Json())["figures"]["r1"]["value"], 0.5);
}

TEST_F(EditsStudyTest, SaysWhatIsWrong) {
  const auto error = [&](bool note = false) {
    const auto evaluation = measure(note);
    return evaluation ? std::string("none") : evaluation.error().message;
  };
  edits.protocol.join = JoinTexts::kEach;
  EXPECT_THAT(error(), HasSubstr("belongs to a query"));
  edits.protocol.join = JoinTexts::kAnd;
  options.checkpoints = {"colour", "colour"};
  EXPECT_THAT(error(true), HasSubstr("--note keeps what one checkpoint says"));
  options.checkpoints = {"colour"};
  edits.generated = folder / "nowhere";
  EXPECT_THAT(error(), HasSubstr("nowhere"));
  edits.generated = folder / "made";
  options.datasets.push_back(options.datasets.front());
  EXPECT_THAT(error(), HasSubstr("generated for one dataset"));
}

}  // namespace
}  // namespace saccade::lab
