// Sentences for people about an answer, beside those of answer.h.
#pragma once

#include <string>
#include <vector>

#include "saccade/search/search_answer.h"

namespace saccade {

// Returns a line about how many images were scored in full; "" if a scan of one embedding each was all.
std::string scored_note(const SearchAnswer& answer);

// Returns a note on an answer that is approximate, or on why it is not although the collection has an index; else "".
std::string approximate_note(const SearchAnswer& answer);

// Returns warnings about the answer: a text that was cut, for the search or for reranking; images that could not be
// reranked. A cut text's warning is the first. Empty if there are none. The command line, the server and pages show the same.
std::vector<std::string> answer_warnings(const SearchAnswer& answer);
// Returns those of reranking alone.
std::vector<std::string> rerank_warnings(const Reranking& reranking);

}  // namespace saccade
