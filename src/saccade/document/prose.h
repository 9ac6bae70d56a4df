// Sentences of running text, for the selection of matching images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct ProseOptions {
  int min_words = 4;     // words with a letter in them
  int max_words = 60;    // longer sentences are tables or lists
  double letters = 0.7;  // least share of letters among what is no space: else numbers, code, rows of dots
};

// Splits a paragraph into sentences (text/sentences.h), collapses white space, and returns those that are
// running text. A sentence that ends in a title or another English abbreviation ("Dr.", "e.g.") is joined
// with the next one. `left_out` counts the others. Returns kInternal as split_sentences does. Cost: linear.
// Thread-safe.
Result<std::vector<std::string>> prose_sentences(std::string_view paragraph, const ProseOptions& options,
                                                 int64_t& left_out);

}  // namespace saccade
