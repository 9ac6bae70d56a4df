// Extraction of phrases from English sentences: the runs of words between function words and punctuation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saccade {

inline constexpr size_t kMostPhraseWords = 4;

// Returns the phrases of a sentence and their words: "Look for the penguins standing on the ice." ->
// "penguins standing", "penguins", "standing", "ice". They are in lower case, in text order and without
// duplicates. A run of more than kMostPhraseWords words is cut from its end, where English has its nouns.
// Separators are words of fewer than three letters, numbers, and words without visual content (function
// words, common verbs and adverbs). In other languages the runs are clauses. Accepts any bytes. Cost: linear.
std::vector<std::string> sentence_phrases(std::string_view sentence);

}  // namespace saccade
