#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/text/html_unescape.h"
#include "saccade/text/normalize.h"
#include "saccade/text/tokenizers/bpe.h"
#include "saccade/text/tokenizers/clip_spec.h"
#include "saccade/text/utf8.h"
#include "saccade/tokenizer.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGolden = fs::path(test::kSourceDir) / "tests/golden/tokenizers";
constexpr int64_t kAll = int64_t{1} << 40;

// Loads CLIP's vocabulary in one of the two layouts.
std::unique_ptr<Tokenizer> load_golden(bool through_tokenizer_json, TextCleanup cleanup) {
  const test::TestFolder folder;
  const std::vector<std::string> files = through_tokenizer_json
                                             ? std::vector<std::string>{"tokenizer.json"}
                                             : std::vector<std::string>{"vocab.json", "merges.txt"};
  for (const std::string& file : files) fs::copy_file(kGolden / "clip" / file, folder / file);
  fs::copy_file(kGolden / "clip/tokenizer_config.json", folder / "tokenizer_config.json");
  auto tokenizer = load_tokenizer(folder.path(), cleanup);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

// Loading takes a third of a second, so it is done once for all tests.
const Tokenizer& clip() {
  static const std::unique_ptr<Tokenizer> tokenizer = load_golden(true, TextCleanup::kTokenizerFile);
  return *tokenizer;
}
const Tokenizer& openai() {
  static const std::unique_ptr<Tokenizer> tokenizer = load_golden(true, TextCleanup::kOpenAi);
  return *tokenizer;
}

// Returns the ids of the text without its frame.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text) {
  const TokenizedText all = tokenizer.encode(text, kAll);
  return {all.ids.begin() + 1, all.ids.end() - 1};
}

Json golden(const std::string& name) {
  auto json = read_json(kGolden / name);
  if (!json) throw std::runtime_error(json.error().message);
  return *std::move(json);
}

TEST(Normalize, FoldedTextsDifferNeitherInCaseNorInEncodedAccents) {
  EXPECT_EQ(fold_case("\u00D6LYMPUS"), "\u00F6lympus");
  EXPECT_EQ(fold_case("\u00C9T\u00C9"), fold_case("e\u0301te\u0301"));
  EXPECT_EQ(fold_case("Stra\u00DFe"), "strasse");
  EXPECT_EQ(fold_case("\u03A3\u03C2\u03C3"), "\u03C3\u03C3\u03C3");
  EXPECT_EQ(fold_case("\u0416"), "\u0436");
  EXPECT_EQ(fold_case("IMG_1.JPG"), "img_1.jpg");
  EXPECT_NE(fold_case("ete"), fold_case("\u00E9t\u00E9"));
  // Bytes that are not UTF-8 stay as they are.
  EXPECT_EQ(fold_case("A\xff\u00C9"), "a\xff\u00C9");
  EXPECT_NE(fold_case("\xff"), fold_case("\xfe"));
  EXPECT_EQ(fold_case(""), "");
}

TEST(ClipTokenizer, AnswersAsTheReferenceThroughBothLayouts) {
  const Json cases = golden("clip.json")["cases"];
  ASSERT_EQ(cases.size(), 26U);
  for (const bool through_tokenizer_json : {true, false}) {
    const auto tokenizer = load_golden(through_tokenizer_json, TextCleanup::kTokenizerFile);
    EXPECT_EQ(tokenizer->vocabulary_size(), 49408);
    EXPECT_EQ(tokenizer->start_id(), 49406);
    EXPECT_EQ(tokenizer->end_id(), 49407);
    EXPECT_EQ(tokenizer->pad_id(), 49407);
    for (const Json& one : cases) {
      const auto text = one["text"].get<std::string>();
      const auto expected = one["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer->encode(text, kAll).ids, expected) << text;

      TokenizedText cut = tokenizer->encode(text, 77);
      EXPECT_EQ(cut.used + cut.dropped, static_cast<int64_t>(expected.size()) - 2) << text;
      EXPECT_EQ(cut.used, std::min<int64_t>(75, static_cast<int64_t>(expected.size()) - 2)) << text;
      cut.ids.resize(77, tokenizer->pad_id());
      EXPECT_EQ(cut.ids, one["ids_77"].get<std::vector<int32_t>>()) << text;
    }
  }
}

// Results of BlipCaptionProcessor.pre_caption.
TEST(CleanText, LavisIsTheReferences) {
  const std::pair<const char*, const char*> kAnswers[] = {
      {"A man (in RED) says: \"Hi!\"; #fun ~ ok.", "a man in red says hi fun ok"},
      {"a\tb\n", "a\tb"},
      {"  two  \t spaces \n\n", "two spaces"},
      {"don't-stop, it's 3.5%", "don't-stop, it's 3 5%"},
      {"\u0391\u03a3. \u0391\u03a3", "\u03b1\u03c2 \u03b1\u03c2"},
      {"\u00a0x\u2003\u2003y\u00a0", "\u00a0x y\u00a0"},
      {"a\n \n", "a"},
      {"...", ""},
      {"", ""}};
  for (const auto& [text, expected] : kAnswers) {
    EXPECT_EQ(clean_text(text, TextCleanup::kLavis), expected) << text;
  }
  EXPECT_EQ(name(TextCleanup::kLavis), "lavis");
}

TEST(ClipTokenizer, OpenAiCleanUpIsTheReferences) {
  const Json cases = golden("clip_openai_clean.json")["cases"];
  ASSERT_EQ(cases.size(), 26U);
  for (const Json& one : cases) {
    const auto text = one["text"].get<std::string>();
    const auto cleaned = one["cleaned"].get<std::string>();
    EXPECT_EQ(clean_as_openai(text), cleaned);
    EXPECT_EQ(openai().encode(text, kAll).ids, openai().encode(cleaned, kAll).ids) << text;
    // Without an effect of composition, both ways from clean text to ids agree.
    if (to_nfc(cleaned) == cleaned) {
      EXPECT_EQ(text_ids(openai(), text), text_ids(clip(), cleaned)) << text;
    }
  }
  EXPECT_EQ(openai().pad_id(), 0);
  EXPECT_EQ(clean_as_openai("\x1c\u3000\u039f\u0394\u039f\u03a3 &amp;lt;b&amp;gt;\u00a0"),
            "\u03bf\u03b4\u03bf\u03c2 <b>");
}

// The tokenizer built into the program equals the one in the files.
TEST(ClipTokenizer, PublishedNeedsNoFiles) {
  const auto published = published_clip_tokenizer();
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_EQ((*published)->vocabulary_size(), 49408);
  EXPECT_EQ((*published)->start_id(), 49406);
  EXPECT_EQ((*published)->end_id(), 49407);
  for (const char* file : {"clip.json", "clip_openai_clean.json"}) {
    const Json cases = golden(file)["cases"];
    for (const Json& one : cases) {
      const auto text = one["text"].get<std::string>();
      EXPECT_EQ((*published)->encode(text, kAll).ids, openai().encode(text, kAll).ids) << text;
    }
  }
}

TEST(ClipTokenizer, SpecialTokensInText) {
  // In this exact form they are tokens in any context; in another case they are ordinary words.
  EXPECT_THAT(text_ids(clip(), "<|endoftext|>"), ElementsAre(49407));
  EXPECT_EQ(text_ids(clip(), "cat<|startoftext|>cat"), (std::vector<int32_t>{2368, 49406, 2368}));
  auto pieces = text_ids(clip(), "<|");
  for (const char* part : {"endoftext", "|>", "!"}) {
    const auto more = text_ids(clip(), part);
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  EXPECT_EQ(text_ids(clip(), "<|ENDOFTEXT|>!"), pieces);
  // OpenAI's code matches after lower-casing.
  EXPECT_THAT(text_ids(openai(), "cat <|EndOfText|>"), ElementsAre(2368, 49407));
  // Contractions ignore case, and U+017F is an s there.
  EXPECT_EQ(text_ids(openai(), "dog'\u017ft").size(), text_ids(openai(), "dog'\u017f t").size());
}

// The same through both layouts, older files' pattern, and files that pad with "!".
TEST(ClipTokenizer, SpecialTokensInTextAsTheReference) {
  const Json cases = golden("clip_special.json")["cases"];
  ASSERT_EQ(cases.size(), 67U);
  const Json json = golden("clip/tokenizer.json");
  const Json vocab = golden("clip/vocab.json");
  const std::string merges = *read_file(kGolden / "clip/merges.txt");
  Json older = json;
  Json& pattern = older["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
  pattern = pattern.get<std::string>().substr(std::string(R"(<\|startoftext\|>|<\|endoftext\|>|)").size());
  const Json pads{{"pad_token", "!"}};
  const auto expect = [&](const Result<ClipTokenizerSpec>& spec, const char* ids) {
    ASSERT_TRUE(spec) << spec.error().message;
    const auto tokenizer = make_clip_tokenizer(*spec, TextCleanup::kTokenizerFile);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (const Json& one : cases) {
      const auto text = one["text"].get<std::string>();
      EXPECT_EQ((*tokenizer)->encode(text, kAll).ids, one[ids].get<std::vector<int32_t>>())
          << ids << ": " << text;
    }
  };
  expect(clip_spec_from_tokenizer_json(json, {}), "ids");
  expect(clip_spec_from_vocab_and_merges(vocab, merges, Json::object()), "ids");
  expect(clip_spec_from_tokenizer_json(older, {}), "ids_plain_pattern");
  expect(clip_spec_from_tokenizer_json(json, pads), "ids_pad_exclamation");
  expect(clip_spec_from_vocab_and_merges(vocab, merges, pads), "ids_pad_exclamation");
}

TEST(ClipTokenizer, CutTextIsAPrefix) {
  std::mt19937 random(7);
  const std::vector<std::string> parts = {
      "a photo of ", "Stra\u00dfe", " ",   "\xff",    "\U0001f431\U0001f436", "'ll",
      "1234",        "\n\t",        "!?<", "e\u0301", "<|endoftext|>",        "zzzzzz"};
  for (const Tokenizer* tokenizer : {&clip(), &openai()}) {
    for (int round = 0; round < 60; ++round) {
      std::string text;
      for (uint32_t i = random() % 30; i > 0; --i) text += parts[random() % parts.size()];
      const TokenizedText all = tokenizer->encode(text, kAll);
      ASSERT_EQ(all.dropped, 0);
      ASSERT_EQ(all.used + 2, static_cast<int64_t>(all.ids.size()));
      for (const int64_t limit : {2, 3, 5, 8, 77, static_cast<int>(all.ids.size())}) {
        if (limit < 2) continue;
        const TokenizedText cut = tokenizer->encode(text, limit);
        ASSERT_LE(static_cast<int64_t>(cut.ids.size()), limit);
        ASSERT_EQ(cut.used + 2, static_cast<int64_t>(cut.ids.size()));
        ASSERT_EQ(cut.used + cut.dropped, all.used);
        ASSERT_EQ(cut.ids.front(), tokenizer->start_id());
        ASSERT_EQ(cut.ids.back(), tokenizer->end_id());
        ASSERT_TRUE(std::equal(cut.ids.begin(), cut.ids.end() - 1, all.ids.begin())) << text;
      }
    }
  }
}

TEST(ClipTokenizer, TakesAnyBytes) {
  const auto replacement = text_ids(clip(), "\ufffd");
  EXPECT_EQ(text_ids(clip(), "\xff"), replacement);
  EXPECT_EQ(text_ids(clip(), "a\xc3"), text_ids(clip(), "a\ufffd"));
  EXPECT_EQ(text_ids(clip(), "\xed\xa0\x80"), text_ids(clip(), "\ufffd\ufffd\ufffd"));  // a surrogate
  EXPECT_EQ(text_ids(clip(), "\xf0\x9f\x90 x"), text_ids(clip(), "\ufffd x"));          // one maximal part
  EXPECT_EQ(text_ids(clip(), std::string_view("a\0b", 3)).size(), 3U);
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; second += 5) {
      const char bytes[] = {static_cast<char>(first), static_cast<char>(second)};
      for (const Tokenizer* tokenizer : {&clip(), &openai()}) {
        for (const int32_t id : tokenizer->encode(std::string_view(bytes, 2), kAll).ids) {
          ASSERT_GE(id, 0);
          ASSERT_LT(id, tokenizer->vocabulary_size());
        }
      }
    }
  }
}

TEST(ClipTokenizer, LargeAwkwardTextsAreQuick) {
  // A megabyte of the slowest input, and less of the rest, because sanitizer builds run this too.
  const auto repeated = [](std::string_view part) {
    const bool full = part == "a" || part == " " || part == "\U0001f431" || part == "\u0301\u0323";
    std::string text;
    while (text.size() < (full ? 1'000'000U : 100'000U)) text += part;
    return text;
  };
  // Marks in the worst order for a normalizer that inserts them one by one.
  for (const std::string_view part :
       {"\U0001f431", "a", " ", "\u0301\u0323", "\u0f73", "&", "&notit;", "&#9", "'s", "<|", "<|endoftext|>",
        "\u03a3", "\u03a3\u0301", "e\u0301", "\u0130", "\xff", "ab1!"}) {
    const std::string text = repeated(part);
    for (const Tokenizer* tokenizer : {&clip(), &openai()}) {
      const std::clock_t begin = std::clock();  // of the processor: other work does not count
      const TokenizedText tokens = tokenizer->encode(text, 77);
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      EXPECT_LE(tokens.ids.size(), 77U);
      // Takes a quarter of a second on the machine where it was written; quadratic code takes minutes.
      EXPECT_LT(seconds, 20) << part;
    }
  }
}

TEST(ClipTokenizer, ThreadsShareOne) {
  const std::string text = "Two dogs \U0001f436 and the cat's 3rd na\u00efve toy";
  const auto expected = clip().encode(text, 77).ids;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += clip().encode(text, 77).ids == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// Naive implementation: merges the first pair with the lowest rank until none is left.
std::vector<int32_t> slow_bpe(const Vocabulary& vocabulary, std::span<const BpeMerge> merges,
                              std::string_view word) {
  std::vector<std::string> pieces;
  for (const char c : word) pieces.push_back(byte_piece(static_cast<uint8_t>(c)));
  pieces.back() += "</w>";
  for (;;) {
    size_t best = merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      for (size_t m = 0; m < best; ++m) {
        if (merges[m].left == pieces[i] && merges[m].right == pieces[i + 1]) {
          best = m;
          at = i;
        }
      }
    }
    if (best == merges.size()) break;
    pieces[at] += pieces[at + 1];
    pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& piece : pieces) ids.push_back(vocabulary.at(piece));
  return ids;
}

// All bytes and the merges that join `words` from left to right, in order.
struct SmallModel {
  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
};
SmallModel small_model() {
  SmallModel model;
  const auto add = [&](const std::string& piece) {
    model.vocabulary.emplace(piece, static_cast<int32_t>(model.vocabulary.size()));
  };
  for (const char* end : {"", "</w>"}) {
    for (int byte = 0; byte < 256; ++byte) add(byte_piece(static_cast<uint8_t>(byte)) + end);
  }
  const auto merge = [&](const std::string& left, const std::string& right) {
    model.merges.push_back({left, right, "test"});
    add(left + right);
  };
  merge("a", "b");
  merge("b", "a");
  merge("ab", "ab");
  merge("a", "a");
  merge("ba", "b</w>");
  merge("aa", "aa");
  merge("abab", "a</w>");
  merge("b", "b</w>");
  merge("c", "ab");
  add("<|startoftext|>");
  add("<|endoftext|>");
  return model;
}

TEST(Bpe, JoinsAsTheObviousAlgorithm) {
  const SmallModel model = small_model();
  const auto bpe = Bpe::make(model.vocabulary, model.merges, "</w>", std::nullopt);
  ASSERT_TRUE(bpe) << bpe.error().message;
  std::mt19937 random(11);
  Bpe::Scratch scratch;
  for (int round = 0; round < 4000; ++round) {
    std::string word;
    for (uint32_t i = random() % 14 + 1; i > 0; --i) word += "aaabbc"[random() % 6];
    std::vector<int32_t> ids;
    bpe->encode(word, scratch, ids);
    ASSERT_EQ(ids, slow_bpe(model.vocabulary, model.merges, word)) << word;
  }
}

TEST(Bpe, BytePieces) {
  EXPECT_EQ(byte_piece('a'), "a");
  EXPECT_EQ(byte_piece(0), "\u0100");
  EXPECT_EQ(byte_piece(' '), "\u0120");
  EXPECT_EQ(byte_piece(0x7f), "\u0121");
  EXPECT_EQ(byte_piece(0xad), "\u0143");
  EXPECT_EQ(byte_piece(0xff), "\u00ff");
}

TEST(Html, UnescapesAsPython) {
  // From Python 3.11's html.unescape.
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"&amp;lt;", "&lt;"},
      {"&lt;b&gt; &eacute &eacute; &AMP &AMPx", "<b> \u00e9 \u00e9 & &x"},
      {"&notit; &notin; &not", "\u00acit; \u2209 \u00ac"},
      {"&#38; &#x26; &#X26 &#65;&#65", "& & & AA"},
      {"&#0; &#xd800; &#x110000; &#99999999999999999999;", "\ufffd \ufffd \ufffd \ufffd"},
      {"&#128;&#x9f;&#x81;", "\u20ac\u0178\u0081"},
      {"[&#1;&#11;&#xfffe;&#x1ffff;&#127;&#xfdd0;]", "[]"},
      {"&#13;&#9;&#12;", "\r\t\f"},
      {"& &; &# &#; &#x; &#xg &unknown; &&amp;", "& &; &# &#; &#x; &#xg &unknown; &&"},
      {"&CounterClockwiseContourIntegral;", "\u2233"},
      {"&CounterClockwiseContourIntegralx;", "&CounterClockwiseContourIntegralx;"},
      {"&fjlig;&NotEqualTilde;", "fj\u2242\u0338"},
      {"&\u00e9\u00e9&lt", "&\u00e9\u00e9<"},
      {"&lt\u00e9", "<\u00e9"},
      {"", ""},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(html_unescape(text), expected) << text;
}

TEST(Normalize, Steps) {
  EXPECT_EQ(to_nfc("e\u0301 \u212b"), "\u00e9 \u00c5");
  EXPECT_EQ(collapse_white_space("\t a\u2028\u3000b \x1c"), " a b \x1c");
  EXPECT_EQ(lowercase_each("\u0130\u039f\u03a3 \u1e9e"), "i\u0307\u03bf\u03c3 \u00df");
  // Long runs of marks are sorted before ICU, with the same result as ICU's.
  std::string unordered = "e";
  for (int i = 0; i < 100; ++i) unordered += "\u0301\u0323";
  std::string ordered = "\u1eb9";
  for (int i = 1; i < 100; ++i) ordered += "\u0323";
  for (int i = 0; i < 100; ++i) ordered += "\u0301";
  EXPECT_EQ(to_nfc(unordered), ordered);
}

TEST(Utf8, IllFormedPartsBecomeReplacements) {
  EXPECT_EQ(to_valid_utf8("a\xf0\x9f\x90z"), "a\ufffdz");
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), "\ufffd\ufffd");
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(to_valid_utf8("\U0010ffff\ufffd"), "\U0010ffff\ufffd");
}

// A small checkpoint in both layouts, to be broken.
class TokenizerFiles : public testing::Test {
 protected:
  static Json vocab_of(const SmallModel& model) {
    Json vocab = Json::object();
    std::vector<std::string> pieces(model.vocabulary.size());
    for (const auto& [piece, id] : model.vocabulary) pieces[static_cast<size_t>(id)] = piece;
    for (size_t id = 0; id < pieces.size(); ++id) vocab[pieces[id]] = id;
    return vocab;
  }
  static Json tokenizer_json() {
    const SmallModel model = small_model();
    Json json = golden("clip/tokenizer.json");
    json["model"]["vocab"] = vocab_of(model);
    json["model"]["merges"] = Json::array();
    for (const BpeMerge& merge : model.merges) json["model"]["merges"].push_back({merge.left, merge.right});
    const int end = model.vocabulary.at("<|endoftext|>");
    json["added_tokens"][0]["id"] = end - 1;
    json["added_tokens"][1]["id"] = end;
    json["post_processor"]["cls"][1] = end - 1;
    json["post_processor"]["sep"][1] = end;
    return json;
  }
  // The error of loading tokenizer.json after `change`, or "" if it loads.
  static std::string error_after(const std::function<void(Json&)>& change) {
    Json json = tokenizer_json();
    change(json);
    const auto spec = clip_spec_from_tokenizer_json(json, Json::object());
    if (!spec) return spec.error().message;
    const auto tokenizer = make_clip_tokenizer(*spec, TextCleanup::kTokenizerFile);
    return tokenizer ? "" : tokenizer.error().message;
  }
  static std::string merges_text() {
    std::string text = "#version: 0.2\n";
    for (const BpeMerge& merge : small_model().merges) text += merge.left + " " + merge.right + "\n";
    return text;
  }
};

TEST_F(TokenizerFiles, BothFormsOfMergesAndOfTheFrame) {
  EXPECT_EQ(error_after([](Json&) {}), "");
  Json json = tokenizer_json();
  const auto pairs =
      make_clip_tokenizer(*clip_spec_from_tokenizer_json(json, {}), TextCleanup::kTokenizerFile);
  for (Json& merge : json["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Json cls = json["post_processor"]["cls"];
  const Json sep = json["post_processor"]["sep"];
  const auto special = [](const Json& pair) {
    return Json{{"SpecialToken", {{"id", pair[0]}, {"type_id", 0}}}};
  };
  const auto table = [](const Json& pair) {
    return Json{{"id", pair[0]}, {"ids", Json::array({pair[1]})}, {"tokens", Json::array({pair[0]})}};
  };
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       Json::array({special(cls), Json{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special(sep)})},
      {"special_tokens", {{"<|startoftext|>", table(cls)}, {"<|endoftext|>", table(sep)}}}};
  const auto spec = clip_spec_from_tokenizer_json(json, {});
  ASSERT_TRUE(spec) << spec.error().message;
  const auto strings = make_clip_tokenizer(*spec, TextCleanup::kTokenizerFile);
  ASSERT_TRUE(pairs && strings);
  EXPECT_EQ((*pairs)->encode("abab cabb a", 77).ids, (*strings)->encode("abab cabb a", 77).ids);
  EXPECT_EQ((*pairs)->vocabulary_size(), static_cast<int64_t>(small_model().vocabulary.size()));
}

TEST_F(TokenizerFiles, SaysWhatItDoesNotUnderstand) {
  const auto unsupported = [](const std::function<void(Json&)>& change, const std::string& text) {
    EXPECT_THAT(error_after(change), HasSubstr(text));
  };
  unsupported([](Json& j) { j["model"]["type"] = "WordPiece"; }, "model WordPiece is not supported");
  unsupported([](Json& j) { j["model"]["byte_fallback"] = true; }, "model: \"byte_fallback\": true");
  unsupported([](Json& j) { j["model"]["dropout"] = 0.1; }, "model: \"dropout\": 0.1");
  unsupported([](Json& j) { j["normalizer"]["normalizers"][0]["type"] = "NFKC"; },
              "normalizer: NFKC is not supported");
  unsupported([](Json& j) { j["normalizer"]["normalizers"][1]["content"] = "_"; },
              "normalizer: \"content\": \"_\"");
  unsupported([](Json& j) { j["pre_tokenizer"] = nullptr; }, "pre_tokenizer: null");
  unsupported([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = ".+"; },
              "pattern .+ is not");
  unsupported([](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
              "add_prefix_space");
  unsupported([](Json& j) { j["post_processor"]["type"] = "BertProcessing"; },
              "post_processor: BertProcessing");
  unsupported([](Json& j) { j["post_processor"]["cls"][1] = 3; }, "\"cls\" has id 3, and");
  unsupported([](Json& j) { j["added_tokens"][0]["lstrip"] = true; }, "\"lstrip\": true is not supported");
  unsupported([](Json& j) { j["added_tokens"][0]["id"] = 5; }, "token \"<|startoftext|>\" has id 5, and");
  unsupported([](Json& j) { j["model"]["vocab"]["a"] = 1; }, "both have id 1");
  unsupported([](Json& j) { j["model"]["vocab"]["a"] = -1; }, "piece \"a\" has id -1");
  unsupported([](Json& j) { j["model"]["vocab"]["a"] = 100000; }, "piece \"a\" has id 100000");
  unsupported([](Json& j) { j["model"]["vocab"]["a"] = "x"; }, "\"a\" is a string");
  unsupported([](Json& j) { j["model"]["vocab"] = Json::array(); }, "model: vocab: an array, not an object");
  unsupported([](Json& j) { j["model"]["merges"][2] = "a b c"; }, "merge 2: \"a b c\" is not two pieces");
  unsupported([](Json& j) { j["model"]["merges"][2] = 7; }, "merge 2 is a number");
  unsupported([](Json& j) { j["model"]["merges"][2][0] = "q"; },
              "merge 2: piece \"qab\" is not in the vocabulary");
  unsupported([](Json& j) { j["model"]["unk_token"] = "[UNK]"; },
              "unk_token \"[UNK]\" is not in the vocabulary");
  unsupported([](Json& j) { j = Json::array(); }, "model null is not supported");
}

TEST_F(TokenizerFiles, AddedTokensMayBeMeantNormalized) {
  Json json = tokenizer_json();
  const int end = json["added_tokens"][1]["id"].get<int>();
  json["added_tokens"][1]["normalized"] = true;
  const auto tokenizer =
      make_clip_tokenizer(*clip_spec_from_tokenizer_json(json, {}), TextCleanup::kTokenizerFile);
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT(text_ids(**tokenizer, "<|ENDOFTEXT|>"), ElementsAre(end));
}

TEST_F(TokenizerFiles, PaddingToken) {
  // Some checkpoints pad with the token "!"; it is then a token anywhere in a text, as in the reference.
  const SmallModel model = small_model();
  const int32_t bang = model.vocabulary.at("!");
  const auto spec = clip_spec_from_vocab_and_merges(vocab_of(model), merges_text(), Json{{"pad_token", "!"}});
  ASSERT_TRUE(spec) << spec.error().message;
  const auto tokenizer = make_clip_tokenizer(*spec, TextCleanup::kTokenizerFile);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ((*tokenizer)->pad_id(), bang);
  EXPECT_THAT(text_ids(**tokenizer, "!"), ElementsAre(bang));
  const auto from_json =
      clip_spec_from_tokenizer_json(tokenizer_json(), Json{{"pad_token", {{"content", "!"}}}});
  ASSERT_TRUE(from_json);
  EXPECT_EQ(from_json->pad_id, bang);
}

// Selection among several descriptions of a token, as in transformers 5.12.
TEST_F(TokenizerFiles, SpecialTokensDescribedSeveralTimes) {
  const Json end = "<|endoftext|>";
  const Json json = tokenizer_json();
  const Json vocab = vocab_of(small_model());
  const std::string merges = merges_text();
  const auto object = [&](bool normalized) { return Json{{"content", end}, {"normalized", normalized}}; };
  const auto normalized = [](const Result<ClipTokenizerSpec>& spec) {
    EXPECT_TRUE(spec) << spec.error().message;
    for (const AddedToken& added : spec->added_tokens) {
      if (added.content == "<|endoftext|>") return added.normalized;
    }
    ADD_FAILURE() << "not an added token";
    return false;
  };
  // Descriptions of eos_token, unk_token and pad_token: a name, or an object with normalized true (T) or
  // false (F); and the resulting flag.
  const std::map<std::string, bool> roles = {
      {"sss", false}, {"ssT", true}, {"ssF", false}, {"sTs", true},  {"sTT", true},  {"sTF", false},
      {"sFs", false}, {"sFT", true}, {"sFF", false}, {"Tss", false}, {"TsT", false}, {"TsF", false},
      {"TTs", false}, {"TTT", true}, {"TTF", false}, {"TFs", false}, {"TFT", false}, {"TFF", false},
      {"Fss", false}, {"FsT", true}, {"FsF", false}, {"FTs", false}, {"FTT", true},  {"FTF", true},
      {"FFs", false}, {"FFT", true}, {"FFF", false}};
  const auto described = [&](char kind) { return kind == 's' ? end : object(kind == 'T'); };
  for (const auto& [kinds, expected] : roles) {
    const Json config{{"eos_token", described(kinds[0])},
                      {"unk_token", described(kinds[1])},
                      {"pad_token", described(kinds[2])}};
    EXPECT_EQ(normalized(clip_spec_from_vocab_and_merges(vocab, merges, config)), expected) << kinds;
    EXPECT_FALSE(normalized(clip_spec_from_tokenizer_json(json, config))) << kinds;  // it lists the token
  }
  // tokenizer_config.json's own list takes precedence.
  const std::string id = std::to_string(small_model().vocabulary.at("<|endoftext|>"));
  const Json config{{"added_tokens_decoder", {{id, object(true)}}}, {"pad_token", end}};
  EXPECT_TRUE(normalized(clip_spec_from_tokenizer_json(json, config)));
  EXPECT_TRUE(normalized(clip_spec_from_vocab_and_merges(vocab, merges, config)));

  const auto error = [&](const Json& decoder) {
    const auto spec = clip_spec_from_tokenizer_json(json, Json{{"added_tokens_decoder", decoder}});
    return spec ? "" : spec.error().message;
  };
  EXPECT_THAT(error(Json::array()), HasSubstr("added_tokens_decoder: an array, not an object"));
  EXPECT_THAT(error({{"1x", object(true)}}), HasSubstr("\"1x\" is not an id"));
  EXPECT_THAT(error({{"1", object(true)}}), HasSubstr("has id 1, and " + id));
}

TEST_F(TokenizerFiles, SpecialTokensMapCountsOverTheConfigUnlessThatHasItsOwnList) {
  const test::TestFolder folder;
  folder.write("vocab.json", dump_json(vocab_of(small_model())));
  folder.write("merges.txt", merges_text());
  const int32_t bang = small_model().vocabulary.at("!");
  const int32_t end = small_model().vocabulary.at("<|endoftext|>");
  const auto pad = [&](const std::string& config, const std::string& map) {
    folder.write("tokenizer_config.json", config);
    folder.write("special_tokens_map.json", map);
    const auto tokenizer = load_tokenizer(folder.path(), TextCleanup::kTokenizerFile);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return (*tokenizer)->pad_id();
  };
  EXPECT_EQ(pad("{}", R"({"pad_token": "!"})"), bang);
  EXPECT_EQ(pad(R"({"pad_token": "<|endoftext|>"})", R"({"pad_token": "!"})"), bang);
  EXPECT_EQ(pad(R"({"pad_token": "!"})", R"({"pad_token": "<|endoftext|>"})"), end);
  EXPECT_EQ(pad(R"({"added_tokens_decoder": {}})", R"({"pad_token": "!"})"), end);
}

TEST_F(TokenizerFiles, MissingAndBrokenFilesAreNamed) {
  const auto load = [](const test::TestFolder& folder) {
    const auto tokenizer = load_tokenizer(folder.path(), TextCleanup::kTokenizerFile);
    return tokenizer ? Error{ErrorCode::kInternal, "loaded"} : tokenizer.error();
  };
  const test::TestFolder folder;
  EXPECT_EQ(load(folder).code, ErrorCode::kNotFound);
  EXPECT_THAT(load(folder).message, HasSubstr("no tokenizer's files; known kinds: "));

  folder.write("vocab.json", vocab_of(small_model()).dump());
  EXPECT_EQ(load(folder).code, ErrorCode::kNotFound);
  EXPECT_THAT(load(folder).message, HasSubstr("merges.txt"));

  folder.write("merges.txt", merges_text());
  EXPECT_EQ(load(folder).message, "loaded");
  folder.write("merges.txt", "#version: 0.2\r\na b\r\n\r\na  b\r\n");
  EXPECT_THAT(load(folder).message, HasSubstr("merges.txt line 4: \"a  b\" is not two pieces"));
  folder.write("merges.txt", "#version: 0.2\na b\na zz\n");
  EXPECT_EQ(load(folder).code, ErrorCode::kBadData);
  EXPECT_THAT(load(folder).message, HasSubstr("merges.txt line 3: piece \"zz\" is not in the vocabulary"));

  folder.write("merges.txt", merges_text());
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_THAT(load(folder).message, HasSubstr("bos_token \"<s>\" is not in the vocabulary"));
  folder.write("tokenizer_config.json", R"({"bos_token": 3})");
  EXPECT_THAT(load(folder).message, HasSubstr("\"bos_token\" is a number (3), expected a string"));
  folder.write("tokenizer_config.json", "[]");
  EXPECT_THAT(load(folder).message, HasSubstr("tokenizer_config.json: an array, not an object"));
  folder.write("tokenizer_config.json", "{}");
  folder.write("special_tokens_map.json", R"({"pad_token": {"content": "!", "lstrip": true}})");
  EXPECT_THAT(load(folder).message, HasSubstr("pad_token: \"lstrip\": true is not supported"));
  fs::remove(folder / "special_tokens_map.json");

  // A broken tokenizer.json is an error, not a reason to read something else.
  folder.write("tokenizer.json", "{\"model\": ");
  EXPECT_EQ(load(folder).code, ErrorCode::kBadData);
  EXPECT_THAT(load(folder).message, HasSubstr("tokenizer.json: not JSON at byte"));
  fs::remove(folder / "vocab.json");
  folder.write("tokenizer.json", tokenizer_json().dump());
  EXPECT_EQ(load(folder).message, "loaded");
}

}  // namespace
}  // namespace saccade
