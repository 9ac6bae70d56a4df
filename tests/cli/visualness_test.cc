// Tests of `saccade train visualness`, `eval visualness` and `visualness`: from rated texts to a checkpoint
// that classifies them, and invalid input.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

#include "small_training.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Visualness : public TrainingTest {
 protected:
  void SetUp() override {
    TrainingTest::SetUp();
    const Outcome base = run(training("base", {"--steps", "0"}));
    ASSERT_EQ(base.code, 0) << base.err;
    std::string train;
    std::string held_out;
    for (const char* colour : {"red", "green", "blue", "white"}) {
      for (int i = 0; i < 2; ++i) {
        std::string& to = i == 0 ? train : held_out;
        to += fmt::format("{{\"text\": \"a {} card{}\", \"visual\": true, \"image\": \"{}{}.png\"}}\n",
                          colour, i == 0 ? "" : " here", colour, i);
        to += fmt::format("{{\"text\": \"no {} {}\", \"visual\": false}}\n", i == 0 ? "use" : "way", colour);
      }
    }
    write("data/train.jsonl", train);
    write("data/validation.jsonl", held_out);
    write("data/test.jsonl", held_out + "{\"text\": \"no red card\", \"visual\": null}\n");
  }
  static std::vector<std::string> learn(const std::string& folder,
                                        const std::vector<std::string>& extra = {}) {
    std::vector<std::string> words = {"train",
                                      "visualness",
                                      "-m",
                                      "base/model",
                                      "--automatic",
                                      "data/train.jsonl",
                                      "--human",
                                      "data/train.jsonl",
                                      "--validation",
                                      "data/validation.jsonl",
                                      "-o",
                                      folder,
                                      "--batch-size",
                                      "8",
                                      "--learning-rate",
                                      "0.003",
                                      "--precision",
                                      "fp32",
                                      "--threads",
                                      "1",
                                      "--json"};
    words.insert(words.end(), extra.begin(), extra.end());
    return words;
  }
  static Json parsed(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    auto json = parse_json(outcome.out);
    EXPECT_TRUE(json.has_value()) << outcome.out;
    return json.value_or(Json());
  }
};

TEST_F(Visualness, WhatIsTrainedIndexesSearchesMeasuresAndScores) {
  const Json trained = parsed(run(learn("run", {"--automatic-epochs", "60", "--human-epochs", "20"})));
  EXPECT_EQ(trained["finished"], true);
  ASSERT_EQ(trained["stages"].size(), 2U);
  EXPECT_EQ(trained["stages"][1]["name"], "human");
  EXPECT_GT(trained["stages"][1]["validation"]["f1"], 0.7);

  const Outcome indexed = run({"index", "data", "-c", "c", "-m", "run/model"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  const Outcome found =
      run({"search", "-c", "c", "--no-group-duplicates", "-k", "3", "a", "red", "card", "--json"});
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(parse_json(found.out).value()["hits"].size(), 3U);

  const Json scored = parsed(run({"visualness", "-m", "run/model", "a red card", "no use red", "--json"}));
  ASSERT_EQ(scored["texts"].size(), 2U);
  EXPECT_GT(scored["texts"][0]["score"], scored["texts"][1]["score"]);
  EXPECT_EQ(scored["texts"][0]["visual"], true);
  EXPECT_EQ(scored["texts"][1]["visual"], false);
  write("lines.txt", "a red card\r\nno use red\n");
  const Json lines = parsed(run({"visualness", "-m", "run/model", "--texts", "lines.txt", "--json"}));
  EXPECT_EQ(lines["texts"], scored["texts"]);
  const Outcome shown = run({"visualness", "-m", "run/model", "a red card"});
  EXPECT_THAT(shown.out, HasSubstr("  visual  a red card\n"));

  write("lexicon.txt", "Word\tBigram\tConc.M\ncard\t0\t4.9\nred\t0\t4\nway\t0\t2\n");
  write("objects.txt", "card\n");
  const Json measured =
      parsed(run({"eval", "visualness", "--dataset", "data/test.jsonl", "--validation", "data/train.jsonl",
                  "-m", "base/model", "run/model", "--lexicon", "lexicon.txt", "--objects", "objects.txt",
                  "--resamples", "20", "-o", "measured", "--json"}));
  std::map<std::string, Json> by_model;
  for (const Json& result : measured["results"]) by_model[result["model"]] = result;
  ASSERT_EQ(by_model.size(), 5U) << dump_json(measured["results"], 1);
  for (const auto& [name, result] : by_model) {
    for (const char* figure : {"f1", "precision", "recall", "accuracy"}) {
      EXPECT_TRUE(result[figure]["value"].is_number()) << name << " " << figure;
      EXPECT_TRUE(result[figure]["low"].is_number()) << name << " " << figure;
      EXPECT_TRUE(result[figure]["high"].is_number()) << name << " " << figure;
    }
  }
  EXPECT_EQ(by_model["objects named (objects)"]["f1"]["value"], 1);
  EXPECT_EQ(by_model["base"]["method"], "null image");
  EXPECT_EQ(by_model["run"]["method"], "trained");
  EXPECT_EQ(by_model["run"]["mrr"]["images"], 4);

  const Outcome kept =
      run({"eval", "visualness", "--dataset", "data/test.jsonl", "-m", "run/model", "--resamples", "0"});
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("protocol: A text is called visual where its score is above a threshold."));
  EXPECT_THAT(kept.out, HasSubstr("left out: ambiguous texts: 1"));

  const Outcome page = run({"report", "measured", "run/automatic", "-o", "page.html", "--no-charts"});
  ASSERT_EQ(page.code, 0) << page.err;
  const std::string html = read_file(folder_ / "page.html").value();
  for (const char* part : {"<h2>Visualness</h2>", "objects named (objects)", "NULL image", "MRR"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

// Fine-tunes BERT in two stages from random weights. The result is evaluated beside the others, and scores
// texts.
TEST_F(Visualness, AClassifierIsTrainedMeasuredAndScores) {
  write("words/vocab.txt",
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nno\nuse\nway\nhere\ncard\nred\ngreen\nblue\nwhite\n");
  write(
      "bert.json",
      R"({"model": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "max_position_embeddings": 12}, "tokenizer": "words"})");
  std::vector<std::string> command =
      learn("classifier", {"--automatic-epochs", "60", "--human-epochs", "20"});
  command.erase(std::ranges::find(command, "-m"), std::ranges::find(command, "--automatic"));
  command.insert(command.end(), {"--config", "bert.json"});
  const Json trained = parsed(run(command));
  ASSERT_EQ(trained["stages"].size(), 2U);
  EXPECT_GT(trained["stages"][1]["validation"]["f1"], 0.7);
  EXPECT_TRUE(trained["stages"][1]["validation"]["mrr"].is_null());

  const Json scored =
      parsed(run({"visualness", "-m", "classifier/model", "a red card", "no use red", "--json"}));
  EXPECT_EQ(scored["threshold"], 0.5);
  EXPECT_EQ(scored["texts"][0]["visual"], true);
  EXPECT_EQ(scored["texts"][1]["visual"], false);
  expect_failure({"visualness", "-m", "classifier/model", "--null", "random", "a card"}, 2,
                 {"no NULL image"});

  write("lexicon.txt", "Word\tBigram\tConc.M\ncard\t0\t4.9\nred\t0\t4\nway\t0\t2\na\t0\t1.5\nno\t0\t1.7\n");
  write("captions.txt", "a red card\nno green way\na blue card here\nno white use\nno way\n");
  write("people.csv", "text,anna,ben\ncard,7,7\nred,6,5\nway,2,3\nno,1,1\nelse,4,4\n");
  write("data/unclear.jsonl", read_file(folder_ / "data/test.jsonl").value() +
                                  "{\"text\": \"a way here\", \"visual\": null}\n"
                                  "{\"text\": \"red use\", \"visual\": null}\n");
  const Json measured = parsed(run({"eval",
                                    "visualness",
                                    "--dataset",
                                    "data/unclear.jsonl",
                                    "--validation",
                                    "data/train.jsonl",
                                    "-m",
                                    "base/model",
                                    "classifier/model",
                                    "--lexicon",
                                    "lexicon.txt",
                                    "--attention-texts",
                                    "captions.txt",
                                    "data/cards.jsonl",
                                    "--word-ratings",
                                    "people.csv",
                                    "--prior",
                                    "data/train.jsonl",
                                    "--own-decision",
                                    "--resamples",
                                    "20",
                                    "-o",
                                    "measured",
                                    "--json"}));
  std::set<std::string> texts;
  for (const Json& facts : measured["attention_texts"]) texts.insert(facts["dataset"]);
  EXPECT_EQ(texts, (std::set<std::string>{"unclear", "captions", "cards"}));
  EXPECT_EQ(measured["attention"].size(), 3U * 2 * 4);
  EXPECT_EQ(measured["attention_between"].size(), 3U);
  ASSERT_EQ(measured["word_ratings"].size(), 1U);
  EXPECT_EQ(measured["word_ratings"][0]["words"], 4);
  EXPECT_GT(measured["word_ratings"][0]["r"], 0.9);
  for (const Json& result : measured["results"]) {
    EXPECT_EQ(result["parts"].size(), 3U);
    if (result["method"] == "prior") {
      EXPECT_EQ(result["details"]["from"]["name"], "train");
    }
    if (result["method"] == "classifier") {
      EXPECT_EQ(result["threshold_from"], "checkpoint");
    }
  }
  int64_t models = 0;
  for (const Json& result : measured["results"]) {
    if (result["method"] != "classifier" && result["method"] != "null image") continue;
    ++models;
    EXPECT_TRUE(result["f1"]["value"].is_number());
    // Attention of each model: over words that occur twice and are rated.
    EXPECT_GE(result["attention"]["words"], 4) << dump_json(result, 1);
    EXPECT_EQ(result["attention"]["texts"], 11);
    EXPECT_EQ(result["ambiguous"]["texts"], 3);
    EXPECT_EQ(result["attention"]["unaligned"], 0);
  }
  EXPECT_EQ(models, 2);
  const Outcome page = run({"report", "measured", "-o", "page.html", "--no-charts"});
  ASSERT_EQ(page.code, 0) << page.err;
  const std::string html = read_file(folder_ / "page.html").value();
  for (const char* part : {"unclear: attention to words", "unclear: where the scores of ambiguous texts lie",
                           "t-SNE: unclear", "NULL image", "captions: attention to words of two models",
                           "unclear: F1 by the length", "Ratings of words in lexicons"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  expect_failure(learn("no", {"--config", "bert.json"}), 2, {"--config"});
  *std::ranges::find(command, "classifier") = "other";
  command.insert(command.end(), {"--loss", "multi-positive"});
  expect_failure(command, 2, {"a loss is for CLIP"});
}

TEST_F(Visualness, LearningRatesAreTriedInOneRun) {
  std::vector<std::string> words =
      learn("grid", {"--learning-rates", "0.001,0.003", "--automatic-epochs", "2", "--human-epochs", "1"});
  expect_failure(words, 2, {"--learning-rates"});  // beside one learning rate
  const auto one = std::ranges::find(words, "--learning-rate");
  words.erase(one, one + 2);
  const Json tried = parsed(run(words));
  EXPECT_EQ(tried["finished"], true);
  ASSERT_EQ(tried["grid"].size(), 2U);
  EXPECT_EQ(tried["grid"][0]["learning_rate"], 0.001);
  const double a = tried["grid"][0]["stages"][1]["validation"]["f1"];
  const double b = tried["grid"][1]["stages"][1]["validation"]["f1"];
  EXPECT_EQ(tried["learning_rate"], b > a ? 0.003 : 0.001);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "grid/rate-0.003/model/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "grid/model/saccade.json"));
  std::erase(words, "--json");
  const Outcome shown = run(words);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("the best F1 is that of learning rate 0.00"));
}

TEST_F(Visualness, WhatTheyRefuse) {
  write("data/one.jsonl", "{\"text\": \"a red card\", \"visual\": true, \"image\": \"red0.png\"}\n");
  std::vector<std::string> one_class = learn("no");
  *std::ranges::find(one_class, "data/validation.jsonl") = "data/one.jsonl";
  expect_failure(one_class, 2, {"the validation texts are 1 visual and 0 non-visual"});
  expect_failure(learn("no", {"--null", "data/red0.png"}), 2,
                 {"NULL image is one of the texts' own images", "red0.png"});
  expect_failure(learn("no", {"--null", "data/gone.png"}), 1, {"gone.png"});
  expect_failure(learn("no", {"--null", "random:x"}), 2, {"no seed"});
  expect_failure(learn("no", {"--adam-beta1", "1"}), 2, {"--adam-beta1", "a number from 0 to below 1"});
  expect_failure(learn("no", {"--human", "data/cards.jsonl"}), 2, {"not rated texts"});
  write("data/broken.jsonl", "{\"text\": \"a\", \"visual\": 1}\n");
  expect_failure(learn("no", {"--automatic", "data/broken.jsonl"}), 1,
                 {"broken.jsonl: line 1: \"visual\" is a number"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));
  expect_failure({"visualness", "-m", "base/model", "a card"}, 2,
                 {"not trained to tell what a text pictures"});
  expect_failure({"visualness", "-m", "base/model"}, 2, {"no texts"});
  const Outcome plain = run({"visualness", "-m", "base/model", "--null", "random", "a card"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, Not(HasSubstr("visual")));
  expect_failure({"eval", "visualness", "--dataset", "data/test.jsonl", "--validation", "data/train.jsonl",
                  "-m", "base/model", "--prior", "data/one.jsonl"},
                 2, {"1 visual and 0 non-visual"});
  expect_failure({"eval", "visualness", "--dataset", "data/test.jsonl", "--validation", "data/train.jsonl",
                  "-m", "base/model", "--attention-texts", "gone.txt"},
                 1, {"gone.txt"});
  expect_failure({"eval", "visualness", "--dataset", "data/test.jsonl", "--validation", "data/train.jsonl",
                  "-m", "base/model", "--word-ratings", "data/one.jsonl"},
                 2, {"without a lexicon to compare"});
  write("bad.txt", "term\tscore\ncard\t3\n");
  expect_failure({"eval", "visualness", "--dataset", "data/test.jsonl", "--validation", "data/train.jsonl",
                  "-m", "base/model", "--lexicon", "bad.txt"},
                 1, {"a lexicon of another format", "term"});
  expect_failure({"eval", "visualness", "--dataset", "data/test.jsonl", "-m", "base/model"}, 2,
                 {"no threshold"});
  expect_failure({"eval", "visualness", "--dataset", "data/one.jsonl", "-m", "base/model"}, 2,
                 {"it takes both"});
  expect_failure({"eval", "retrieval", "--dataset", "data/test.jsonl"}, 2,
                 {"rated texts", "eval visualness"});
}

TEST_F(Visualness, DatasetsOfRatedTextsAreLookedAt) {
  const Json info = parsed(run({"dataset", "info", "data/test.jsonl", "--json"}));
  EXPECT_EQ(info["rated_texts"]["visual"], 4);
  EXPECT_EQ(info["rated_texts"]["non_visual"], 4);
  EXPECT_EQ(info["rated_texts"]["ambiguous"], 1);
  EXPECT_EQ(info["rated_texts"]["with_image"], 4);
  const Outcome shown = run({"dataset", "info", "data/test.jsonl"});
  EXPECT_THAT(shown.out, HasSubstr("9 rated texts: 4 visual, 4 non-visual, 1 ambiguous; 4 with an image"));
  const Outcome converted = run({"dataset", "convert", "data/test.jsonl", "-o", "copy.jsonl"});
  EXPECT_EQ(converted.code, 0) << converted.err;
  EXPECT_EQ(parsed(run({"dataset", "info", "copy.jsonl", "--json"}))["sha256"], info["sha256"]);
  write("data/both.jsonl", "{\"text\": \"a\", \"visual\": true}\n{\"text\": \"A.\", \"visual\": false}\n");
  EXPECT_EQ(
      parsed(run({"dataset", "audit", "data/both.jsonl", "--json"}))["captions"]["contradicting_labels"], 1);
}

}  // namespace
}  // namespace saccade::test
