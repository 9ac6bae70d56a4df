// Tests of a ColPali from its folder to an answer: every image's rows are stored, scored, and explained by
// patch.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kWords = 563;  // of the small Gemma tokenizer
constexpr int64_t kWidth = 40;
constexpr int64_t kRows = 16 + 15;  // patches, and the tokens of "<bos>Describe the image.\n"

class ColPali : public ProgramTest {
 protected:
  // Adds a tokenizer to the golden, and a table with all of its words.
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(golden("colpali"), folder_ / "colpali");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy_file(golden("tokenizers/gemma") / name, folder_ / "colpali" / name);
    }
    Json config = read_json(folder_ / "colpali/config.json").value();
    config["vlm_config"]["text_config"]["vocab_size"] = kWords;
    config["vlm_config"]["image_token_index"] = 560;
    write("colpali/config.json", dump_json(config));
    const SafeTensors file = SafeTensors::open(folder_ / "colpali/model.safetensors").value();
    const std::string table = "vlm.language_model.model.embed_tokens.weight";
    std::vector<float> words = file.find(table)->to_floats().value();
    for (int64_t i = static_cast<int64_t>(words.size()); i < kWords * kWidth; ++i) {
      words.push_back(0.02F * static_cast<float>(std::sin(static_cast<double>(i) * 12.9898)));
    }
    std::vector<NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors()) tensors.push_back({name, view});
    for (NamedTensor& tensor : tensors) {
      if (tensor.name == table)
        tensor.tensor = {DType::kF32, {kWords, kWidth}, std::as_bytes(std::span(words))};
    }
    ASSERT_TRUE(write_safetensors(folder_ / "enlarged", tensors));
    fs::rename(folder_ / "enlarged", folder_ / "colpali/model.safetensors");
  }
  [[nodiscard]] Json answer(std::vector<std::string> more) const {
    std::vector<std::string> words = {"search", "-c", "c", "--json", "--no-group-duplicates"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_json(outcome.out).value_or(Json());
  }
};

TEST_F(ColPali, FromPicturesToMatchingPatches) {
  picture("pictures/red.png", 200, 0, 0);
  picture("pictures/green.png", 0, 200, 0);
  picture("pictures/blue.png", 0, 0, 200);
  for (int i = 0; i < 5; ++i) picture("pictures/grey" + std::to_string(i) + ".png", 40 * i, 40 * i, 40 * i);
  const Outcome indexed = run({"index", "pictures", "-c", "c", "-m", "colpali"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  const Json info = parse_json(run({"collection", "info", "-c", "c", "--json"}).out).value_or(Json());
  EXPECT_EQ(info["late_rows"], 8 * kRows);
  EXPECT_EQ(info["settings"]["late"]["grid_rows"], 4);
  EXPECT_EQ(info["settings"]["late"]["grid_columns"], 4);

  // All images are scored by all their rows, with each query token's best match: "<bos>Question: a cat", the
  // paddings, "\n".
  const Json all = answer({"--explain", "a", "cat"});
  EXPECT_EQ(all["tokens"]["dropped"], 0);
  EXPECT_EQ(all["late"], (Json{{"scored", 8}, {"exact", true}}));
  ASSERT_EQ(all["hits"].size(), 8U);
  for (const Json& hit : all["hits"]) {
    ASSERT_EQ(hit["matches"].size(), all["hits"][0]["matches"].size());
    double sum = 0;
    int paddings = 0;
    for (const Json& match : hit["matches"]) {
      sum += match["dot"].get<double>();
      if (match["id"] == 0) ++paddings;
      if (match["patch"].is_null()) continue;
      EXPECT_LT(match["patch"]["row"], 4);
      EXPECT_LT(match["patch"]["column"], 4);
      EXPECT_NEAR(match["box"]["width"].get<double>(), 0.25, 1e-6);
    }
    // Also shows each word's contribution, with a relevance map from the patches' own rows.
    ASSERT_EQ(hit["explanations"].size(), 1U);
    const Json& explanation = hit["explanations"][0];
    EXPECT_EQ(explanation["score_by"], "maxsim");
    EXPECT_NEAR(explanation["score"].get<double>(), hit["score"].get<double>(), 1e-2);
    EXPECT_EQ(explanation["method"], "similarity");
    ASSERT_EQ(explanation["words"].size(), 2U);
    EXPECT_EQ(explanation["words"][1]["word"], "cat");
    EXPECT_EQ(explanation["map"]["rows"], 4);
    EXPECT_EQ(explanation["map"]["values"].size(), 16U);
    EXPECT_EQ(paddings, 10);  // they are rows of the query, as the reference has it
    EXPECT_NEAR(hit["score"].get<double>(), sum, 1e-3);
  }

  expect_failure({"search", "-c", "c", "a", "cat", "--explain", "--explain-by", "chefer"}, 1,
                 {"explain", "colpali", "chefer"});

  // A few candidates by the rows' mean are scored in full as before. (More than one, to show that no copy of
  // the best is left.)
  const Json one = answer({"--candidates", "1", "-k", "1", "a", "cat"});
  EXPECT_EQ(one["late"]["exact"], false);
  EXPECT_LT(one["late"]["scored"], 8);
  double before = 0;
  for (const Json& hit : all["hits"]) {
    if (hit["path"] == one["hits"][0]["path"]) before = hit["score"].get<double>();
  }
  EXPECT_NEAR(one["hits"][0]["score"].get<double>(), before, 1e-5);

  // An image finds itself: the nearest row of each row is itself.
  const Json same = answer({"--image", "pictures/green.png"});
  EXPECT_THAT(same["hits"][0]["path"].get<std::string>(), HasSubstr("green.png"));
  EXPECT_NEAR(same["hits"][0]["score"].get<double>(), static_cast<double>(kRows), 0.05);

  // An evaluation ranks by the same scores (the collection's rows are rounded to fp16), also from its cache.
  std::string manifest;
  for (const Json& hit : all["hits"]) {
    manifest += dump_json({{"image", hit["path"]}, {"captions", {"a cat"}}}) + "\n";
  }
  write("set.jsonl", manifest);
  std::string first;
  for (int time = 0; time < 2; ++time) {
    const Outcome evaluated =
        run({"-q", "eval", "retrieval", "-m", "colpali", "--dataset", "set.jsonl", "-o", "run"});
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    const std::string ranks = read_file(folder_ / "run/ranks.jsonl").value_or("");
    const Json query = parse_json(ranks.substr(0, ranks.find('\n'))).value_or(Json());
    ASSERT_EQ(query["top"].size(), 5U);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(query["top"][i]["score"].get<double>(), all["hits"][i]["score"].get<double>(), 2e-2);
    }
    if (time == 0) first = ranks;
    EXPECT_EQ(ranks, first);
  }
  const auto rows = SafeTensors::open(folder_ / "run/embeddings/set--colpali.safetensors");
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->metadata().at("rows"), "mean");
  EXPECT_EQ(rows->find("image_embeds")->shape[0], 8);
}

}  // namespace
}  // namespace saccade::test
