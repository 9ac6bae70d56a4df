#include "saccade/document/prose.h"

#include <algorithm>
#include <array>

#include "saccade/text/normalize.h"
#include "saccade/text/sentences.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

bool is_prose(std::string_view sentence, const ProseOptions& options) {
  int words = 0;
  int letters = 0;
  int signs = 0;
  bool word = false;
  for (size_t at = 0; at < sentence.size();) {
    const char32_t code = next_code_point(sentence, at);
    if (code == ' ') {
      word = false;
      continue;
    }
    const bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
                        (code >= 0xc0 && code < 0x2000) || code >= 0x2e80;
    ++signs;
    if (!letter) continue;
    ++letters;
    if (!word) ++words;
    word = true;
  }
  return words >= options.min_words && words <= options.max_words && letters >= options.letters * signs;
}

// Returns true if the text's last word is an abbreviation that does not end a sentence, although Unicode's
// rules break there.
bool ends_in_abbreviation(std::string_view text) {
  constexpr std::array<std::string_view, 24> kAbbreviations = {
      "approx.", "ca.", "capt.", "cf.",  "col.", "dr.", "e.g.",  "eq.",  "fig.", "figs.", "gen.", "gov.",
      "i.e.",    "lt.", "mr.",   "mrs.", "ms.",  "mt.", "prof.", "rev.", "sen.", "sgt.",  "st.",  "vs."};
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::string_view word = text.substr(text.rfind(' ') + 1);
  while (word.starts_with('(') || word.starts_with('[')) word.remove_prefix(1);
  return std::ranges::find(kAbbreviations, lowercase_each(word)) != kAbbreviations.end();
}

}  // namespace

Result<std::vector<std::string>> prose_sentences(std::string_view paragraph, const ProseOptions& options,
                                                 int64_t& left_out) {
  const std::string text = collapse_white_space(to_valid_utf8(paragraph));
  SACCADE_ASSIGN(const std::vector<std::string_view> parts, split_sentences(text));
  std::vector<std::string> sentences;
  std::string_view part;
  for (const std::string_view& next : parts) {
    // Parts are contiguous in the text.
    part = part.empty() ? next : std::string_view(part.data(), part.size() + next.size());
    if (&next != &parts.back() && ends_in_abbreviation(part)) continue;
    while (part.ends_with(' ')) part.remove_suffix(1);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (is_prose(part, options)) {
      sentences.emplace_back(part);
    } else if (!part.empty()) {
      ++left_out;
    }
    part = {};
  }
  return sentences;
}

}  // namespace saccade
