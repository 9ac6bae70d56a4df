// Word segmentation by Unicode's rules (UAX #29, word boundaries, in ICU's language-neutral form).
#pragma once

#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct TextSegment {
  std::string_view text;
  bool is_word = false;  // has letters, digits or ideographs; else spaces, punctuation, symbols
};

// Splits a text into consecutive segments; together they are the text. "don't" and "3.5" are one word each,
// "a-b" is two. Accepts any bytes; text beyond 1 GiB belongs to the last segment. Returns kInternal if ICU
// lacks its tables. Returns views into `text`. Linear, thread-safe.
Result<std::vector<TextSegment>> split_words(std::string_view text);

}  // namespace saccade
