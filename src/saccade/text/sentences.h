// Sentence segmentation by Unicode's rules (UAX #29, sentence boundaries, in ICU's language-neutral form),
// and reordering of a text's sentences.
//
// The rules use punctuation, case and line ends. "A dog. A cat." has two sentences. "a dog. a cat." has one,
// because lower case after a full stop may follow an abbreviation. The text "Dr. Who" has two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// Splits a text into consecutive sentences, each with the white space after it; together they are the text.
// None is empty; the empty text has none. Accepts any bytes; text beyond 1 GiB belongs to the last sentence.
// Returns kInternal if ICU lacks its tables. Returns views into `text`. Linear, thread-safe.
Result<std::vector<std::string_view>> split_sentences(std::string_view text);

// Returns the sentences in a uniformly random order different from the original, trimmed and joined by a
// space. A text of fewer than two sentences is returned unchanged (except for white space). Deterministic in
// `seed` on every machine. Returns the errors of split_sentences.
Result<std::string> permute_sentences(std::string_view text, uint64_t seed);

}  // namespace saccade
