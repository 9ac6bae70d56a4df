#include "lab/eval/visualness/word_attention.h"

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "saccade/model/test_encoder.h"

namespace saccade::lab {
namespace {

// A tokenizer with one token per letter, without spaces. "x" joins the following text into one token, across
// word boundaries.
class LetterTokenizer : public ByteTokenizer {
 public:
  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    TokenizedText result;
    result.first = 1;
    result.ids.push_back(1);
    bool swallowing = false;
    for (const char c : text) {
      if (swallowing) continue;
      swallowing = c == 'x' && text.size() > 1;
      if (c == ' ') continue;
      if (std::ssize(result.ids) + 1 < max_tokens) {
        result.ids.push_back(swallowing ? 259 : static_cast<unsigned char>(c) + 3);
        ++result.used;
      } else {
        ++result.dropped;
      }
    }
    result.ids.push_back(2);
    return result;
  }
};

// Two layers of two heads. In the last one the first token attends to token t with weights (t + 1) and 3 (t +
// 1) of 4 times their sum. The other layer attends to the start alone.
class AttendingEncoder : public ColourEncoder, public TextClassifier {
 public:
  explicit AttendingEncoder(std::unique_ptr<Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {
    mutable_info().context = 77;
  }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  EncoderCapabilities capabilities() override { return {.text_classifier = this}; }
  const std::vector<std::string>& labels() const override { return labels_; }
  Result<Matrix<float>> classify_texts(std::span<const TokenizedText>) override { return Matrix<float>(); }
  Result<AttentionMaps> attention_maps(const TokenizedText& text) override {
    const int64_t n = std::ssize(text.ids);
    AttentionMaps maps{.layers = 2, .heads = 2, .tokens = n, .weights = {}};
    maps.weights.resize(static_cast<size_t>(4 * n * n));
    for (int64_t head = 0; head < 4; ++head) {
      for (int64_t t = 0; t < n; ++t) {
        const double share = 2.0 * static_cast<double>(t + 1) / static_cast<double>(n * (n + 1));
        const double weight = head < 2 ? (t == 0 ? 1 : 0) : head == 2 ? 0.5 * share : 1.5 * share;
        maps.weights[static_cast<size_t>(head * n * n + t)] = static_cast<float>(weight);
      }
    }
    return maps;
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> labels_;
};

Result<WordAttention> attention_of(EncoderBackend& encoder, std::span<const std::string_view> texts) {
  SACCADE_ASSIGN(const auto attention, open_text_attention(encoder, "", 1));
  if (attention == nullptr) return fail(ErrorCode::kUnsupported, "no attention");
  return attention_by_words(encoder, *attention, texts);
}

TEST(WordAttention, JoinsPiecesOfTheLastBlockIntoWords) {
  AttendingEncoder encoder(std::make_unique<LetterTokenizer>());
  const std::vector<std::string_view> texts = {"ab, C", "c"};
  const auto attention = attention_of(encoder, texts);
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->texts, 2);
  EXPECT_EQ(attention->unaligned, 0);
  ASSERT_EQ(attention->words.size(), 2U);
  // Tokens of "ab, C": start, a, b, the comma, C, end, with weights 1 to 6: the text's own are 2 to 5.
  EXPECT_NEAR(attention->words.at("ab").share, (2.0 + 3) / (2 + 3 + 4 + 5), 1e-6);
  EXPECT_EQ(attention->words.at("c").times, 2);
  EXPECT_NEAR(attention->words.at("c").share, 5.0 / 14 + 1, 1e-6);
}

TEST(WordAttention, SumsTheSharesOfNamedObjects) {
  AttendingEncoder encoder(std::make_unique<LetterTokenizer>());
  const std::vector<std::string_view> texts = {"ab, C", "c", "a x b"};
  ObjectList objects;
  objects.names = {{"c"}};
  objects.longest = 1;
  const auto reads = open_text_attention(encoder, "", 1);
  ASSERT_TRUE(reads) << reads.error().message;
  ASSERT_NE(*reads, nullptr);
  const auto attention = attention_by_words(encoder, **reads, texts, &objects);
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->attended, 2);
  EXPECT_NEAR(attention->to_objects, 5.0 / 14 + 1, 1e-6);

  // Attention over parts of the texts adds up to that over all.
  WordAttention sum;
  for (const std::string_view text : texts) {
    const auto part = attention_by_words(encoder, **reads, std::span(&text, 1), &objects);
    ASSERT_TRUE(part) << part.error().message;
    sum.add(*part);
  }
  EXPECT_EQ(sum.texts, 3);
  EXPECT_EQ(sum.unaligned, 1);
  EXPECT_EQ(sum.attended, 2);
  EXPECT_NEAR(sum.to_objects, attention->to_objects, 1e-9);
  ASSERT_EQ(sum.words.size(), attention->words.size());
  EXPECT_EQ(sum.words.at("c").times, 2);
  EXPECT_NEAR(sum.words.at("c").share, attention->words.at("c").share, 1e-9);
}

TEST(WordAttention, CountsTextsWhosePiecesAreNotItsWords) {
  AttendingEncoder encoder(std::make_unique<LetterTokenizer>());
  const std::vector<std::string_view> texts = {"a x b", "a b"};
  const auto attention = attention_of(encoder, texts);
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->unaligned, 1);
  EXPECT_EQ(attention->words.at("a").times, 1);
}

TEST(WordAttention, OfACutTextOnlyWholeWordsCount) {
  AttendingEncoder encoder(std::make_unique<LetterTokenizer>());
  encoder.mutable_info().context = 6;  // four letters
  const std::vector<std::string_view> texts = {"ab cde f"};
  const auto attention = attention_of(encoder, texts);
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->unaligned, 0);
  ASSERT_EQ(attention->words.size(), 1U);
  EXPECT_EQ(attention->words.begin()->first, "ab");
}

// CLIP's own tokenizer splits at word boundaries, whatever stands between the words.
TEST(WordAttention, ClipsPiecesAreWords) {
  auto tokenizer = published_clip_tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  AttendingEncoder encoder(*std::move(tokenizer));
  const std::vector<std::string_view> texts = {
      "Two dogs don't run -- they \"walk\" (slowly)... to the caf\xC3\xA9!",
      "A 3-D photo of the 21st, at 10:30 a.m., costs $5.99; see [12].",
      "it\xE2\x80\x99s   raining\ncats & dogs",
  };
  const auto attention = attention_of(encoder, texts);
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->unaligned, 0);
  for (const char* word : {"dogs", "don't", "slowly", "caf\xC3\xA9", "photo", "raining"}) {
    EXPECT_TRUE(attention->words.contains(word)) << word;
  }
  EXPECT_EQ(attention->words.at("dogs").times, 2);
}

TEST(WordAttention, TakesAModelThatTells) {
  ColourEncoder encoder;
  const std::vector<std::string_view> texts = {"a"};
  EXPECT_EQ(attention_of(encoder, texts).error().code, ErrorCode::kUnsupported);
}

TEST(Correlation, IsPearsonsWithFishersInterval) {
  const std::vector<double> x = {1, 2, 3, 4, 5};
  const std::vector<double> y = {2, 1, 4, 3, 5};
  const Correlation correlation = pearson(x, y, 0.95);
  EXPECT_NEAR(correlation.r, 0.8, 1e-12);
  EXPECT_NEAR(correlation.low, std::tanh(std::atanh(0.8) - 1.959963985 / std::sqrt(2.0)), 1e-8);
  EXPECT_NEAR(correlation.high, std::tanh(std::atanh(0.8) + 1.959963985 / std::sqrt(2.0)), 1e-8);
  EXPECT_NEAR(correlation.p, std::erfc(std::atanh(0.8)), 1e-12);  // sqrt(2) deviations of 1 / sqrt(2)
  EXPECT_EQ(correlation.n, 5);
  EXPECT_TRUE(std::isnan(pearson(x, std::vector<double>(5, 1.0), 0.95).r));
  EXPECT_TRUE(std::isnan(pearson(std::vector<double>{1, 2, 3}, std::vector<double>{1, 2, 3}, 0.95).r));
  EXPECT_NEAR(pearson(x, x, 0.95).r, 1, 1e-12);
}

TEST(Correlation, TakesWordsThatStandTwiceAndAreRated) {
  WordAttention attention;
  Lexicon lexicon;
  for (int i = 0; i < 6; ++i) {
    const std::string word(1, static_cast<char>('a' + i));
    attention.words[word] = {.share = 2.0 * i, .times = 2};
    lexicon.words[word] = 0.1 * i;
  }
  attention.words["once"] = {.share = 0, .times = 1};
  lexicon.words["once"] = 1;
  attention.words["unrated"] = {.share = 0, .times = 9};
  const Correlation correlation = correlate(attention, lexicon, 0.95);
  EXPECT_EQ(correlation.n, 6);
  EXPECT_NEAR(correlation.r, 1, 1e-12);
}

TEST(Correlation, ComparesModelsOverWordsThatBothHaveTwice) {
  WordAttention a;
  WordAttention b;
  for (int i = 0; i < 5; ++i) {
    const std::string word(1, static_cast<char>('a' + i));
    a.words[word] = {.share = 2.0 * i, .times = 2};
    b.words[word] = {.share = -3.0 * i, .times = 3};
  }
  a.words["once"] = {.share = 100, .times = 1};
  b.words["once"] = {.share = 100, .times = 2};
  a.words["alone"] = {.share = 100, .times = 2};
  const Correlation correlation = correlate(a, b, 0.95);
  EXPECT_EQ(correlation.n, 5);
  EXPECT_NEAR(correlation.r, -1, 1e-12);
}

}  // namespace
}  // namespace saccade::lab
