// Tests of parts of texts: truncation, equal chunks, sentence chunks.
#include "saccade/text/token_parts.h"

#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/text/sentences.h"
#include "saccade/text/token_decoder.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGolden = fs::path(test::kSourceDir) / "tests/golden/tokenizers";

std::unique_ptr<Tokenizer> load_piece_model(const std::string& model, const std::string& config,
                                            TextCleanup cleanup) {
  const test::TestFolder folder;
  fs::copy_file(kGolden / "sentencepiece" / model, folder / "spiece.model");
  folder.write("tokenizer_config.json", config);
  auto tokenizer = load_tokenizer(folder.path(), cleanup);
  return tokenizer ? *std::move(tokenizer) : nullptr;
}

// Every family's tokenizer over its golden vocabulary.
const std::map<std::string, std::unique_ptr<Tokenizer>>& tokenizers() {
  static const auto all = [] {
    std::map<std::string, std::unique_ptr<Tokenizer>> result;
    result["clip"] = *load_tokenizer(kGolden / "clip", TextCleanup::kTokenizerFile);
    result["openai"] = *load_tokenizer(kGolden / "clip", TextCleanup::kOpenAi);
    result["bert"] = *load_tokenizer(kGolden / "bert", TextCleanup::kTokenizerFile);
    result["gemma"] = *load_tokenizer(kGolden / "gemma", TextCleanup::kTokenizerFile);
    result["siglip"] =
        load_piece_model("unigram.model", R"({"tokenizer_class": "SiglipTokenizer"})", TextCleanup::kSiglip);
    result["t5"] = load_piece_model("unigram.model", R"({"tokenizer_class": "T5Tokenizer"})",
                                    TextCleanup::kTokenizerFile);
    return result;
  }();
  return all;
}

// Tokenizer with one token per byte, between 256 and 257, after a prompt of one token.
class ByteTokenizer : public Tokenizer {
 public:
  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    TokenizedText result;
    result.first = 2;
    result.ids = {256, 300};
    result.used = std::min(static_cast<int64_t>(text.size()), max_tokens - 3);
    result.dropped = static_cast<int64_t>(text.size()) - result.used;
    for (const char c : text.substr(0, static_cast<size_t>(result.used))) {
      result.ids.push_back(static_cast<uint8_t>(c));
    }
    result.ids.push_back(257);
    return result;
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return 301; }
  [[nodiscard]] int32_t start_id() const override { return 256; }
  [[nodiscard]] int32_t end_id() const override { return 257; }
  [[nodiscard]] int32_t pad_id() const override { return 0; }
};

std::vector<int32_t> own_tokens(const TokenizedText& text) {
  return {text.ids.begin() + text.first, text.ids.begin() + text.first + text.used};
}

std::vector<int32_t> own_tokens(std::span<const TokenizedText> chunks) {
  std::vector<int32_t> all;
  for (const TokenizedText& chunk : chunks) {
    const std::vector<int32_t> own = own_tokens(chunk);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

const std::vector<std::string> kTexts = {
    "",
    "a",
    "a small red house",
    "A child in a pink dress is climbing up a set of stairs in an entry way . Then she falls!",
    "Ein Haus am See; dahinter Wälder, die bis zum Horizont reichen. Wer wohnt dort?",
    "Красная машина стоит у дома. Рядом — собака.",
    "一只猫坐在窗台上。外面下着雨!",
    "<|endoftext|> in the text </s> itself",
};

TEST(KeepFirst, KeepsTheFrameOfEveryFamily) {
  const std::map<std::string, std::pair<int64_t, int64_t>> frames = {{"clip", {1, 1}},   {"openai", {1, 1}},
                                                                     {"bert", {1, 1}},   {"gemma", {1, 0}},
                                                                     {"siglip", {0, 1}}, {"t5", {0, 1}}};
  for (const auto& [name, tokenizer] : tokenizers()) {
    ASSERT_NE(tokenizer, nullptr) << name;
    const auto [before, after] = frames.at(name);
    for (const std::string& text : kTexts) {
      const TokenizedText whole = tokenizer->encode(text, kWholeText);
      EXPECT_EQ(whole.first, before) << name;
      EXPECT_EQ(frame_size(whole), before + after) << name;
      const std::vector<int32_t> own = own_tokens(whole);
      for (int64_t n = 1; n <= before + whole.used + 3; ++n) {
        const TokenizedText part = keep_first(whole, n);
        const int64_t kept = std::min(std::max<int64_t>(n - before, 0), whole.used);
        EXPECT_EQ(own_tokens(part), std::vector<int32_t>(own.begin(), own.begin() + kept)) << name << n;
        EXPECT_EQ(part.used, kept);
        EXPECT_EQ(part.used + part.dropped, whole.used);
        if (before == 1) {
          EXPECT_EQ(part.ids.front(), tokenizer->start_id()) << name;
        }
        if (after == 1) {
          EXPECT_EQ(part.ids.back(), tokenizer->end_id()) << name;
        }
        // The end token stands at place n where something was cut.
        if (part.dropped > 0) {
          EXPECT_EQ(static_cast<int64_t>(part.ids.size()), std::max(n, before) + after);
        }
        // Equals tokenizing with that limit.
        if (n + after >= 2) {
          const TokenizedText asked = tokenizer->encode(text, n + after);
          EXPECT_EQ(part.ids, asked.ids) << name << " " << n << " " << text;
          EXPECT_EQ(part.dropped, asked.dropped);
          EXPECT_EQ(part.first, asked.first);
        }
        const TokenizedText end = keep_last(whole, n);
        EXPECT_EQ(own_tokens(end), std::vector<int32_t>(own.end() - kept, own.end()));
        EXPECT_EQ(end.ids.size(), part.ids.size());
        EXPECT_EQ(end.dropped, part.dropped);
      }
    }
  }
}

TEST(KeepFirst, ByHand) {
  const Tokenizer& clip = *tokenizers().at("clip");
  const TokenizedText whole = clip.encode("a small red house", kWholeText);
  EXPECT_THAT(whole.ids, ElementsAre(49406, 320, 2442, 736, 1212, 49407));
  EXPECT_THAT(keep_first(whole, 1).ids, ElementsAre(49406, 49407));
  EXPECT_THAT(keep_first(whole, 2).ids, ElementsAre(49406, 320, 49407));
  EXPECT_THAT(keep_first(whole, 4).ids, ElementsAre(49406, 320, 2442, 736, 49407));
  EXPECT_EQ(keep_first(whole, 4).dropped, 1);
  EXPECT_EQ(keep_first(whole, 5).ids, whole.ids);
  EXPECT_EQ(keep_first(whole, 500).ids, whole.ids);
  EXPECT_THAT(keep_last(whole, 3).ids, ElementsAre(49406, 736, 1212, 49407));
  EXPECT_EQ(keep_last(whole, 5).ids, whole.ids);
  // Tokens dropped earlier remain counted.
  const TokenizedText cut = clip.encode("a small red house", 4);
  EXPECT_EQ(keep_first(cut, 2).dropped, 3);
}

TEST(KeepFirst, APromptIsFrame) {
  const auto folder = kGolden / "gemma";
  const auto files = read_tokenizer_files(folder);
  ASSERT_TRUE(files);
  auto pieces = load_piece_tokenizer(*files);
  ASSERT_TRUE(pieces) << pieces.error().message;
  const auto tokenizer = make_framed_tokenizer(*std::move(pieces), {2}, {1}, "a dog: ");
  const TokenizedText whole = tokenizer->encode("two cats", kWholeText);
  const TokenizedText nothing = tokenizer->encode("", kWholeText);
  ASSERT_GT(whole.used, 1);
  EXPECT_GT(nothing.first, 1);
  const TokenizedText part = keep_first(whole, whole.first + 1);
  EXPECT_EQ(part.used, 1);
  EXPECT_EQ(std::vector(part.ids.begin(), part.ids.begin() + nothing.first),
            std::vector(nothing.ids.begin(), nothing.ids.begin() + nothing.first));
  EXPECT_EQ(part.ids.back(), 1);
}

TEST(Sentences, AreSplitByUnicodesRules) {
  const auto split = [](std::string_view text) { return split_sentences(text).value(); };
  EXPECT_THAT(split(""), ElementsAre());
  EXPECT_THAT(split("A dog. A cat! Two birds?"), ElementsAre("A dog. ", "A cat! ", "Two birds?"));
  EXPECT_THAT(split("a dog. a cat"), ElementsAre("a dog. a cat"));
  EXPECT_THAT(split("one\ntwo\r\nthree"), ElementsAre("one\n", "two\r\n", "three"));
  EXPECT_THAT(split("一只猫。外面下着雨!"), ElementsAre("一只猫。", "外面下着雨!"));
  EXPECT_THAT(split("It is 3.14 m. \"Yes.\" Then"), ElementsAre("It is 3.14 m. ", "\"Yes.\" ", "Then"));
}

// Random texts of several scripts, punctuation, white space and broken bytes.
std::string random_text(std::mt19937& random, size_t words) {
  static const std::vector<std::string> kParts = {
      "a",   "house", "The",    "Wälder", "собака", "Машина",   "猫",      "外面", "שלום", "مرحبا",
      "3.5", "ñandú", "\u200d", "😀",      "\xff",   "\xe2\x82", "e\u0301", "-",    "Dr",   "x"};
  static const std::vector<std::string> kEnds = {" ",  " ",  " ",    " ", ". ", "! ",
                                                 "。", "\n", "?\" ", ".", "  "};
  std::string text;
  for (size_t i = 0; i < words; ++i)
    text += kParts[random() % kParts.size()] + kEnds[random() % kEnds.size()];
  return text;
}

TEST(Sentences, AreAllOfTheText) {
  std::mt19937 random(1);
  size_t several = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, random() % 30);
    const auto sentences = split_sentences(text);
    ASSERT_TRUE(sentences);
    std::string together;
    for (const std::string_view sentence : *sentences) {
      EXPECT_FALSE(sentence.empty());
      together += sentence;
    }
    EXPECT_EQ(together, text);
    several += sentences->size() > 2 ? 1 : 0;
  }
  EXPECT_GT(several, 1000U);
}

TEST(Sentences, AreBroughtIntoAnotherOrder) {
  EXPECT_EQ(permute_sentences("One dog.", 7).value(), "One dog.");
  EXPECT_EQ(permute_sentences("  One dog. \n ", 7).value(), "  One dog. \n ");
  EXPECT_EQ(permute_sentences("", 7).value(), "");
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const std::string permuted = permute_sentences("A dog. A cat!\nTwo birds?", seed).value();
    EXPECT_EQ(permuted, permute_sentences("A dog. A cat!\nTwo birds?", seed).value());
    ++seen[permuted];
    EXPECT_EQ(permute_sentences("Up. Down.", seed).value(), "Down. Up.");
  }
  // The five orders that are not the first, each about as often: 1,000 +- 4 standard deviations of 28.
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_FALSE(seen.contains("A dog. A cat! Two birds?"));
  EXPECT_TRUE(seen.contains("Two birds? A cat! A dog."));
  for (const auto& [text, count] : seen) EXPECT_NEAR(count, 1000, 113) << text;
}

TEST(EqualChunks, LoseNothing) {
  std::mt19937 random(2);
  for (const auto& [name, tokenizer] : tokenizers()) {
    for (int round = 0; round < 60; ++round) {
      const TokenizedText text = tokenizer->encode(random_text(random, random() % 60), kWholeText);
      const int64_t max_ids = frame_size(text) + 1 + static_cast<int64_t>(random() % 40);
      const auto chunks = equal_chunks(text, max_ids);
      ASSERT_TRUE(chunks);
      EXPECT_EQ(own_tokens(*chunks), own_tokens(text)) << name;
      const int64_t room = max_ids - frame_size(text);
      EXPECT_EQ(static_cast<int64_t>(chunks->size()), std::max<int64_t>(1, (text.used + room - 1) / room));
      for (const TokenizedText& chunk : *chunks) {
        EXPECT_LE(static_cast<int64_t>(chunk.ids.size()), max_ids);
        EXPECT_LE(chunks->front().used - chunk.used, 1);
        EXPECT_EQ(frame_size(chunk), frame_size(text));
        EXPECT_EQ(chunk.dropped, 0);
      }
    }
  }
}

TEST(SentenceChunks, LoseNoByte) {
  std::mt19937 random(3);
  const ByteTokenizer bytes;
  size_t within = 0;
  for (int round = 0; round < 1500; ++round) {
    const std::string text = random_text(random, random() % 40);
    const int64_t room = 1 + static_cast<int64_t>(random() % 200);
    const auto chunks = sentence_chunks(bytes, text, room + 3);
    ASSERT_TRUE(chunks);
    const std::vector<int32_t> own = own_tokens(*chunks);
    EXPECT_EQ(std::string(own.begin(), own.end()), text);
    for (const TokenizedText& chunk : *chunks) {
      EXPECT_LE(chunk.used, room);
      EXPECT_EQ(frame_size(chunk), 3);
      EXPECT_EQ(chunk.dropped, 0);
    }
    // No two neighboring chunks of whole sentences fit one chunk: each begins with a sentence that did not
    // fit.
    const auto sentences = split_sentences(text).value();
    const bool all_fit = std::ranges::all_of(
        sentences, [&](std::string_view sentence) { return static_cast<int64_t>(sentence.size()) <= room; });
    if (!all_fit || sentences.empty()) continue;
    std::set<size_t> bounds = {0};
    for (const std::string_view sentence : sentences) bounds.insert(*bounds.rbegin() + sentence.size());
    size_t end = 0;
    for (const TokenizedText& chunk : *chunks) {
      end += static_cast<size_t>(chunk.used);
      EXPECT_TRUE(bounds.contains(end)) << text;
      const auto next = bounds.upper_bound(end);
      if (next != bounds.end()) {
        EXPECT_GT(static_cast<int64_t>(*next - end) + chunk.used, room);
        ++within;
      }
    }
  }
  EXPECT_GT(within, 1000U);
}

TEST(SentenceChunks, OfWordsAreTheWholeTextsTokens) {
  const std::string text =
      "A child in a pink dress is climbing up a set of stairs. Then she falls! Красная машина стоит у дома. "
      "Рядом собака. A small red house near the sea, and behind it woods that reach to the horizon, full of "
      "birds and foxes and whatever else lives there. Who?";
  for (const char* name : {"clip", "openai", "bert"}) {
    const Tokenizer& tokenizer = *tokenizers().at(name);
    const TokenizedText whole = tokenizer.encode(text, kWholeText);
    for (int64_t max_ids = 3; max_ids < 90; ++max_ids) {
      const auto chunks = sentence_chunks(tokenizer, text, max_ids);
      ASSERT_TRUE(chunks);
      EXPECT_EQ(own_tokens(*chunks), own_tokens(whole)) << name << " " << max_ids;
      for (const TokenizedText& chunk : *chunks) {
        EXPECT_LE(static_cast<int64_t>(chunk.ids.size()), max_ids);
      }
    }
  }
}

// The published program's split, written as it is there.
std::vector<std::string> study_parts(const std::vector<std::string>& words, size_t parts) {
  const size_t size = std::max<size_t>(1, words.size() / parts);
  std::vector<std::string> result;
  for (size_t begin = 0; begin < words.size(); begin += size) {
    std::string part;
    for (size_t i = begin; i < std::min(begin + size, words.size()); ++i) {
      part += (part.empty() ? "" : " ") + words[i];
    }
    result.push_back(part);
  }
  return result;
}

TEST(WordChunks, AreThoseOfTheStudysProgram) {
  std::mt19937 random(3);
  const std::vector<std::string> vocabulary = {"a",    "red", "house", "(near)", "extraordinarily,",
                                               "sea.", "42"};
  int split = 0;
  for (const char* name : {"clip", "openai", "bert"}) {
    const Tokenizer& tokenizer = *tokenizers().at(name);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::string> words;
      std::string text = "  ";
      for (size_t w = 1 + random() % 60; w > 0; --w) {
        words.push_back(vocabulary[random() % vocabulary.size()]);
        text += words.back() + (random() % 3 == 0 ? "\n \t" : " ");
      }
      const auto max_ids = static_cast<int64_t>(15 + random() % 30);
      std::vector<std::vector<int32_t>> expected = {tokenizer.encode(text, kWholeText).ids};
      const auto fits = [&](const std::vector<int32_t>& ids) { return std::ssize(ids) <= max_ids; };
      for (size_t parts = 2; !std::ranges::all_of(expected, fits); ++parts) {
        expected.clear();
        for (const std::string& part : study_parts(words, parts)) {
          expected.push_back(tokenizer.encode(part, kWholeText).ids);
        }
      }
      split += expected.size() > 1 ? 1 : 0;
      const auto chunks = word_chunks(tokenizer, text, max_ids);
      ASSERT_TRUE(chunks);
      std::vector<std::vector<int32_t>> found;
      for (const TokenizedText& chunk : *chunks) found.push_back(chunk.ids);
      EXPECT_EQ(found, expected) << name << ": " << text << " in " << max_ids;
    }
  }
  EXPECT_GT(split, 60);
}

TEST(WordChunks, ByHand) {
  const ByteTokenizer bytes;
  const auto texts = [&](std::string_view text, int64_t room) {
    std::vector<std::string> result;
    const auto chunks = word_chunks(bytes, text, 3 + room);
    for (const TokenizedText& chunk : chunks.value()) {
      const auto own = own_tokens(std::vector{chunk});
      result.emplace_back(own.begin(), own.end());
    }
    return result;
  };
  EXPECT_THAT(texts("a  b", 4), ElementsAre("a  b"));  // fits: as it is
  EXPECT_THAT(texts("a  b", 3), ElementsAre("a", "b"));
  // Seven words in two parts are runs of three, and one of the rest.
  EXPECT_THAT(texts("a b c d e f g", 7), ElementsAre("a b c", "d e f", "g"));
  // A word that does not fit is cut into equal parts.
  EXPECT_THAT(texts("ab cdefgh", 4), ElementsAre("ab", "cde", "fgh"));
  EXPECT_THAT(texts("     ", 4), ElementsAre("   ", "  "));
}

// tools/reference/token_decoding.py: the texts of the first k ids of each golden case.
TEST(TokenDecoder, AnswersAsTheReference) {
  const Json reference = read_json(kGolden / "decoded.json").value();
  for (const char* name : {"clip", "bert"}) {
    const auto decoder = token_decoder(*tokenizers().at(name));
    ASSERT_TRUE(decoder) << name;
    const Json cases = read_json(kGolden / (std::string(name) + ".json")).value()["cases"];
    ASSERT_EQ(reference[name].size(), cases.size());
    for (size_t c = 0; c < cases.size(); ++c) {
      const auto ids = cases[c]["ids"].get<std::vector<int32_t>>();
      ASSERT_EQ(reference[name][c].size(), std::min<size_t>(ids.size(), 24));
      for (size_t k = 1; k <= reference[name][c].size(); ++k) {
        EXPECT_EQ(decoder->decode(std::span(ids).first(k)), reference[name][c][k - 1].get<std::string>())
            << name << " " << cases[c]["text"] << " " << k;
      }
    }
  }
}

TEST(TokenDecoder, IdsWithoutText) {
  for (const char* name : {"clip", "openai", "bert"}) {
    const Tokenizer& tokenizer = *tokenizers().at(name);
    const auto decoder = token_decoder(tokenizer);
    ASSERT_TRUE(decoder) << name;
    const std::vector<int32_t> ids = {-5, 1 << 30, tokenizer.start_id(), tokenizer.end_id()};
    EXPECT_EQ(decoder->decode(ids), "");
    EXPECT_EQ(decoder->decode({}), "");
  }
  EXPECT_EQ(token_decoder(*tokenizers().at("siglip")), nullptr);
  EXPECT_EQ(token_decoder(ByteTokenizer()), nullptr);
}

// A part of a word is a word of its own when it is tokenized again.
TEST(TokenDecoder, CutWordsBecomeOtherTokens) {
  const Tokenizer& clip = *tokenizers().at("clip");
  const auto decoder = token_decoder(clip);
  const std::string word = "antidisestablishmentarianism";
  const TokenizedText whole = clip.encode(word, kWholeText);
  ASSERT_GT(whole.used, 2);
  int changed = 0;
  for (int64_t n = 2; n <= whole.used; ++n) {
    const std::string text = decoder->decode(keep_first(whole, n).ids);
    EXPECT_TRUE(word.starts_with(text)) << text;
    EXPECT_LT(text.size(), word.size());
    changed += clip.encode(text, kWholeText).ids != keep_first(whole, n).ids ? 1 : 0;
  }
  EXPECT_GT(changed, 0);
}

TEST(Chunks, OfNothingAreOne) {
  for (const auto& [name, tokenizer] : tokenizers()) {
    for (const Chunking chunking : {Chunking::kEqual, Chunking::kSentences, Chunking::kWords}) {
      for (const std::string text : {"", "  \n "}) {
        const auto chunks = chunk_text(*tokenizer, text, 20, chunking);
        ASSERT_TRUE(chunks) << name;
        ASSERT_EQ(chunks->size(), 1U) << name;
        EXPECT_EQ(chunks->front().ids, tokenizer->encode(text, kWholeText).ids) << name;
      }
    }
  }
}

TEST(Chunks, NeedRoomBesideTheFrame) {
  const Tokenizer& clip = *tokenizers().at("clip");
  for (const Chunking chunking : {Chunking::kEqual, Chunking::kSentences, Chunking::kWords}) {
    const auto chunks = chunk_text(clip, "a house", 2, chunking);
    ASSERT_FALSE(chunks);
    EXPECT_EQ(chunks.error().code, ErrorCode::kUsage);
    EXPECT_THAT(chunks.error().message, HasSubstr("chunks of 2 tokens"));
  }
}

TEST(Chunks, AreCutAtALengthOfAll) {
  const ByteTokenizer bytes;
  const auto chunks = sentence_chunks(bytes, "One. Two two. Three.", 3 + 9);
  ASSERT_TRUE(chunks);
  ASSERT_THAT(*chunks, testing::SizeIs(3));
  for (int64_t n = 1; n < 30; ++n) {
    const std::vector<TokenizedText> kept = keep_first(std::span<const TokenizedText>(*chunks), n);
    const std::vector<int32_t> own = own_tokens(kept);
    EXPECT_EQ(
        std::string(own.begin(), own.end()),
        std::string("One. Two two. Three.").substr(0, static_cast<size_t>(std::max<int64_t>(0, n - 2))));
    int64_t dropped = 0;
    for (const TokenizedText& chunk : kept) dropped += chunk.dropped;
    EXPECT_EQ(dropped + static_cast<int64_t>(own.size()), 20);
  }
  EXPECT_THAT(keep_first(std::span<const TokenizedText>(*chunks), 7), testing::SizeIs(1));
  EXPECT_THAT(keep_first(std::span<const TokenizedText>(*chunks), 8), testing::SizeIs(2));
}

}  // namespace
}  // namespace saccade
