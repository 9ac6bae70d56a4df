// Lexicons of a study of visualness: the given one, and one expanded by each file of word vectors. Also what
// is said about them: words of high, medium and low ratings (Verma et al. 2023, table 6), and the correlation
// with people's ratings (appendix A.2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/visualness/visualness_metrics.h"
#include "saccade/core/error.h"
#include "saccade/search/visualness/lexicon.h"

namespace saccade::lab {

struct NamedLexicon {
  std::string name;  // "mrc", or "mrc + word2vec"
  Lexicon lexicon;
  std::optional<WordVectors> vectors;  // those that expanded it
};

// Returns the lexicon, and behind it one for each file of vectors, in which the `wanted` words are rated too.
// Errors: those of expand_lexicon.
Result<std::vector<NamedLexicon>> expand_lexicons(const Lexicon& lexicon,
                                                  std::span<const std::filesystem::path> vectors,
                                                  const std::set<std::string>& wanted);

// People's ratings of words.
struct WordRatings {
  std::string sha256;
  std::map<std::string, double> means;                   // lower-case
  std::map<std::string, std::vector<double>> by_people;  // empty for a lexicon, which has means alone
};
// Reads a lexicon (read_lexicon), or a table of several people's ratings as `dataset label` takes it (data/ratings.h),
// with a word as each text. Errors: those of both.
Result<WordRatings> read_word_ratings(const std::filesystem::path& path);

// Correlates people's ratings with the lexicons' (appendix A.2). The given lexicon is compared over its own
// words, each expanded one over the words to which the expansion gave a rating.
std::vector<WordRatingAgreement> word_rating_agreements(const WordRatings& people,
                                                        std::span<const NamedLexicon> lexicons,
                                                        double confidence);

// Returns the words to which each expansion gave a rating, in the study's three ranges (table 6), with examples
// drawn by the seed.
std::vector<RatedWordList> rated_word_lists(std::span<const NamedLexicon> lexicons, uint64_t seed);

}  // namespace saccade::lab
