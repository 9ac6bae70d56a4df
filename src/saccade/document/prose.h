// Sentences of running text, for what looks for pictures to them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct ProseOptions {
  int min_words = 4;     // words with a letter in them
  int max_words = 60;    // what is longer is a table or a list
  double letters = 0.7;  // least share of letters among what is no space: else numbers, code, rows of dots
};

// The sentences of a paragraph (text/sentences.h), white space made single, that are prose. What a title or
// another English abbreviation ends ("Dr.", "e.g.") goes on in the next one. `left_out` counts the others.
// kInternal as split_sentences. Linear, thread-safe.
Result<std::vector<std::string>> prose_sentences(std::string_view paragraph, const ProseOptions& options,
                                                 int64_t& left_out);

}  // namespace saccade
