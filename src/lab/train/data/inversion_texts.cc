#include "lab/train/data/inversion_texts.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/model/composers/inversion.h"
#include "saccade/text/utf8.h"

namespace saccade::lab {
namespace {

constexpr std::string_view kNoKeyword = "a photo of *";

// Function words, sorted: prepositions, conjunctions, pronouns, auxiliary verbs and adverbs of degree.
// Articles are not among them, since they belong to the noun behind them.
constexpr auto kFunctionWords = std::to_array<std::string_view>(
    {"about",  "above",   "across", "after",   "against", "along",   "also",   "am",      "among",   "and",
     "any",    "are",     "around", "as",      "at",      "away",    "be",     "because", "been",    "before",
     "behind", "being",   "below",  "beneath", "beside",  "between", "both",   "but",     "by",      "can",
     "could",  "did",     "do",     "does",    "doing",   "down",    "during", "each",    "else",    "ever",
     "every",  "for",     "from",   "had",     "has",     "have",    "having", "he",      "her",     "here",
     "hers",   "him",     "his",    "how",     "i",       "if",      "in",     "inside",  "into",    "is",
     "it",     "its",     "just",   "like",    "may",     "me",      "might",  "more",    "most",    "must",
     "my",     "near",    "next",   "no",      "nor",     "not",     "of",     "off",     "on",      "onto",
     "or",     "our",     "out",    "outside", "over",    "past",    "per",    "shall",   "she",     "should",
     "since",  "so",      "some",   "such",    "than",    "that",    "their",  "them",    "then",    "there",
     "these",  "they",    "this",   "those",   "through", "to",      "too",    "toward",  "towards", "under",
     "until",  "up",      "upon",   "us",      "very",    "via",     "was",    "we",      "were",    "what",
     "when",   "where",   "which",  "while",   "who",     "whom",    "whose",  "why",     "will",    "with",
     "within", "without", "would",  "you",     "your"});
static_assert(std::ranges::is_sorted(kFunctionWords));

bool is_word(char c) {
  return is_ascii_alphanumeric(c) || c == '\'' || static_cast<unsigned char>(c) >= 0x80U;
}

bool is_function_word(std::string_view word) {
  return std::ranges::binary_search(kFunctionWords, std::string_view(lower_ascii(word)));
}

}  // namespace

std::string masked_text(std::string_view text) {
  std::string masked;
  bool in_keyword = false;
  bool any = false;
  const auto add = [&](std::string_view piece) {
    if (!masked.empty()) masked += ' ';
    masked += piece;
  };
  for (size_t at = 0; at < text.size();) {
    if (is_ascii_space(text[at])) {
      ++at;
      continue;
    }
    if (!is_word(text[at])) {
      // The mark itself is not part of a word. A hyphen joins a keyword's parts.
      if (text[at] != kPictureMark.front() && !(text[at] == '-' && in_keyword)) {
        add(text.substr(at, 1));
        in_keyword = false;
      }
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (is_function_word(word)) {
      add(word);
      in_keyword = false;
    } else if (!in_keyword) {
      add(kPictureMark);
      in_keyword = any = true;
    }
  }
  return any ? masked : std::string(kNoKeyword);
}

Result<InversionTexts> read_inversion_texts(const std::filesystem::path& path, const Tokenizer& tokenizer,
                                            int64_t context) {
  SACCADE_ASSIGN(const int32_t mark, picture_mark_id(tokenizer));
  SACCADE_ASSIGN(const std::string file, read_file(path));
  InversionTexts read;
  read.sha256 = sha256_hex(file);
  const std::string_view content = without_byte_order_mark(file);
  std::unordered_set<std::string_view> seen;
  int64_t number = 0;
  for (const std::string_view whole : Lines(content)) {
    const std::string_view line = trim_ascii(whole);
    ++number;
    if (to_valid_utf8(line) != line) {
      return fail(ErrorCode::kBadData, "{}: line {} is not UTF-8", path.string(), number);
    }
    if (line.empty()) {
      ++read.empty;
      continue;
    }
    if (!seen.insert(line).second) {
      ++read.repeated;
      continue;
    }
    InversionText text;
    text.whole = tokenizer.encode(line, context);
    if (text.whole.dropped > 0) ++read.cut;
    const auto mask = [&](std::string_view said) {
      text.masked = tokenizer.encode(said, context);
      text.marks.clear();
      for (size_t i = 0; i < text.masked.ids.size(); ++i) {
        if (text.masked.ids[i] == mark) text.marks.push_back(static_cast<int64_t>(i));
      }
    };
    mask(masked_text(line));
    if (text.marks.empty()) mask(kNoKeyword);  // all of them were cut off
    if (text.marks.empty()) {
      return fail(ErrorCode::kUnsupported, "\"{}\" does not fit into the {} tokens that the encoder reads",
                  kNoKeyword, context);
    }
    read.texts.push_back(std::move(text));
  }
  if (read.texts.empty()) return fail(ErrorCode::kBadData, "{}: no text in it", path.string());
  return read;
}

}  // namespace saccade::lab
