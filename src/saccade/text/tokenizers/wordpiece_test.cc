// Tests of BERT's tokenizer against the reference's ids, and with invalid files.
#include "saccade/text/tokenizers/wordpiece.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"
#include "saccade/tokenizer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGolden = fs::path(test::kSourceDir) / "tests/golden/tokenizers";
constexpr int64_t kAll = int64_t{1} << 40;

class WordPieceFiles : public testing::Test {
 protected:
  void copy(const std::string& name) const { fs::copy_file(kGolden / "bert" / name, folder_ / name); }
  [[nodiscard]] Result<std::unique_ptr<Tokenizer>> load() const {
    return load_tokenizer(folder_.path(), TextCleanup::kTokenizerFile);
  }
  [[nodiscard]] Json golden(const std::string& name) const { return read_json(kGolden / name).value(); }

  test::TestFolder folder_;
};

std::vector<int32_t> ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, kAll).ids;
}

TEST_F(WordPieceFiles, AnswersAsTheReferenceThroughBothLayouts) {
  for (const char* file : {"tokenizer.json", "vocab.txt"}) {
    for (const bool with_config : {true, false}) {
      SCOPED_TRACE(file);
      for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove(entry.path());
      copy(file);
      if (with_config) copy("tokenizer_config.json");
      const auto tokenizer = load();
      ASSERT_TRUE(tokenizer) << tokenizer.error().message;
      EXPECT_EQ((*tokenizer)->start_id(), 2);
      EXPECT_EQ((*tokenizer)->end_id(), 3);
      EXPECT_EQ((*tokenizer)->pad_id(), 0);
      const Json cases = golden("bert.json")["cases"];
      ASSERT_EQ(cases.size(), 26U);
      for (const Json& one : cases) {
        const auto text = one["text"].get<std::string>();
        EXPECT_EQ(ids(**tokenizer, text), one["ids"].get<std::vector<int32_t>>()) << text;
      }
    }
  }
}

TEST_F(WordPieceFiles, EverySwitchAsTheReference) {
  const Json cases = golden("bert_switches.json");
  ASSERT_EQ(cases["variants"].size(), 24U);
  for (const Json& variant : cases["variants"]) {
    Json json = golden("bert/tokenizer.json");
    for (const char* key : {"lowercase", "strip_accents", "handle_chinese_chars", "clean_text"}) {
      json["normalizer"][key] = variant[key];
    }
    folder_.write("tokenizer.json", dump_json(json));
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (size_t i = 0; i < cases["texts"].size(); ++i) {
      EXPECT_EQ(ids(**tokenizer, cases["texts"][i].get<std::string>()),
                variant["ids"][i].get<std::vector<int32_t>>())
          << "text " << i << " of " << dump_json(json["normalizer"]);
    }
  }
}

// tokenizer_config.json's switches override tokenizer.json's, with the same result.
TEST_F(WordPieceFiles, ConfigCountsOverTokenizerJson) {
  const Json cases = golden("bert_switches.json");
  copy("tokenizer.json");
  size_t compared = 0;
  for (const Json& variant : cases["variants"]) {
    if (variant["clean_text"] == false) continue;
    folder_.write("tokenizer_config.json",
                  dump_json(Json{{"do_lower_case", variant["lowercase"]},
                                 {"strip_accents", variant["strip_accents"]},
                                 {"tokenize_chinese_chars", variant["handle_chinese_chars"]}}));
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (size_t i = 0; i < cases["texts"].size(); ++i) {
      EXPECT_EQ(ids(**tokenizer, cases["texts"][i].get<std::string>()),
                variant["ids"][i].get<std::vector<int32_t>>());
      ++compared;
    }
  }
  EXPECT_EQ(compared, 12 * cases["texts"].size());
}

TEST(BertCharacters, EveryCodePointIsWhatItIsToTheReference) {
  std::vector<std::string> classes(0x110000);
  std::ifstream file(kGolden / "bert_characters.txt");
  std::string first, last, kind;
  size_t runs = 0;
  while (file >> first >> last >> kind) {
    for (auto c = std::stoul(first, nullptr, 16); c <= std::stoul(last, nullptr, 16); ++c) classes[c] = kind;
    ++runs;
  }
  ASSERT_GT(runs, 400U);
  const BertNormalization none{
      .clean = false, .separate_chinese = false, .strip_accents = false, .lowercase = false};
  BertNormalization clean = none, chinese = none, accents = none;
  clean.clean = chinese.separate_chinese = accents.strip_accents = true;
  size_t wrong = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text = "a";
    append_utf8(text, c);
    text += 'b';
    std::string ours;
    const std::string cleaned = bert_normalize(text, clean);
    if (cleaned == "ab") {
      ours += 'r';
    } else if (cleaned != text) {
      ours += 's';
    }
    if (bert_normalize(text, chinese) != text) ours += 'c';
    if (bert_normalize(text, accents) == "ab") ours += 'm';
    if (is_bert_punctuation(c)) ours += 'p';
    const bool space = collapse_white_space(text) == "a b";
    if (space) ours += 'w';
    if (ours == classes[c]) continue;
    if (++wrong < 20)
      ADD_FAILURE() << fmt::format("U+{:04X}: \"{}\", not \"{}\"", static_cast<uint32_t>(c), ours,
                                   classes[c]);
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_F(WordPieceFiles, CutTextKeepsItsEnd) {
  copy("vocab.txt");
  const auto tokenizer = load();
  ASSERT_TRUE(tokenizer);
  const std::vector<int32_t> whole = ids(**tokenizer, "two dogs and a red car");
  const TokenizedText cut = (*tokenizer)->encode("two dogs and a red car", 5);
  EXPECT_THAT(cut.ids, ElementsAre(2, whole[1], whole[2], whole[3], 3));
  EXPECT_EQ(cut.used, 3);
  EXPECT_EQ(cut.dropped, static_cast<int64_t>(whole.size()) - 5);
}

TEST_F(WordPieceFiles, TakesAnyBytes) {
  copy("vocab.txt");
  const auto tokenizer = load();
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(ids(**tokenizer, "a\xff\xfe cat"), ids(**tokenizer, "a cat"));  // U+FFFD is dropped
  std::string marks = "a";
  for (int i = 0; i < 200'000; ++i) append_utf8(marks, i % 2 == 0 ? U'\u0301' : U'\u0323');
  EXPECT_EQ(ids(**tokenizer, marks), ids(**tokenizer, "a"));
  EXPECT_EQ(ids(**tokenizer, std::string(2'000'000, 'q')).size(), 3U);
}

TEST_F(WordPieceFiles, VocabularyOfAnyLineEnds) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    std::string vocabulary;
    for (const char* piece : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "a"}) vocabulary += piece + end;
    folder_.write("vocab.txt", vocabulary);
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_THAT(ids(**tokenizer, "ab b"), ElementsAre(2, 6, 5, 1, 3));  // the later of two "a" wins
    EXPECT_EQ((*tokenizer)->vocabulary_size(), 7);
  }
}

TEST_F(WordPieceFiles, SpecialTokensMayHaveOtherNames) {
  folder_.write("vocab.txt", "<p>\n<u>\n<s>\n</s>\na\n");
  folder_.write("tokenizer_config.json",
                R"({"pad_token": "<p>", "unk_token": "<u>", "cls_token": {"content": "<s>"},
                                     "sep_token": "</s>"})");
  const auto tokenizer = load();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT(ids(**tokenizer, "a<s> q"), ElementsAre(2, 4, 2, 1, 3));
}

struct Damage {
  const char* name;
  std::function<void(Json& json, Json& config)> apply;
  const char* expected;
};

TEST_F(WordPieceFiles, EveryDamageIsNamed) {
  const Damage damages[] = {
      {"normalizer",
       [](Json& j, Json&) {
         j["normalizer"] = {{"type", "Lowercase"}};
       },
       "normalizer: Lowercase is not supported"},
      {"pre-tokenizer",
       [](Json& j, Json&) {
         j["pre_tokenizer"] = {{"type", "Whitespace"}};
       },
       "pre_tokenizer: Whitespace is not supported"},
      {"frame", [](Json& j, Json&) { j["post_processor"]["single"].erase(2); }, "post_processor"},
      {"frame's token", [](Json& j, Json&) { j["post_processor"]["special_tokens"]["[SEP]"]["ids"] = {7}; },
       "is not token 2, the text, token 3"},
      {"foreign frame",
       [](Json& j, Json&) {
         j["post_processor"] = {{"type", "ByteLevel"}};
       },
       "post_processor: ByteLevel is not supported"},
      {"no vocabulary", [](Json& j, Json&) { j["model"].erase("vocab"); },
       "model: vocab: null, not an object"},
      {"negative id", [](Json& j, Json&) { j["model"]["vocab"]["cat"] = -5; }, "piece \"cat\" has id -5"},
      {"text as id", [](Json& j, Json&) { j["model"]["vocab"]["cat"] = "x"; }, "\"cat\" is a string"},
      {"no unknown", [](Json& j, Json&) { j["model"]["unk_token"] = "[X]"; },
       "unk_token \"[X]\" is not in the vocabulary"},
      {"no end", [](Json&, Json& c) { c["sep_token"] = "[END]"; },
       "sep_token \"[END]\" is not in the vocabulary"},
      {"word limit", [](Json& j, Json&) { j["model"]["max_input_chars_per_word"] = 1'000'000; },
       "\"max_input_chars_per_word\" is 1000000, limit 1000"},
      {"added id", [](Json& j, Json&) { j["added_tokens"][2]["id"] = 9; },
       "token \"[CLS]\" has id 9, and 2 in the vocabulary"},
      {"added id far away",
       [](Json&, Json& c) {
         c["added_tokens_decoder"]["2000000000"] = {{"content", "x y"}};
       },
       "has id 2000000000 beside a vocabulary of"},
      {"single word", [](Json& j, Json&) { j["added_tokens"][4]["single_word"] = true; },
       "token \"[MASK]\": \"single_word\": true is not supported"},
      {"switch", [](Json&, Json& c) { c["do_lower_case"] = "yes"; }, "\"do_lower_case\" is a string"},
      {"other splitting", [](Json&, Json& c) { c["do_basic_tokenize"] = false; },
       "\"do_basic_tokenize\": false is not supported"},
      {"never split", [](Json&, Json& c) { c["never_split"] = {"abc"}; }, "\"never_split\""},
      {"truncation", [](Json&, Json& c) { c["truncation_side"] = "left"; }, "\"truncation_side\": \"left\""}};
  for (const Damage& damage : damages) {
    Json json = golden("bert/tokenizer.json");
    Json config = Json::object();
    damage.apply(json, config);
    folder_.write("tokenizer.json", dump_json(json));
    folder_.write("tokenizer_config.json", dump_json(config));
    const auto tokenizer = load();
    ASSERT_FALSE(tokenizer) << damage.name;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(damage.expected)) << damage.name;
  }
  fs::remove(folder_ / "tokenizer.json");
  fs::remove(folder_ / "tokenizer_config.json");
  folder_.write("vocab.txt", "");
  EXPECT_THAT(load().error().message, HasSubstr("vocab.txt: has no pieces"));
  folder_.write("vocab.txt", "[PAD]\n\xff\xfe\n");
  EXPECT_THAT(load().error().message, HasSubstr("vocab.txt: line 2 is not UTF-8"));
}

}  // namespace
}  // namespace saccade
