// Sentence segmentation by Unicode's rules (UAX #29, sentence boundaries, in ICU's language-neutral form),
// and reordering of a text's sentences.
//
// The rules use punctuation, case and line ends. "A dog. A cat." has two sentences. "a dog. a cat." has one,
// because lower case after a full stop may follow an abbreviation. "Dr. Who" has two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// The sentences one behind the other, white space after each included: together they are the text. None is
// empty; the empty text has none. Any bytes; what lies past 1 GiB belongs to the last. kInternal where ICU
// lacks its tables. Views into `text`. Linear, thread-safe.
Result<std::vector<std::string_view>> split_sentences(std::string_view text);

// The sentences in another order than they stand in, each such order as likely, without the white space
// around them and with a space between them. A text of fewer than two (but for white space) as it is. The
// same from the same seed on every machine. Errors as split_sentences.
Result<std::string> permute_sentences(std::string_view text, uint64_t seed);

}  // namespace saccade
