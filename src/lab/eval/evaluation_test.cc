// Tests of the evaluation framework: reading, loading, encoding, errors, outputs, and their order.
#include "lab/eval/evaluation.h"

#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/length/length_study.h"
#include "lab/eval/retrieval/retrieval_study.h"
#include "lab/eval/winoground/winoground_study.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class EvaluationTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::array<std::array<uint8_t, 3>, 3> colours = {{{250, 0, 0}, {0, 250, 0}, {0, 0, 250}}};
    std::string manifest;
    for (size_t i = 0; i < colours.size(); ++i) {
      folder_.write(fmt::format("{}.png", i), one_colour(colours[i][0], colours[i][1], colours[i][2]));
      manifest +=
          fmt::format(R"({{"image": "{}.png", "captions": ["{}"]}})", i, std::string(4, "rgb"[i])) + "\n";
    }
    folder_.write("set.jsonl", manifest);
    folder_.write("other.jsonl", manifest);
    folder_.write("pairs.jsonl",
                  "{\"id\": \"a\", \"images\": [\"0.png\", \"1.png\"], \"captions\": [\"r\", \"g\"]}\n"
                  "{\"id\": \"b\", \"images\": [\"2.png\", \"1.png\"], \"captions\": [\"b\", \"g\"]}\n");
    options_.datasets = {path("set.jsonl")};
    options_.checkpoints = {"single"};
    options_.bootstrap.resamples = 0;
    options_.embed.warning = [this](const std::string& text) { warnings_.push_back(text); };
    source_.find = [](const std::string& given) -> Result<fs::path> { return fs::path(given); };
    source_.fingerprint = [this](const std::string& given) -> Result<std::string> {
      log_.push_back("fingerprint " + given);
      if (given == "none") return fail(ErrorCode::kNotFound, "checkpoint none: no such folder");
      return given.substr(0, given.find('/'));
    };
    source_.load = [this](const std::string& given, Precision precision) -> Result<LoadedEncoder> {
      log_.push_back("load " + given);
      EXPECT_EQ(alive_, 0) << "two checkpoints in memory";
      auto encoder = std::make_unique<Counted>(given.starts_with("late"), *this);
      encoder->without_tokenizer = given == "picture-only";
      encoder->set_precision(precision);
      if (before_encoding_) before_encoding_(given);
      LoadedEncoder loaded;
      loaded.id.name = given.substr(0, given.find('/'));
      loaded.id.path = "/models/" + given;
      loaded.id.fingerprint = encoder->info().fingerprint;
      loaded.encoder = std::move(encoder);
      return loaded;
    };
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Result<Evaluation> retrieval() {
    RetrievalStudy study({}, options_);
    return evaluate(study, options_, source_, pool_);
  }
  // Returns the error's message.
  std::string refusal() {
    const auto result = retrieval();
    EXPECT_FALSE(result);
    return result ? "" : result.error().message;
  }

  class Counted : public ColourEncoder {
   public:
    Counted(bool late, EvaluationTest& test) : ColourEncoder(late), test_(test) { ++test_.alive_; }
    ~Counted() override {
      --test_.alive_;
      test_.encoded_ += images;
      test_.encoded_texts_ += texts;
    }
    [[nodiscard]] const Tokenizer* tokenizer() const override {
      return without_tokenizer ? nullptr : ColourEncoder::tokenizer();
    }
    bool without_tokenizer = false;

   private:
    EvaluationTest& test_;
  };

  test::TestFolder folder_;
  EvaluationOptions options_;
  CheckpointSource source_;
  ThreadPool pool_{2};
  std::vector<std::string> log_;
  std::vector<std::string> warnings_;
  std::function<void(const std::string&)> before_encoding_;
  int alive_ = 0;
  int64_t encoded_ = 0;  // images
  int64_t encoded_texts_ = 0;
};

// Each precision is a model of its own, and their differences are measured in pairs.
TEST_F(EvaluationTest, PrecisionsAreComparedLikeCheckpoints) {
  options_.precisions = {Precision::kFp32, Precision::kInt8};
  options_.bootstrap.resamples = 100;
  options_.run = folder_ / "run";
  const auto result = retrieval();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(log_, testing::Contains("load single").Times(2));
  ASSERT_EQ(result->info.checkpoints.size(), 2U);
  EXPECT_EQ(result->info.checkpoints[0].name, "single-fp32");
  EXPECT_EQ(result->info.checkpoints[1].name, "single-int8");
  EXPECT_EQ(result->info.checkpoints[1].precision, "int8");
  ASSERT_EQ(result->metrics["comparisons"].size(), 1U);
  const Json& comparison = result->metrics["comparisons"][0];
  EXPECT_EQ(comparison["t2i"]["r1"]["difference"], 0);
  EXPECT_TRUE(comparison["t2i"]["r1"]["low"].is_number());
  // The run's folder holds the requested list of precisions. Another list is another run.
  options_.precisions = {Precision::kFp32, Precision::kBf16};
  EXPECT_THAT(refusal(), HasSubstr("precision of single: there int8, asked for bf16"));
}

// Images are red, green and blue. Letters that belong to an image score about 1 with each of its two rows, others 0.2.
TEST_F(EvaluationTest, LateInteractionSumsOverTheSideThatIsAskedFor) {
  folder_.write("late.jsonl",
                "{\"image\": \"0.png\", \"captions\": [\"r\"]}\n"
                "{\"image\": \"1.png\", \"captions\": [\"gggr\"]}\n"
                "{\"image\": \"2.png\", \"captions\": [\"bbbr\"]}\n");
  options_.datasets = {path("late.jsonl")};
  options_.checkpoints = {"late"};
  struct Expected {
    LateScoring scoring;
    double t2i;
    double i2t;
  };
  const std::vector<Expected> all = {
      {{}, 1, 2.0 / 3},                                // the red image has 1.6 with "gggr"
      {{.normalize = true}, 1, 1},                     // and 0.4 a vector
      {{.from = LateFrom::kImage}, 1.0 / 3, 2.0 / 3},  // "r" and "gggr" both have 2 with it
      {{.from = LateFrom::kImage, .normalize = true}, 1.0 / 3, 2.0 / 3}};  // every image has two vectors
  for (const Expected& expected : all) {
    RetrievalStudy study({.late = expected.scoring}, options_);
    const auto result = evaluate(study, options_, source_, pool_);
    ASSERT_TRUE(result) << result.error().message;
    const Json& figures = result->metrics["results"][1];
    EXPECT_EQ(figures["model"], "late");
    EXPECT_NEAR(figures["t2i"]["r1"]["value"].get<double>(), expected.t2i, 1e-12);
    EXPECT_NEAR(figures["i2t"]["r1"]["value"].get<double>(), expected.i2t, 1e-12);
    const Json& protocol = result->info.protocol;
    if (expected.scoring == LateScoring()) {
      EXPECT_FALSE(protocol.contains("late"));
      continue;
    }
    EXPECT_EQ(protocol["late"]["from"], enum_name(expected.scoring.from));
    EXPECT_EQ(protocol["late"]["normalize"], expected.scoring.normalize);
    EXPECT_THAT(protocol["description"].get<std::string>(),
                HasSubstr(expected.scoring.from == LateFrom::kImage ? "the sum over an image's vectors"
                                                                    : "the sum over a text's vectors"));
  }
  EXPECT_THAT(warnings_, testing::Not(testing::Contains(HasSubstr("--late-from"))));
  options_.checkpoints = {"single"};
  RetrievalStudy dense({.late = {.from = LateFrom::kImage}}, options_);
  ASSERT_TRUE(evaluate(dense, options_, source_, pool_));
  EXPECT_THAT(warnings_, testing::Contains(HasSubstr("single: one embedding an item: --late-from")));
}

TEST_F(EvaluationTest, EveryCheckpointIsLoadedOnceForAllDatasets) {
  options_.checkpoints = {"single", "late", "single/again", "chance"};
  options_.datasets = {path("set.jsonl"), path("other.jsonl"), path("set.jsonl")};
  options_.run = folder_ / "run";
  options_.version = "1.2";
  options_.command = {"saccade", "eval"};
  const auto result = retrieval();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(log_, ElementsAre("fingerprint single", "fingerprint late", "fingerprint single/again",
                                "fingerprint chance", "load single", "load late", "load single/again",
                                "load chance"));
  std::vector<std::string> names;
  for (const RunCheckpoint& checkpoint : result->info.checkpoints) names.push_back(checkpoint.name);
  EXPECT_THAT(names, ElementsAre("single", "late", "single-2", "chance-2"));
  names.clear();
  for (const RunDataset& dataset : result->info.datasets) names.push_back(dataset.name);
  EXPECT_THAT(names, ElementsAre("set", "other", "set-2"));
  EXPECT_EQ(result->info.datasets[0].images, 3);
  EXPECT_EQ(result->info.datasets[0].texts, 3);
  EXPECT_EQ(result->info.datasets[0].images_sha256, result->info.datasets[1].images_sha256);
  EXPECT_FALSE(result->some_unreadable);

  // The encoder embeds colours exactly, so everything is found. There are figures of every model on every
  // dataset, and of chance.
  const Json& results = result->metrics["results"];
  ASSERT_THAT(results, SizeIs(3 * 5));
  EXPECT_EQ(results[0]["model"], "chance");
  EXPECT_EQ(results[1]["model"], "single");
  EXPECT_EQ(results[1]["t2i"]["r1"]["value"], 1);
  EXPECT_EQ(results[6]["dataset"], "other");
  EXPECT_THAT(result->metrics["comparisons"], SizeIs(3 * 6));

  // The run has all of it.
  const auto run = read_run(options_.run);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run_json(run->info), run_json(result->info));
  EXPECT_EQ(run->metrics, result->metrics);
  EXPECT_EQ(run->info.saccade, "1.2");
  EXPECT_THAT(run->embeddings, SizeIs(3 * 4));
  EXPECT_EQ(read_run_items(*run)->at("other").images.size(), 3U);
  const Json json = evaluation_json(*result);
  EXPECT_EQ(json["results"], results);
  EXPECT_FALSE(json.contains("machine"));
  EXPECT_FALSE(json.contains("command"));
}

TEST_F(EvaluationTest, TheCacheServesTheNextEvaluation) {
  options_.embed.cache = folder_ / "cache";
  options_.datasets = {path("set.jsonl"), path("other.jsonl")};
  ASSERT_TRUE(retrieval());
  EXPECT_EQ(encoded_, 3);  // the other set has the same images
  ASSERT_TRUE(retrieval());
  EXPECT_EQ(encoded_, 3);
}

TEST_F(EvaluationTest, WhatCanBeKnownIsCheckedBeforeAFolderIsTakenOrAnythingLoaded) {
  options_.run = folder_ / "run";
  options_.datasets = {path("set.jsonl"), path("missing.jsonl")};
  EXPECT_THAT(refusal(), HasSubstr("missing.jsonl"));
  options_.datasets = {path("pairs.jsonl")};
  EXPECT_THAT(refusal(), HasSubstr("eval winoground"));
  options_.datasets = {path("set.jsonl")};
  options_.checkpoints = {"single", "none"};
  EXPECT_THAT(refusal(), HasSubstr("checkpoint none"));
  EXPECT_FALSE(fs::exists(options_.run));
  EXPECT_THAT(log_, ElementsAre("fingerprint single", "fingerprint none"));

  // Tests a folder with other files, and a run of other inputs.
  options_.checkpoints = {"single"};
  folder_.write("mine/items.jsonl", "a manifest");
  options_.run = folder_ / "mine";
  EXPECT_THAT(refusal(), HasSubstr("mine: not a run"));
  options_.run = folder_ / "run";
  ASSERT_TRUE(retrieval());
  log_.clear();
  options_.bootstrap.seed = 5;
  EXPECT_THAT(refusal(), HasSubstr("seed: there 0, asked for 5"));
  EXPECT_THAT(log_, ElementsAre("fingerprint single"));
  options_.overwrite = true;
  EXPECT_TRUE(retrieval());
}

// A run of other images is refused as soon as the images are known, and its files stay.
TEST_F(EvaluationTest, ChangedPicturesAreRefusedBeforeTextsAreEncoded) {
  options_.run = folder_ / "run";
  ASSERT_TRUE(retrieval());
  folder_.write("1.png", one_colour(1, 2, 3));
  encoded_texts_ = 0;
  EXPECT_THAT(refusal(), HasSubstr("images of dataset set have changed"));
  EXPECT_EQ(encoded_texts_, 0);
  EXPECT_TRUE(read_run(options_.run));

  // The images change between two checkpoints.
  options_.run.clear();
  options_.checkpoints = {"single", "late"};
  before_encoding_ = [&](const std::string& given) {
    if (given == "late") folder_.write("1.png", one_colour(3, 2, 1));
  };
  EXPECT_THAT(refusal(), HasSubstr("late: set: its images have changed while it was evaluated"));
  before_encoding_ = [&](const std::string& given) {
    if (given == "late") folder_.write("1.png", "no picture");
  };
  EXPECT_THAT(refusal(), HasSubstr("late: set: 1 of 3 images cannot be read"));
  folder_.write("1.png", one_colour(3, 2, 1));
  options_.leave_out = true;
  EXPECT_THAT(refusal(), HasSubstr("1 images cannot be read, with the checkpoint before 0"));
}

TEST_F(EvaluationTest, UnreadablePicturesAreAnErrorOrLeftOutAndCounted) {
  folder_.write("1.png", "no picture");
  const std::string message = refusal();
  EXPECT_THAT(message, HasSubstr("single: set: 1 of 3 images cannot be read, the first: "));
  EXPECT_THAT(message, HasSubstr("1.png"));
  EXPECT_THAT(message, HasSubstr("--leave-out"));
  options_.leave_out = true;
  const auto result = retrieval();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->some_unreadable);
  EXPECT_EQ(result->info.datasets[0].images, 2);
  ASSERT_THAT(result->info.datasets[0].excluded, SizeIs(2));
  EXPECT_EQ(result->info.datasets[0].excluded[0].count, 1);
  EXPECT_EQ(result->metrics["results"][1]["t2i"]["r1"]["value"], 1);
}

TEST_F(EvaluationTest, WarnsOnceOfWhatMakesFiguresWeak) {
  ASSERT_TRUE(retrieval());
  EXPECT_THAT(warnings_, IsEmpty());
  // Tests warnings: few images for intervals; an unusable cache, for three checkpoints and two datasets.
  options_.bootstrap.resamples = 10;
  options_.checkpoints = {"single", "single/2", "single/3"};
  options_.embed.cache = folder_.write("file", "x") / "below";
  ASSERT_TRUE(retrieval());
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("rows are not kept"),
                          "set: intervals rest on 3 images: from fewer than 20 they are too narrow "
                          "to be trusted"));
  // Tests texts that do not fit, and the remedy that the warning names.
  warnings_.clear();
  options_.embed.cache.clear();
  options_.checkpoints = {"single"};
  options_.bootstrap.resamples = 0;
  folder_.write("set.jsonl", R"({"image": "0.png", "captions": ["a text of more than fourteen letters"]})");
  ASSERT_TRUE(retrieval());
  EXPECT_THAT(warnings_,
              ElementsAre("single on set: 1 text cut, 22 tokens dropped: the model has no room for more; "
                          "`saccade eval length` measures what reading them in chunks gives"));
}

TEST_F(EvaluationTest, ACheckpointWithoutATokenizerIsRefused) {
  options_.checkpoints = {"picture-only"};
  EXPECT_THAT(refusal(), HasSubstr("/models/picture-only: no tokenizer files"));
}

TEST_F(EvaluationTest, StopsWhereItIsAskedTo) {
  std::stop_source stop;
  options_.embed.stop = stop.get_token();
  options_.embed.batch = 1;
  options_.run = folder_ / "run";
  options_.embed.progress = [&](const ProgressUpdate&) { stop.request_stop(); };
  const auto result = retrieval();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(read_run(options_.run).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(options_.run / "unfinished"));
}

TEST_F(EvaluationTest, CompositionsAreJudgedByThePicturesTheyName) {
  options_.datasets = {path("pairs.jsonl")};
  options_.run = folder_ / "run";
  {
    CompositionStudy study(options_);
    const auto result = evaluate(study, options_, source_, pool_);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->metrics["results"][1]["scores"]["group"]["value"], 1);
    EXPECT_EQ(result->info.datasets[0].compositions, 2);
    EXPECT_EQ(result->info.datasets[0].images, 3);
  }
  // Without the first item the second item's images have other numbers.
  folder_.write("0.png", "no picture");
  options_.leave_out = true;
  options_.overwrite = true;
  CompositionStudy study(options_);
  const auto result = evaluate(study, options_, source_, pool_);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->metrics["results"][1]["items"], 1);
  EXPECT_EQ(result->metrics["results"][1]["scores"]["group"]["value"], 1);
  EXPECT_EQ(read_run_items(*read_run(options_.run))->at("pairs").compositions.size(), 1U);
}

TEST_F(EvaluationTest, LengthsGoOnTheCardsOfTheirCheckpoints) {
  options_.bootstrap.resamples = 20;
  LengthStudyOptions lengths;
  lengths.domains = {"colours"};
  lengths.length.subsets = 0;
  LengthStudy study(lengths, options_);
  const auto result = evaluate(study, options_, source_, pool_);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->info.kind, "length");
  const Json& curve = result->metrics["results"][0];
  EXPECT_EQ(curve["domain"], "colours");
  EXPECT_EQ(curve["t2i"]["effective"]["value"], 2);  // the start token and one letter are enough
  EXPECT_EQ(result->info.protocol["transparent"], "white");
}

// The upper half of image 0 is red, its lower half green; image 1 is red. By MaxSim "r" scores 1 with both, and image 1 scores
// 1.2 with "rg". By mean vectors each text is nearest to its own image.
TEST_F(EvaluationTest, LengthsCompareMeanVectorsIfAsked) {
  folder_.write("0.png", two_colours({255, 0, 0}, {0, 255, 0}));
  folder_.write("1.png", one_colour(255, 0, 0));
  folder_.write("halves.jsonl",
                "{\"image\": \"0.png\", \"captions\": [\"rg\"]}\n"
                "{\"image\": \"1.png\", \"captions\": [\"r\"]}\n");
  options_.datasets = {path("halves.jsonl")};
  options_.checkpoints = {"late"};
  options_.bootstrap.resamples = 20;
  for (const bool late_mean : {false, true}) {
    LengthStudyOptions lengths;
    lengths.late_mean = late_mean;
    lengths.length.controls = false;
    lengths.length.subsets = 0;
    LengthStudy study(lengths, options_);
    const auto result = evaluate(study, options_, source_, pool_);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->info.protocol.contains("late_mean"), late_mean);
    const Json& curves = result->metrics["results"][0];
    for (const char* direction : {"t2i", "i2t"}) {
      const Json& curve = curves[direction]["curve"];
      ASSERT_FALSE(curve.empty());
      EXPECT_EQ(curve.back()["r1"]["value"], late_mean ? 1.0 : 0.5) << direction;
    }
  }
}

TEST_F(EvaluationTest, TokensAreCountedForTokenizersWithAndWithoutAModel) {
  options_.checkpoints = {path("model")};
  folder_.write("model/config.json", "{}");
  const auto result = measure_token_lengths({}, options_, source_, 0, pool_);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->front().context, 16);
  EXPECT_EQ(result->front().token_lengths.lengths.max, 4);
  EXPECT_EQ(result->front().token_lengths.limit, 14);
  const auto narrow = measure_token_lengths({}, options_, source_, 5, pool_);
  EXPECT_EQ(narrow->front().token_lengths.beyond, 3);
}

TEST_F(EvaluationTest, FilesStandForCheckpoints) {
  const std::vector<float> scores = {1, 2, 3, 3, 1, 1, 0, 0, 9};
  const std::vector<int64_t> text_image = {0, 0, 2};
  const std::vector<NamedTensor> tensors = {
      {"scores", {DType::kF32, {3, 3}, std::as_bytes(std::span(scores))}},
      {"text_image", {DType::kI64, {3}, std::as_bytes(std::span(text_image))}}};
  for (const char* name : {"a/s.safetensors", "b/s.safetensors"}) {
    folder_.write(name, "");
    ASSERT_TRUE(write_safetensors(folder_ / name, tensors));
  }
  const GivenRetrieval given{.files = {folder_ / "a/s.safetensors", folder_ / "b/s.safetensors"},
                             .rows = false};
  options_.datasets.clear();
  options_.leave_out = true;
  const auto result = evaluate_given_retrieval(given, {}, options_, pool_);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->info.checkpoints[1].name, "s-2");
  EXPECT_EQ(result->info.protocol["rank_by"], "scores");
  EXPECT_FALSE(result->info.protocol.contains("transparent"));
  EXPECT_EQ(result->info.datasets[0].name, "s");
  EXPECT_FALSE(result->some_unreadable);
  EXPECT_THAT(log_, IsEmpty());
  // The files belong to another dataset.
  options_.datasets = {path("set.jsonl")};
  const auto other = evaluate_given_retrieval(given, {}, options_, pool_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kMismatch);
  options_.datasets.push_back(path("other.jsonl"));
  EXPECT_EQ(evaluate_given_retrieval(given, {}, options_, pool_).error().code, ErrorCode::kUsage);
  options_.datasets.clear();
  EXPECT_THAT(evaluate_given_retrieval(given, {.ties = TiePolicy::kTrec}, options_, pool_).error().message,
              HasSubstr("--ties trec"));
}

}  // namespace
}  // namespace saccade::lab
