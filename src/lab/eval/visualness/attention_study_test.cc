#include "lab/eval/visualness/attention_study.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

// A classifier that attends to all tokens alike, or to those of "x" alone.
class PlainClassifier : public ColourEncoder, public TextClassifier {
 public:
  explicit PlainClassifier(bool to_x = false) : to_x_(to_x) { mutable_info().context = 200; }
  EncoderCapabilities capabilities() override { return {.text_classifier = this}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  Result<Matrix<float>> classify_texts(std::span<const TokenizedText>) override { return Matrix<float>(); }
  Result<AttentionMaps> attention_maps(const TokenizedText& text) override {
    const int64_t n = std::ssize(text.ids);
    AttentionMaps maps{.layers = 1, .heads = 1, .tokens = n, .weights = {}};
    maps.weights.resize(static_cast<size_t>(n * n));
    for (int64_t t = 0; t < n; ++t) {
      const bool is_x = text.ids[static_cast<size_t>(t)] == 'x' + 3;
      maps.weights[static_cast<size_t>(t)] = !to_x_ || is_x ? 1.0F / static_cast<float>(n) : 0.0F;
    }
    return maps;
  }

 private:
  bool to_x_;
  std::vector<std::string> labels_ = {"a", "b"};
};

TEST(AttentionStudy, CorrelatesByLexiconModelAndLength) {
  // The tokenizer's tokens are bytes, so words stand between commas. Every word occurs twice.
  const std::vector<std::string> texts = {"r,gg", "r,gg", "b,rgb", "b,rgb", "rr,bbb,xx,xx", "rr,bbb"};
  std::vector<NamedLexicon> lexicons(2);
  lexicons[0].name = "mrc";
  lexicons[0].lexicon.words = {{"r", 0.1}, {"gg", 0.9}, {"b", 0.3}, {"rgb", 0.7}, {"rr", 0.5}};
  lexicons[1].name = "mrc + w2v";
  lexicons[1].lexicon.words = lexicons[0].lexicon.words;
  lexicons[1].lexicon.words["bbb"] = 0.2;
  ObjectList objects;
  objects.names = {{"gg"}, {"rr"}};
  objects.longest = 1;
  PlainClassifier even;
  PlainClassifier pointed(true);
  AttentionStudy study;
  const auto measure = [&](const std::string& model, EncoderBackend& encoder) {
    const auto reads = open_text_attention(encoder, "", 1);
    ASSERT_TRUE(reads) << reads.error().message;
    ASSERT_NE(*reads, nullptr);
    const Status status = study.measure("captions", texts, model, encoder, **reads, lexicons, &objects, 0.95);
    ASSERT_TRUE(status) << status.error().message;
  };
  measure("even", even);
  measure("pointed", pointed);
  VisualnessMetrics metrics;
  study.add_to(metrics, 0.95);

  ASSERT_EQ(metrics.attention.size(), 16U);  // models x lexicons x (all, short, medium, long)
  const AttentionCorrelation& first = metrics.attention.front();
  EXPECT_EQ(first.dataset, "captions");
  EXPECT_EQ(first.model, "even");
  EXPECT_EQ(first.lexicon, "mrc");
  EXPECT_EQ(first.length, "all");
  // A word's share is its share of the text's bytes. The commas count.
  const double rr = (2.0 / 12 + 2.0 / 6) / 2;
  const double bbb = (3.0 / 12 + 3.0 / 6) / 2;
  EXPECT_EQ(first.ratings.words, 5);
  EXPECT_EQ(first.ratings.texts, 6);
  EXPECT_NEAR(first.ratings.r,
              pearson(std::vector{0.2, 0.5, 0.25, 0.6, rr}, std::vector{0.3, 0.9, 0.1, 0.7, 0.5}, 0.95).r,
              1e-5);
  EXPECT_EQ(metrics.attention[1].length, "short");
  EXPECT_NEAR(metrics.attention[1].ratings.r, first.ratings.r, 1e-9);
  EXPECT_EQ(metrics.attention[3].length, "long");
  EXPECT_EQ(metrics.attention[3].ratings.texts, 0);
  EXPECT_TRUE(std::isnan(metrics.attention[3].ratings.r));
  const AttentionRatings* expanded = study.find("captions", "even", "mrc + w2v");
  ASSERT_NE(expanded, nullptr);
  EXPECT_NEAR(
      expanded->r,
      pearson(std::vector{0.2, 0.5, 0.25, 0.6, rr, bbb}, std::vector{0.3, 0.9, 0.1, 0.7, 0.5, 0.2}, 0.95).r,
      1e-5);
  EXPECT_EQ(study.find("captions", "other", "mrc"), nullptr);

  // The second model attends to "xx" alone, so no other text has shares.
  ASSERT_EQ(metrics.attention_between.size(), 1U);
  EXPECT_EQ(metrics.attention_between[0].a, "even");
  EXPECT_EQ(metrics.attention_between[0].b, "pointed");
  EXPECT_EQ(metrics.attention_between[0].words, 1);  // "xx" occurs twice in the one text
  ASSERT_EQ(metrics.attention_texts.size(), 1U);
  const AttentionTextFacts& facts = metrics.attention_texts[0];
  EXPECT_EQ(facts.texts, 6);
  EXPECT_NEAR(facts.words, 14.0 / 6, 1e-12);
  EXPECT_NEAR(facts.objects, 4.0 / 6, 1e-12);
  EXPECT_NEAR(facts.object_share, 4.0 / 14, 1e-12);
  ASSERT_EQ(facts.attention_to_objects.size(), 2U);
  EXPECT_EQ(facts.attention_to_objects[0].first, "even");
  EXPECT_NEAR(facts.attention_to_objects[0].second, (0.5 + 0.5 + 0 + 0 + 2.0 / 12 + 2.0 / 6) / 6, 1e-5);
  EXPECT_NEAR(facts.attention_to_objects[1].second, 0, 1e-9);
}

TEST(AttentionTexts, AreCaptionsRatedTextsOrLines) {
  const test::TestFolder folder;
  const auto lines = read_attention_texts(folder.write("plain.txt", "A dog runs.\r\n\n A cat.\n").string());
  ASSERT_TRUE(lines) << lines.error().message;
  EXPECT_EQ(lines->name, "plain");
  EXPECT_EQ(lines->sha256.size(), 64U);
  EXPECT_EQ(lines->texts, (std::vector<std::string>{"A dog runs.", " A cat."}));
  const auto captions = read_attention_texts(
      folder.write("c.jsonl", "{\"image\": \"0.png\", \"captions\": [\"a dog\", \"a cat\"]}\n").string());
  ASSERT_TRUE(captions) << captions.error().message;
  EXPECT_EQ(captions->texts, (std::vector<std::string>{"a dog", "a cat"}));
  const auto rated =
      read_attention_texts(folder.write("r.jsonl", "{\"text\": \"a way\", \"visual\": null}\n").string());
  ASSERT_TRUE(rated) << rated.error().message;
  EXPECT_EQ(rated->name, "r");
  EXPECT_EQ(rated->texts, std::vector<std::string>{"a way"});

  EXPECT_EQ(read_attention_texts((folder / "missing.txt").string()).error().code, ErrorCode::kNotFound);
  const auto empty = read_attention_texts(folder.write("blank.txt", "\n \n").string());
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("no texts in it"));
}

}  // namespace
}  // namespace saccade::lab
