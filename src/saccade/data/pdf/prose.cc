#include "saccade/data/pdf/prose.h"

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

}  // namespace

Result<std::vector<std::string>> prose_sentences(std::string_view paragraph, const ProseOptions& options,
                                                 int64_t& left_out) {
  const std::string text = collapse_white_space(to_valid_utf8(paragraph));
  SACCADE_ASSIGN(const std::vector<std::string_view> parts, split_sentences(text));
  std::vector<std::string> sentences;
  for (std::string_view part : parts) {
    while (part.ends_with(' ')) part.remove_suffix(1);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (is_prose(part, options)) {
      sentences.emplace_back(part);
    } else if (!part.empty()) {
      ++left_out;
    }
  }
  return sentences;
}

}  // namespace saccade
