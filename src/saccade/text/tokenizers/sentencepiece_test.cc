// Tests of SentencePiece and Gemma tokenizers against their references' ids, and with invalid files.
#include "saccade/text/tokenizers/sentencepiece.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/core/thread_seconds.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"
#include "saccade/text/tokenizers/tokenizer_json.h"
#include "saccade/tokenizer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGolden = fs::path(test::kSourceDir) / "tests/golden/tokenizers";
constexpr int64_t kAll = int64_t{1} << 40;

std::string bytes_of(const std::string& name) {
  return read_file(kGolden / name).value();
}

Json json_of(const std::string& name) {
  return read_json(kGolden / name).value();
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& model, const std::string& file, const Json& config,
                                        TextCleanup cleanup = TextCleanup::kTokenizerFile) {
  const test::TestFolder folder;
  folder.write(file, model);
  folder.write("tokenizer_config.json", dump_json(config));
  return load_tokenizer(folder.path(), cleanup);
}

// Checks ids. `before` and `after`: number of special tokens around the text that the cases' ids lack;
// `special`: the ones that they have.
void expect_ids(const Tokenizer& tokenizer, const Json& cases, const char* key, size_t before, size_t after,
                int64_t special = 0) {
  for (const Json& one : cases) {
    const auto text = one["text"].get<std::string>();
    const auto expected = one[key].get<std::vector<int32_t>>();
    const TokenizedText got = tokenizer.encode(text, kAll);
    ASSERT_GE(got.ids.size(), before + after);
    const std::vector<int32_t> ids(got.ids.begin() + static_cast<std::ptrdiff_t>(before),
                                   got.ids.end() - static_cast<std::ptrdiff_t>(after));
    EXPECT_EQ(ids, expected) << text;
    EXPECT_EQ(got.used, static_cast<int64_t>(ids.size()) - special) << text;
    EXPECT_EQ(got.dropped, 0) << text;
  }
}

TEST(SentencePiece, AnswersAsTheReference) {
  const Json config{{"tokenizer_class", "T5Tokenizer"}};
  for (const char* kind : {"unigram", "bpe"}) {
    for (const char* file : {"spiece.model", "tokenizer.model"}) {
      const auto tokenizer = load(bytes_of(fmt::format("sentencepiece/{}.model", kind)), file, config);
      ASSERT_TRUE(tokenizer) << tokenizer.error().message;
      const Json cases = json_of(fmt::format("sentencepiece/sentencepiece_{}.json", kind))["cases"];
      ASSERT_EQ(cases.size(), 26U);
      expect_ids(**tokenizer, cases, "ids", 0, 1);
      EXPECT_EQ((*tokenizer)->vocabulary_size(), std::string_view(kind) == "bpe" ? 700 : 335);
      EXPECT_EQ((*tokenizer)->end_id(), 1);
      EXPECT_EQ((*tokenizer)->pad_id(), 0);
    }
  }
}

TEST(SentencePiece, SiglipCleansFirstAndEndsWithItsPadding) {
  const Json cases = json_of("sentencepiece/siglip.json")["cases"];
  ASSERT_EQ(cases.size(), 26U);
  const std::string model = bytes_of("sentencepiece/unigram.model");
  // With and without a class: spiece.model alone is SigLIP's.
  for (const Json& config : {Json{{"tokenizer_class", "SiglipTokenizer"}}, Json::object()}) {
    const auto tokenizer = load(model, "spiece.model", config, TextCleanup::kSiglip);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    expect_ids(**tokenizer, cases, "ids", 0, 0, 1);
    EXPECT_EQ((*tokenizer)->end_id(), 1);
    EXPECT_EQ((*tokenizer)->pad_id(), 1);
  }
  for (const Json& one : cases) {
    EXPECT_EQ(clean_text(one["text"].get<std::string>(), TextCleanup::kSiglip),
              one["cleaned"].get<std::string>())
        << one["text"];
  }
}

// Differences between the three references' clean-ups: transformers (SiglipTokenizer), OpenCLIP
// (canonicalize_text) and big_vision (pp ops "lower").
TEST(TextCleanups, OneTextThreeWays) {
  struct Case {
    const char* text;
    const char* siglip;
    const char* canonical;
    const char* lower;
    const char* lower_ascii;
  };
  const Case cases[] = {
      {"A  Red_Car, parked.", "a redcar parked", "a red car parked", "a  red_car, parked.",
       "a  red_car, parked."},
      {"don't", "dont", "dont", "don't", "don't"},
      {" \tx\u00a0\u3000y\n", "x y", "x y", " \tx\u00a0\u3000y\n", " \tx\u00a0\u3000y\n"},
      {"&lt;b&gt; &amp;amp; c", "ltbgt ampamp c", "b c", "&lt;b&gt; &amp;amp; c", "&lt;b&gt; &amp;amp; c"},
      {"\u039f\u03a3 __init__", "\u03bf\u03c2 init", "\u03bf\u03c2 init", "\u03bf\u03c3 __init__",
       "\u039f\u03a3 __init__"},
      {"\u00c9T\u00c9", "\u00e9t\u00e9", "\u00e9t\u00e9", "\u00e9t\u00e9", "\u00c9t\u00c9"},
      {"!?.", "", "", "!?.", "!?."},
      {"", "", "", "", ""},
      {"\u2019\u201c\u2014", "\u2019\u201c\u2014", "\u2019\u201c\u2014", "\u2019\u201c\u2014",
       "\u2019\u201c\u2014"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(clean_text(one.text, TextCleanup::kSiglip), one.siglip) << one.text;
    EXPECT_EQ(clean_text(one.text, TextCleanup::kCanonical), one.canonical) << one.text;
    EXPECT_EQ(clean_text(one.text, TextCleanup::kLower), one.lower) << one.text;
    EXPECT_EQ(clean_text(one.text, TextCleanup::kLowerAscii), one.lower_ascii) << one.text;
    EXPECT_EQ(clean_text(one.text, TextCleanup::kTokenizerFile), one.text);
  }
}

// The unigram model as transformers writes it to tokenizer.json (convert_slow_tokenizer.py, T5Converter).
Json unigram_json() {
  const SentencePieceModel model = parse_sentencepiece_model(bytes_of("sentencepiece/unigram.model")).value();
  Json vocab = Json::array();
  for (const auto& piece : model.pieces) vocab.push_back({piece.text, piece.score});
  const Json added = Json::array({{{"id", 0}, {"content", "<pad>"}, {"special", true}},
                                  {{"id", 1}, {"content", "</s>"}, {"special", true}},
                                  {{"id", 2}, {"content", "<unk>"}, {"special", true}}});
  const Json special{{"</s>", {{"id", "</s>"}, {"ids", {1}}, {"tokens", {"</s>"}}}}};
  const Json sequence{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json end{{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}};
  return Json{
      {"added_tokens", added},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model.charsmap)}},
          {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
          {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\u2581"}}}}}},
      {"pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", Json::array({sequence, end})},
        {"special_tokens", special}}},
      {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}, {"byte_fallback", false}}}};
}

TEST(SentencePiece, UnigramFromTokenizerJsonGivesTheSame) {
  const auto tokenizer = load(dump_json(unigram_json()), "tokenizer.json",
                              Json{{"tokenizer_class", "T5TokenizerFast"}, {"pad_token", "</s>"}});
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  expect_ids(**tokenizer, json_of("sentencepiece/sentencepiece_unigram.json")["cases"], "ids", 0, 1);
  EXPECT_EQ((*tokenizer)->pad_id(), 1);
  EXPECT_EQ((*tokenizer)->vocabulary_size(), 335);
  EXPECT_THAT((*tokenizer)->encode("</s>", kAll).ids, ElementsAre(1, 1));
}

TEST(Gemma, AnswersAsTheReference) {
  const Json cases = json_of("gemma.json")["cases"];
  ASSERT_EQ(cases.size(), 35U);
  const std::string json = bytes_of("gemma/tokenizer.json");
  const auto framed = load(json, "tokenizer.json", json_of("gemma/tokenizer_config.json"));
  ASSERT_TRUE(framed) << framed.error().message;
  expect_ids(**framed, cases, "ids", 1, 0);
  for (const Json& one : cases) {
    EXPECT_EQ((*framed)->encode(one["text"].get<std::string>(), kAll).ids,
              one["framed"].get<std::vector<int32_t>>());
  }
  // SigLIP 2: no start token, and an end token that is kept.
  Json config = json_of("gemma/tokenizer_config.json");
  config["add_bos_token"] = false;
  config["add_eos_token"] = true;
  const auto ended = load(json, "tokenizer.json", config, TextCleanup::kLower);
  ASSERT_TRUE(ended) << ended.error().message;
  const TokenizedText lower = (*ended)->encode("a photo of a cat", kAll);
  EXPECT_EQ((*ended)->encode("A PHOTO of a Cat", kAll).ids, lower.ids);
  EXPECT_EQ(lower.ids.back(), (*ended)->end_id());
  EXPECT_NE(lower.ids.front(), (*ended)->start_id());
}

TEST(PieceTokenizers, CutTextKeepsItsFrameAndCounts) {
  const auto siglip = load(bytes_of("sentencepiece/unigram.model"), "spiece.model", Json::object());
  const auto gemma =
      load(bytes_of("gemma/tokenizer.json"), "tokenizer.json", json_of("gemma/tokenizer_config.json"));
  ASSERT_TRUE(siglip && gemma);
  const std::string text = "a quick brown fox jumps over the lazy dog near the old stone bridge";
  for (const Tokenizer* tokenizer : {siglip->get(), gemma->get()}) {
    const TokenizedText all = tokenizer->encode(text, kAll);
    for (int64_t limit = 2; limit < static_cast<int64_t>(all.ids.size()) + 3; ++limit) {
      const TokenizedText cut = tokenizer->encode(text, limit);
      EXPECT_LE(static_cast<int64_t>(cut.ids.size()), limit);
      EXPECT_EQ(cut.used + cut.dropped, all.used);
      EXPECT_EQ(cut.used + 1, static_cast<int64_t>(cut.ids.size()));  // one special token each
      EXPECT_EQ(cut.ids.front() == tokenizer->start_id(), tokenizer == gemma->get());
      EXPECT_EQ(cut.ids.back() == tokenizer->end_id(), tokenizer == siglip->get());
    }
  }
}

TEST(PieceTokenizers, TakeAnyBytes) {
  const Json t5{{"tokenizer_class", "T5Tokenizer"}};
  const auto unigram = load(bytes_of("sentencepiece/unigram.model"), "spiece.model", t5);
  const auto bpe = load(bytes_of("sentencepiece/bpe.model"), "spiece.model", t5);
  const auto gemma =
      load(bytes_of("gemma/tokenizer.json"), "tokenizer.json", json_of("gemma/tokenizer_config.json"));
  ASSERT_TRUE(unigram && bpe && gemma);
  std::mt19937 random(3);
  for (const Tokenizer* tokenizer : {unigram->get(), bpe->get(), gemma->get()}) {
    EXPECT_EQ(tokenizer->encode("\xff", kAll).ids, tokenizer->encode("\ufffd", kAll).ids);
    for (int round = 0; round < 300; ++round) {
      std::string text(random() % 60, '\0');
      for (char& c : text) c = static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
      for (const int32_t id : tokenizer->encode(text, 64).ids) {
        ASSERT_GE(id, 0);
        ASSERT_LT(id, tokenizer->vocabulary_size());
      }
    }
  }
  // Long words of one letter, where every pair is a candidate: the time must not be quadratic.
  const std::string long_word(200'000, 'a');
  for (const Tokenizer* tokenizer : {unigram->get(), bpe->get(), gemma->get()}) {
    EXPECT_GT(tokenizer->encode(long_word, kAll).used, 1000);
  }
}

std::string error_of(const std::string& model) {
  const auto tokenizer = load(model, "spiece.model", Json{{"tokenizer_class", "T5Tokenizer"}});
  return tokenizer ? "" : tokenizer.error().message;
}

TEST(SentencePieceFile, DamageIsRefusedOrHarmless) {
  const std::string model = bytes_of("sentencepiece/bpe.model");
  EXPECT_EQ(error_of(model), "");
  EXPECT_THAT(error_of(""), HasSubstr("spiece.model: 0 pieces"));
  EXPECT_THAT(error_of("hello, world"), HasSubstr("not a SentencePiece model"));
  // Cut anywhere: the pieces come first, the character map behind them.
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const size_t size = random() % (round % 2 == 0 ? 12'000 : model.size());
    const std::string error = error_of(model.substr(0, size));
    if (error.empty()) continue;  // between two parts, where the rest has defaults
    EXPECT_THAT(error, HasSubstr("spiece.model: ")) << size;
  }
  // Files with random changed bytes: any that loads encodes to ids in range.
  for (int round = 0; round < 300; ++round) {
    std::string changed = model;
    for (int i = 0; i < 8; ++i) {
      changed[random() % (round % 2 == 0 ? 12'000 : changed.size())] = static_cast<char>(random());
    }
    const auto parsed = parse_sentencepiece_model(changed);
    if (!parsed) continue;
    const auto encoder = SentencePieceEncoder::make(*parsed);
    if (!encoder) continue;
    std::vector<int32_t> ids;
    (*encoder)->append_ids("a photo of \u00bd \uff21 cats\u3000 \ufb01", ids);
    for (const int32_t id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, static_cast<int32_t>(parsed->pieces.size()));
    }
  }
}

TEST(SentencePieceFile, EveryBreachIsNamed) {
  const SentencePieceModel good = parse_sentencepiece_model(bytes_of("sentencepiece/bpe.model")).value();
  const auto error = [&](const std::function<void(SentencePieceModel&)>& change) {
    SentencePieceModel model = good;
    change(model);
    const auto encoder = SentencePieceEncoder::make(std::move(model));
    return encoder ? std::string() : encoder.error().message;
  };
  EXPECT_EQ(error([](SentencePieceModel&) {}), "");
  EXPECT_THAT(error([](SentencePieceModel& m) { m.pieces[300].text = ""; }),
              HasSubstr("piece 300 has 0 bytes"));
  EXPECT_THAT(error([](SentencePieceModel& m) { m.pieces[300].score = std::nanf(""); }),
              HasSubstr("piece 300 has score"));
  EXPECT_THAT(error([](SentencePieceModel& m) { m.pieces[300].text = m.pieces[299].text; }),
              HasSubstr("twice, the second time as 300"));
  EXPECT_THAT(error([](SentencePieceModel& m) { m.pieces[2].type = SentencePieceModel::Type::kNormal; }),
              HasSubstr("0 unknown pieces, expected 1"));
  EXPECT_THAT(error([](SentencePieceModel& m) { m.pieces[3].text = "<0xzz>"; }), HasSubstr("<0x00> missing"));
  EXPECT_THAT(error([](SentencePieceModel& m) { m.charsmap = "abc"; }),
              HasSubstr("a character map of 3 bytes"));
  EXPECT_THAT(error([](SentencePieceModel& m) {
                const uint32_t size = 1 << 30;
                std::memcpy(m.charsmap.data(), &size, sizeof size);
              }),
              HasSubstr("with a trie of 1073741824"));
}

TEST(PieceTokenizerFiles, WhatIsNotKnownIsNamed) {
  const std::string unigram = bytes_of("sentencepiece/unigram.model");
  const auto model_error = [&](const Json& config) {
    const auto tokenizer = load(unigram, "tokenizer.model", config);
    return tokenizer ? "" : tokenizer.error().message;
  };
  EXPECT_THAT(
      model_error({{"tokenizer_class", "XLMRobertaTokenizer"}}),
      HasSubstr("tokenizer_class \"XLMRobertaTokenizer\" is not known for such a file; known: Siglip"));
  EXPECT_THAT(model_error({{"tokenizer_class", "T5Tokenizer"}, {"eos_token", "<eos>"}}),
              HasSubstr("eos_token \"<eos>\" is not in the vocabulary"));
  EXPECT_THAT(model_error({{"tokenizer_class", "GemmaTokenizer"}, {"eos_token", "</s>"}}),
              HasSubstr("bos_token \"<bos>\" is not in the vocabulary"));
  EXPECT_THAT(model_error({{"tokenizer_class", "T5Tokenizer"},
                           {"added_tokens_decoder", {{"9999999", {{"content", "<x>"}}}}}}),
              HasSubstr("token \"<x>\" has id 9999999 beside a vocabulary of 335"));

  const Json gemma = json_of("gemma/tokenizer.json");
  const auto json_error = [](Json json, const std::function<void(Json&)>& change) {
    change(json);
    const auto tokenizer = load(dump_json(json), "tokenizer.json", json_of("gemma/tokenizer_config.json"));
    return tokenizer ? "" : tokenizer.error().message;
  };
  EXPECT_EQ(json_error(gemma, [](Json&) {}), "");
  EXPECT_THAT(json_error(gemma, [](Json& j) { j["model"]["dropout"] = 0.1; }), HasSubstr("\"dropout\": 0.1"));
  EXPECT_THAT(json_error(gemma,
                         [](Json& j) {
                           j["normalizer"] = {{"type", "NFKC"}};
                         }),
              HasSubstr("normalizer: NFKC is not supported"));
  EXPECT_THAT(json_error(gemma, [](Json& j) { j["normalizer"] = nullptr; }), HasSubstr("Split at spaces"));
  EXPECT_THAT(json_error(gemma, [](Json& j) { j["added_tokens"][0]["id"] = 7; }),
              HasSubstr("token \"<pad>\" has id 7, and 0"));
  EXPECT_THAT(json_error(gemma, [](Json& j) { j["post_processor"]["type"] = "ByteLevel"; }),
              HasSubstr("post_processor: ByteLevel is not supported"));
  EXPECT_THAT(json_error(gemma,
                         [](Json& j) {
                           j["model"]["merges"][0] = {"q", "zzz"};
                         }),
              HasSubstr("merge 0: piece \"zzz\" is not in the vocabulary"));
  EXPECT_THAT(json_error(gemma, [](Json& j) { j["added_tokens"][4]["single_word"] = true; }),
              HasSubstr("\"single_word\": true is not supported"));

  const Json json = unigram_json();
  EXPECT_THAT(json_error(json, [](Json& j) { j["model"]["unk_id"] = 400; }),
              HasSubstr("unk_id 400 among 335 pieces"));
  EXPECT_THAT(json_error(json, [](Json& j) { j["model"]["vocab"][5] = "x"; }), HasSubstr("entry 5 is"));
  EXPECT_THAT(json_error(json, [](Json& j) { j["model"]["vocab"][5][0] = "."; }),
              HasSubstr("\".\" is there twice"));
  EXPECT_THAT(json_error(json, [](Json& j) { j["model"]["type"] = "WordLevel"; }),
              HasSubstr("model WordLevel is not a known kind of tokenizer; known: "));
  EXPECT_THAT(json_error(json, [](Json& j) { j["model"].erase("type"); }), HasSubstr("model without a type"));
}

// Encoder with bytes as ids.
class ByteEncoder : public PieceEncoder {
 public:
  void append_ids(std::string_view text, std::vector<int32_t>& ids) const override {
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  }
};

TEST(AddedTokens, TheLongestCountsAndTheLastOfThoseSpelledAlike) {
  AddedTokens added;
  added.insert("ab", {.id = 1001});
  added.insert("abcd", {.id = 1002});
  added.insert("c", {.id = 1003, .strips_left = true, .strips_right = true});
  added.insert("ab", {.id = 1004});
  std::vector<int32_t> ids;
  added.append_ids("abcabcdx c  y", ByteEncoder(), ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{1004, 1003, 1002, 'x', 1003, 'y'}));
  EXPECT_EQ(added.find("ab"), 1004);
  EXPECT_EQ(added.find("abc"), -1);
  EXPECT_EQ(added.find("abcde"), -1);
  EXPECT_EQ(added.find(""), -1);
  EXPECT_EQ(added.highest_id(), 1004);
}

// Tokens of every length with a common prefix, and a text that is only that prefix. Each position of the text
// costs one step per byte of the longest token, not one attempt per token. So all of them cost as much as the
// longest alone. Longer tokens, which would make it slow, are rejected.
TEST(AddedTokens, AHostileListCostsNoMoreThanItsLongest) {
  constexpr size_t kLongest = tokenizer_json::kMaxTokenBytes - 1;
  const std::string text(size_t{1} << 17, 'a');
  const auto seconds_with = [&](size_t shortest) {
    AddedTokens added;
    for (size_t size = shortest; size <= kLongest; ++size) {
      added.insert(std::string(size, 'a') + "b", {.id = static_cast<int32_t>(1000 + size)});
    }
    std::vector<int32_t> ids;
    const double begun = thread_seconds();
    added.append_ids(text + "b", ByteEncoder(), ids);
    const double seconds = thread_seconds() - begun;
    EXPECT_EQ(ids.size(), text.size() - kLongest + 1);
    EXPECT_EQ(ids.back(), 1000 + static_cast<int32_t>(kLongest));
    return seconds;
  };
  EXPECT_LT(seconds_with(1), 20 * seconds_with(kLongest) + 0.05);

  const auto error_of = [](size_t size) {
    const std::string content(size, 'a');
    const auto add = [](const Json&, int32_t) { return Status(); };
    const Json listed = {{"added_tokens", {{{"id", 1}, {"content", content}}}}};
    const Status list = tokenizer_json::for_each_added_token(listed, {}, 10, add);
    const Json decoder = {{"added_tokens_decoder", {{"1", {{"content", content}}}}}};
    const Status in_config = tokenizer_json::for_each_added_token({}, decoder, 10, add);
    const auto name = tokenizer_json::token_name({{"eos_token", content}}, "eos_token", "");
    EXPECT_EQ(list.has_value(), in_config.has_value());
    EXPECT_EQ(list.has_value(), name.has_value());
    return list ? "" : list.error().message;
  };
  EXPECT_EQ(error_of(tokenizer_json::kMaxTokenBytes), "");
  EXPECT_THAT(error_of(tokenizer_json::kMaxTokenBytes + 1), HasSubstr("a token of 257 bytes, limit 256"));
}

}  // namespace
}  // namespace saccade
