#include "lab/eval/visualness/visualness_study.h"

#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/run/record_fields.h"
#include "lab/eval/visualness/word_attention.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A text of one colour is far from a grey image, one of all three is near it.
constexpr const char* kTexts =
    "{\"text\": \"rrrr\", \"visual\": true, \"image\": \"0.png\"}\n"
    "{\"text\": \"gggg\", \"visual\": true, \"image\": \"1.png\"}\n"
    "{\"text\": \"ggg\", \"visual\": true, \"image\": \"1.png\"}\n"
    "{\"text\": \"bbbb\", \"visual\": true, \"image\": \"2.png\"}\n"
    "{\"text\": \"rgb\", \"visual\": false}\n"
    "{\"text\": \"rgb rgb\", \"visual\": false}\n"
    "{\"text\": \"bgr\", \"visual\": false, \"group\": \"g\"}\n"
    "{\"text\": \"grb b\", \"visual\": false, \"group\": \"g\"}\n"
    "{\"text\": \"rrg\", \"visual\": null}\n"
    "{\"text\": \"rrggb\", \"visual\": null}\n"
    "{\"text\": \"rrrrrgb\", \"visual\": null}\n";
constexpr const char* kValidation =
    "{\"text\": \"rrr\", \"visual\": true, \"image\": \"0.png\"}\n{\"text\": \"bbb\", \"visual\": true}\n"
    "{\"text\": \"rgbrgb\", \"visual\": false}\n{\"text\": \"gbr\", \"visual\": false}\n";

// A classifier of texts alone. Texts with an "r" and no "g" are visual.
class LetterClassifier : public ColourEncoder, public TextClassifier {
 public:
  LetterClassifier() {
    mutable_info().image_height = mutable_info().image_width = 0;
    mutable_info().fingerprint = "classifier";
  }
  EncoderCapabilities capabilities() override { return {.text_classifier = this}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  Result<Matrix<float>> classify_texts(std::span<const TokenizedText> batch) override {
    Matrix<float> logits(std::ssize(batch), 2);
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto has = [&](char c) { return std::ranges::count(batch[i].ids, c + 3) > 0; };
      logits(static_cast<int64_t>(i), 0) = has('r') && !has('g') ? 2.0F : -1.0F;
    }
    return logits;
  }
  Result<AttentionMaps> attention_maps(const TokenizedText& text) override {
    const int64_t n = std::ssize(text.ids);
    const std::vector<float> even(static_cast<size_t>(n * n), 1.0F / static_cast<float>(n));
    return AttentionMaps{.layers = 1, .heads = 1, .tokens = n, .weights = even};
  }
  std::vector<std::string> labels_ = {"visual", "other"};
};

class VisualnessStudyTest : public testing::Test {
 protected:
  VisualnessStudyTest() {
    folder_.write("0.png", one_colour(250, 0, 0));
    folder_.write("1.png", one_colour(0, 250, 0));
    folder_.write("2.png", one_colour(0, 0, 250));
    options_.datasets = {write("texts.jsonl", kTexts)};
    visualness_.validation = {write("validation.jsonl", kValidation)};
    visualness_.null_picture.kind = NullPicture::Kind::kGrey;
    visualness_.map = TextMap::kPca;
    options_.checkpoints = {"single"};
    options_.bootstrap.resamples = 50;
    source_.find = [](const std::string& given) -> Result<fs::path> { return fs::path(given); };
    source_.fingerprint = [](const std::string& given) -> Result<std::string> { return given; };
    source_.load = [this](const std::string& given, Precision) -> Result<LoadedEncoder> {
      LoadedEncoder loaded;
      loaded.encoder = given.starts_with("classifier") ? std::make_unique<LetterClassifier>()
                                                       : std::make_unique<ColourEncoder>();
      loaded.id = {.name = given, .path = (folder_ / given).string(), .fingerprint = given, .dim = 4};
      return loaded;
    };
  }
  std::string write(const std::string& name, std::string_view content) {
    return folder_.write(name, content).string();
  }
  Result<Evaluation> measure() {
    auto study = VisualnessStudy::make(visualness_, options_);
    if (!study) return fail(std::move(study).error());
    return evaluate(*study, options_, source_, pool_);
  }
  std::string refusal() {
    const auto result = measure();
    EXPECT_FALSE(result);
    return result ? "" : result.error().message;
  }
  static Json of(const Evaluation& evaluation, const std::string& model) {
    for (const Json& result : evaluation.metrics["results"]) {
      if (result["model"] == model) return result;
    }
    ADD_FAILURE() << "no result of " << model << " in " << dump_json(evaluation.metrics["results"], 2);
    return {};
  }

  test::TestFolder folder_;
  VisualnessOptions visualness_;
  EvaluationOptions options_;
  CheckpointSource source_;
  ThreadPool pool_{2};
};

TEST_F(VisualnessStudyTest, MeasuresModelsAndRulesInOneTable) {
  visualness_.lexicon = write("c.tsv", "Word\tConc.M\nrrrr\t5\nrrr\t4\ngggg\t4\nbbb\t3\nbgr\t3\n");
  visualness_.objects = write("o.txt", "rrrr\nrrr\nbbb\n");
  visualness_.vectors = {write("glove.txt", "rrrr 1 0\nbbbb 1 0\nrgb 0 1\nggg 0.6 0.8\n")};
  options_.checkpoints = {"single", "classifier"};
  options_.run = folder_ / "run";
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json& results = evaluation->metrics["results"];
  ASSERT_EQ(results.size(), 6U);
  const auto back = read_record<VisualnessMetrics>(evaluation->metrics);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(dump_json(record_json(*back)), dump_json(evaluation->metrics));

  const Json model = of(*evaluation, "single");
  EXPECT_EQ(model["method"], "null image");
  EXPECT_EQ(model["texts"], 8);
  EXPECT_EQ(model["visual"], 4);
  for (const char* figure : {"f1", "precision", "recall", "accuracy"})
    EXPECT_EQ(model[figure]["value"], 1) << figure;
  EXPECT_GT(model["threshold"], 0.03);
  EXPECT_LT(model["threshold"], 0.4);
  EXPECT_EQ(model["threshold_from"]["name"], "validation");
  EXPECT_EQ(model["mrr"]["value"], 1);
  EXPECT_EQ(model["mrr"]["texts"], 4);
  EXPECT_EQ(model["mrr"]["images"], 3);
  EXPECT_EQ(model["ambiguous"]["texts"], 3);
  EXPECT_TRUE(model["attention"].is_null());

  // The lexicon has the texts rrrr, gggg and bgr. The threshold from the validation's rrr and bbb is
  // 0.25.
  const Json lexicon = of(*evaluation, "mean rating of words (brysbaert)");
  EXPECT_EQ(lexicon["method"], "lexicon");
  EXPECT_EQ(lexicon["recall"]["value"], (2.0 / 4 + 3.0 / 4) / 2);
  const Json expanded = of(*evaluation, "brysbaert + glove");
  EXPECT_EQ(expanded["details"]["added"], 3);  // bbbb and ggg as rrrr, and rgb
  EXPECT_EQ(expanded["recall"]["value"], (4.0 / 4 + 3.0 / 4) / 2);
  const Json objects = of(*evaluation, "objects named (o)");
  EXPECT_EQ(objects["recall"]["value"], (1.0 / 4 + 4.0 / 4) / 2);
  const Json prior = of(*evaluation, "class prior")["details"];
  EXPECT_EQ(prior["visual"], 0.5);
  EXPECT_EQ(prior["from"]["name"], "validation");

  const Json classifier = of(*evaluation, "classifier");
  EXPECT_EQ(classifier["method"], "classifier");
  EXPECT_EQ(classifier["recall"]["value"], (1.0 / 4 + 4.0 / 4) / 2);  // only rrrr
  EXPECT_TRUE(classifier["mrr"].is_null());

  const Json& comparisons = evaluation->metrics["comparisons"];
  EXPECT_EQ(comparisons.size(), 15U);
  const Json last = comparisons.back();
  EXPECT_EQ(last["a"], "single");
  EXPECT_EQ(last["b"], "classifier");
  EXPECT_EQ(last["scores"]["recall"]["difference"], 1 - 0.625);
  EXPECT_FALSE(last["scores"].contains("mrr"));

  const auto run = read_run(folder_ / "run");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->info.kind, "visualness");
  std::map<std::string, int> kinds;
  ASSERT_TRUE(read_run_lines(*run, "map.jsonl", [&](const Json& line) -> Status {
    ++kinds[line["kind"].get<std::string>()];
    return {};
  }));
  EXPECT_EQ(kinds, (std::map<std::string, int>{
                       {"visual text", 4}, {"non-visual text", 4}, {"image", 3}, {"NULL image", 1}}));
  int scores = 0;
  ASSERT_TRUE(read_run_lines(*run, "scores.jsonl", [&](const Json&) -> Status {
    ++scores;
    return {};
  }));
  EXPECT_EQ(scores, 22);
}

TEST_F(VisualnessStudyTest, MeasuresAttentionOverTextsWithoutLabels) {
  visualness_.lexicon =
      write("c.tsv", "Word\tConc.M\nr\t1.4\ngg\t4.6\nb\t2.2\nrgb\t3.8\nrr\t3\nrrrr\t5\nbbb\t3\n");
  visualness_.vectors = {write("glove.txt", "gg 1 0\nwww 1 0\n")};
  visualness_.word_ratings = write("people.tsv", "Word\tConc.M\nr\t1\ngg\t5\nb\t2\nrgb\t4\nwww\t5\n");
  // One of them has the dataset's own name.
  const std::string lines = "r,gg\nr,gg\nb,rgb\nb,rgb\nrr,r\nrr,r\n";
  visualness_.attention_texts = {write("captions.txt", lines), write("more/texts.txt", lines)};
  options_.checkpoints = {"single", "classifier", "classifier-2"};
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const auto metrics = read_record<VisualnessMetrics>(evaluation->metrics);
  ASSERT_TRUE(metrics) << metrics.error().message;
  EXPECT_EQ(dump_json(record_json(*metrics)), dump_json(evaluation->metrics));
  std::vector<std::string> texts;
  for (const AttentionTextFacts& facts : metrics->attention_texts) texts.push_back(facts.dataset);
  EXPECT_EQ(texts, (std::vector<std::string>{"texts", "captions", "texts-2"}));
  // Texts x models with attention x lexicons x (all texts and three lengths).
  EXPECT_EQ(metrics->attention.size(), 3U * 2 * 2 * 4);
  int found = 0;
  for (const AttentionCorrelation& each : metrics->attention) {
    if (each.dataset != "captions" || each.length != "all") continue;
    ++found;
    EXPECT_EQ(each.ratings.words, 5);
    EXPECT_EQ(each.ratings.texts, 6);
    // "r" has 1 of 4 tokens, and 1 of 4 again.
    EXPECT_NEAR(each.ratings.r,
                pearson(std::vector{0.25, 0.5, 0.2, 0.6, 0.5}, std::vector{0.1, 0.9, 0.3, 0.7, 0.5}, 0.95).r,
                1e-5);
  }
  EXPECT_EQ(found, 4);
  ASSERT_EQ(metrics->attention_between.size(), 3U);
  EXPECT_EQ(metrics->attention_between[1].dataset, "captions");
  EXPECT_EQ(metrics->attention_between[1].a, "classifier");
  EXPECT_EQ(metrics->attention_between[1].b, "classifier-2");
  EXPECT_NEAR(metrics->attention_between[1].r, 1, 1e-9);
  ASSERT_EQ(metrics->word_ratings.size(), 2U);
  EXPECT_EQ(metrics->word_ratings[0].words, 4);
  EXPECT_EQ(metrics->word_ratings[1].words, 1);  // "www"
  ASSERT_EQ(metrics->rated_words.size(), 1U);
  EXPECT_EQ(metrics->rated_words[0].ranges[0].examples, std::vector<std::string>{"www"});
  const Json& protocol = evaluation->info.protocol;
  EXPECT_EQ(protocol["attention_texts"][0]["name"], "captions");
  EXPECT_EQ(protocol["attention_texts"][0]["texts"], 6);
  EXPECT_TRUE(protocol["word_ratings_sha256"].is_string());

  // Without a lexicon, models are compared with each other alone.
  visualness_.lexicon.clear();
  visualness_.vectors.clear();
  visualness_.word_ratings.clear();
  const auto plain = measure();
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_TRUE(plain->metrics["attention"].empty());
  EXPECT_EQ(plain->metrics["attention_between"].size(), 3U);
}

TEST_F(VisualnessStudyTest, PartsAreJudgedByThemselves) {
  std::string texts = kTexts;
  texts += "{\"text\": \"rgb rgb rgb rgb rgb rgb rgb rgb rgb rgb rgb\", \"visual\": false}\n";
  options_.datasets = {write("texts.jsonl", texts)};
  visualness_.objects = write("o.txt", "rrrr\nrgb\n");
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json parts = of(*evaluation, "single")["parts"];
  ASSERT_EQ(parts.size(), 5U);
  EXPECT_EQ(parts[0]["name"], "short");
  EXPECT_EQ(parts[0]["texts"], 8);
  EXPECT_EQ(parts[0]["visual"], 4);
  EXPECT_EQ(parts[0]["f1"]["value"], 1);
  EXPECT_EQ(parts[1]["name"], "medium");
  EXPECT_EQ(parts[1]["texts"], 1);
  EXPECT_TRUE(parts[1]["f1"]["value"].is_null()) << "one class alone";
  EXPECT_EQ(parts[2]["texts"], 0);
  EXPECT_EQ(parts[4]["name"], "many objects");
  EXPECT_EQ(parts[4]["texts"], 4);  // rrrr, and three of rgb
  EXPECT_EQ(parts[4]["visual"], 1);
  EXPECT_EQ(parts[4]["recall"]["value"], 1);
}

TEST_F(VisualnessStudyTest, ThePriorMayBeThatOfTheTraining) {
  visualness_.prior = write("training.jsonl",
                            "{\"text\": \"r\", \"visual\": true}\n{\"text\": \"b\", \"visual\": false}\n"
                            "{\"text\": \"g\", \"visual\": false}\n{\"text\": \"rg\", \"visual\": false}\n"
                            "{\"text\": \"gg\", \"visual\": null}\n");
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json details = of(*evaluation, "class prior")["details"];
  EXPECT_EQ(details["visual"], 0.25);
  EXPECT_EQ(details["from"]["name"], "training");
  EXPECT_EQ(evaluation->info.protocol["prior"]["name"], "training");
  visualness_.prior = "uniform";
  const auto uniform = measure();
  ASSERT_TRUE(uniform) << uniform.error().message;
  EXPECT_EQ(of(*uniform, "class prior")["details"]["visual"], 0.5);
  EXPECT_EQ(of(*uniform, "class prior")["details"]["from"], "uniform");
}

TEST_F(VisualnessStudyTest, AClassifierMayDecideByItsOwnClasses) {
  options_.checkpoints = {"single", "classifier"};
  visualness_.own_decision = true;
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json classifier = of(*evaluation, "classifier");
  EXPECT_EQ(classifier["threshold"], 0.5);
  EXPECT_EQ(classifier["threshold_from"], "checkpoint");
  EXPECT_EQ(of(*evaluation, "single")["threshold_from"]["name"], "validation");
  visualness_.own_decision = false;
  const auto chosen = measure();
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(of(*chosen, "classifier")["threshold_from"]["name"], "validation");
}

TEST_F(VisualnessStudyTest, ATrainedCheckpointBringsItsNullPictureAndThreshold) {
  folder_.write("single/saccade.json", "{}");
  // Reverses the classes: red texts are classified as other, since the NULL image is red.
  const KeptVisualness kept{
      .null_picture = {{"kind", "file"}}, .null_row = {1, 0, 0, 0}, .threshold = 0.5, .measured = {}};
  ASSERT_TRUE(write_kept_visualness(folder_ / "single", "single", kept));
  visualness_.validation.clear();
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  const Json model = of(*evaluation, "single");
  EXPECT_EQ(model["method"], "trained");
  EXPECT_EQ(model["threshold"], 0.5);
  EXPECT_EQ(model["threshold_from"], "checkpoint");
  EXPECT_EQ(model["details"]["null_image"]["kind"], "file");
  EXPECT_LT(model["f1"]["value"], 1);
  EXPECT_EQ(evaluation->metrics["results"].size(), 1U);
}

TEST_F(VisualnessStudyTest, ThresholdsOfEachDatasetMayBeItsOwn) {
  options_.datasets.push_back(write("more.jsonl", kTexts));
  visualness_.validation.push_back(write(
      "other.jsonl", "{\"text\": \"rgb\", \"visual\": true}\n{\"text\": \"rrr\", \"visual\": false}\n"));
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  std::vector<std::string> from;
  for (const Json& result : evaluation->metrics["results"]) {
    if (result["model"] == "single") from.push_back(result["threshold_from"]["name"]);
  }
  EXPECT_EQ(from, (std::vector<std::string>{"validation", "other"}));
  visualness_.validation.push_back(visualness_.validation.back());
  EXPECT_THAT(refusal(), HasSubstr("3 validation datasets for 2"));
}

TEST_F(VisualnessStudyTest, IntervalsAndDifferencesAreTheSameAgain) {
  const auto once = measure();
  const auto again = measure();
  ASSERT_TRUE(once);
  ASSERT_TRUE(again);
  EXPECT_EQ(dump_json(once->metrics), dump_json(again->metrics));
}

TEST_F(VisualnessStudyTest, WhatItRefuses) {
  visualness_.validation.clear();
  EXPECT_THAT(refusal(), HasSubstr("no threshold"));
  visualness_.lexicon = write("c.tsv", "Word\tConc.M\nr\t5\n");
  EXPECT_THAT(refusal(), HasSubstr("without validation texts"));
  visualness_.validation = {write("one.jsonl", "{\"text\": \"rrr\", \"visual\": true}\n")};
  EXPECT_THAT(refusal(), HasSubstr("1 visual and 0 non-visual"));
  visualness_.validation = options_.datasets;
  EXPECT_THAT(refusal(), HasSubstr("its own texts would choose its threshold"));
  visualness_.validation = {write("validation.jsonl", kValidation)};
  options_.datasets = {write("pictures.jsonl", "{\"image\": \"0.png\", \"captions\": [\"r\"]}\n")};
  EXPECT_THAT(refusal(), HasSubstr("images with captions, not rated texts"));
  options_.datasets = {write("texts.jsonl", kTexts)};
  visualness_.lexicon = write("bad.tsv", "term\tscore\nr\t5\n");
  EXPECT_THAT(refusal(), HasSubstr("a lexicon of another format"));
  visualness_.lexicon.clear();
  visualness_.vectors = {"v.txt"};
  EXPECT_THAT(refusal(), HasSubstr("without a lexicon"));
  visualness_.vectors.clear();
  visualness_.word_ratings = write("people.csv", "text,a,b\nr,1,2\n");
  EXPECT_THAT(refusal(), HasSubstr("without a lexicon to compare"));
  visualness_.word_ratings.clear();
  visualness_.attention_texts = {write("blank.txt", "\n")};
  EXPECT_THAT(refusal(), HasSubstr("no texts in it"));
  visualness_.attention_texts.clear();
  visualness_.prior = write("one.jsonl", "{\"text\": \"rrr\", \"visual\": true}\n");
  EXPECT_THAT(refusal(), HasSubstr("1 visual and 0 non-visual"));
  visualness_.validation.clear();
  EXPECT_THAT(refusal(), HasSubstr("a class prior without validation texts"));
}

TEST_F(VisualnessStudyTest, PicturesThatCannotBeReadCostOnlyTheirRanks) {
  folder_.write("1.png", "no picture");
  EXPECT_THAT(refusal(), HasSubstr("1 of 3 images cannot be read"));
  options_.leave_out = true;
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  EXPECT_TRUE(evaluation->some_unreadable);
  const Json model = of(*evaluation, "single");
  EXPECT_EQ(model["texts"], 8);
  EXPECT_EQ(model["mrr"]["texts"], 2);
  EXPECT_EQ(model["mrr"]["images"], 2);
}

// The program's own list has "cat", "dog", "car" and "tree", and their plurals.
TEST_F(VisualnessStudyTest, MeasuresTheListOfEverydayThings) {
  options_.datasets = {write("things.jsonl",
                             "{\"text\": \"cats\", \"visual\": true}\n{\"text\": \"dog\", \"visual\": true}\n"
                             "{\"text\": \"thereof\", \"visual\": false}\n{\"text\": \"a car thereof\", "
                             "\"visual\": false}\n{\"text\": \"hence thus\", \"visual\": false}\n")};
  visualness_.validation = {
      write("other.jsonl",
            "{\"text\": \"tree\", \"visual\": true}\n{\"text\": \"trees\", \"visual\": true}\n"
            "{\"text\": \"a dog thus\", \"visual\": false}\n"
            "{\"text\": \"whereas\", \"visual\": false}\n")};
  visualness_.objects = std::string(kEverydayObjects);
  const auto evaluation = measure();
  ASSERT_TRUE(evaluation) << evaluation.error().message;
  // Shares are 1, 1, 0, 1/3 and 0; the validation's are 1, 1, 1/3 and 0.
  const Json everyday = of(*evaluation, "objects named (everyday)");
  EXPECT_EQ(everyday["method"], "objects");
  EXPECT_EQ(everyday["f1"]["value"], 1);
  EXPECT_GE(everyday["threshold"].get<double>(), 1.0 / 3);
  EXPECT_LT(everyday["threshold"].get<double>(), 1);
  const auto list = everyday_objects();
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(evaluation->info.protocol["objects"]["names"], list->names.size());
  EXPECT_EQ(evaluation->info.protocol["objects"]["sha256"], "");
}

}  // namespace
}  // namespace saccade::lab
