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

// The segments one behind the other: together they are the text. "don't" and "3.5" are one word each, "a-b"
// is two. Any bytes; what lies past 1 GiB belongs to the last. kInternal where ICU lacks its tables. Views
// into `text`. Linear, thread-safe.
Result<std::vector<TextSegment>> split_words(std::string_view text);

}  // namespace saccade
