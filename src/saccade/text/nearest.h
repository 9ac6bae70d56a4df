// The nearest of some known words to a misspelled one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace saccade {

// Returns the candidate that the word was probably meant to be: the one with the fewest insertions, deletions, replacements
// and swaps of neighbours, at most one for every three letters (one at least), or the only one that begins with the word. ""
// if there is none.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// Returns "; did you mean NAME?", the end of a message about an unknown word, or "" if no candidate is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);
// As above, for names that are constants.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace saccade
