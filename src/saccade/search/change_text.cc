#include "saccade/search/change_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "saccade/core/ascii.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

constexpr std::array<std::string_view, 4> kLeadIns = {"but", "and", "only", "instead"};

// Returns the number of bytes of the word at the beginning of the text, in any ASCII case, including the
// space and commas behind it. Returns 0 if the text does not begin with it.
size_t length_of(std::string_view word, std::string_view text) {
  if (!starts_in_any_case(text, word)) return 0;
  const size_t behind = text.find_first_not_of(" \t\r\n\f\v,", word.size());
  if (behind == word.size()) return 0;
  return std::min(behind, text.size());
}

size_t lead_in_length(std::string_view text) {
  const size_t space = std::min(text.find_first_not_of(kAsciiSpace), text.size());
  size_t at = space;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view word : kLeadIns) {
      const size_t length = length_of(word, text.substr(at));
      if (length == 0 || (word == "instead" && length_of("of", text.substr(at + length)) > 0)) continue;
      at += length;
      found = true;
      if (word == "but") at += length_of("with", text.substr(at));
      break;
    }
  }
  if (at == space || caption_words(text.substr(at)).empty()) return 0;
  return at;
}

}  // namespace

void drop_lead_in(QueryText& text) {
  // The running text is the first part, without a weight.
  if (!text.has_words() || text.parts().front().weight != 1) return;
  const std::string& running = text.parts().front().text;
  const auto quoted = [&](const std::string& phrase) { return running.starts_with(phrase); };
  if (std::ranges::any_of(text.phrases(), quoted)) return;
  text.remove_beginning(lead_in_length(running));
}

}  // namespace saccade
