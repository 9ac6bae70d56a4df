// What an English sentence names: the runs of words between its function words and its punctuation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

inline constexpr size_t kMostPhraseWords = 4;

// "Look for the penguins standing on the ice." -> "penguins standing", "penguins", "standing", "ice": the
// runs, and the words of each. Lower case, in the order they stand in, each once; a run of more than
// kMostPhraseWords words is cut into such from its end, where English has its nouns. Words of fewer than
// three letters, numbers, and words that picture nothing by themselves (function words, common verbs and
// adverbs) divide. Of other languages the runs are clauses. Any bytes; linear.
std::vector<std::string> sentence_phrases(std::string_view sentence);

}  // namespace saccade
