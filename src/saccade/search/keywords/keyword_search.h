// Word search beside vectors: images whose captions, names or folders contain the query's words, and their place
// among those whose embeddings are near the query's. Not for use outside this module, except its measured constants.
//
// Images are ranked by the evidence of their words (evidence.h). Those that have all words come first. An image
// that has only words for attributes ("red"), of a query that has others, does not match. If no image matches, the
// answer is that of the vectors alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/search/candidates.h"
#include "saccade/search/keywords/keyword_answer.h"
#include "saccade/search/matching/evidence.h"
#include "saccade/search/search_query.h"

namespace saccade {

// Default weight of word search in `saccade search` and the server; docs/keyword-matches.md has measurements with it.
inline constexpr double kWordShare = 0.5;
// Rank down to which images are hits by their words, and more where these are equal.
inline constexpr int64_t kWordDepth = 1000;
// Rank by score that is told of a hit beside its keywords; below it none is.
inline constexpr int64_t kScoreDepth = 200;
// Weight of a word for an attribute in the coverage of a query that has other words; theirs is 1.
inline constexpr double kAttributeWeight = 0.3;

// The query's words as word search takes them: in quotes together, each other one alone; function
// words are left out where there are others.
std::vector<std::string> word_terms(const SearchQuery& query);

// Returns true if a search for the query looks up its words. With a query image, the text describes a change rather than
// the wanted image.
bool searches_words(const SearchQuery& query);

struct KeywordRanking {
  struct Place {
    int64_t id = 0;
    int64_t rank = 0;  // from 1; equal evidence shares it
    WordEvidence evidence;
  };
  KeywordSearch report;
  QueryWords words;
  std::vector<std::pair<int64_t, Place>> places;  // of each row, ascending; down to kWordDepth
};

// kUsage for a share that is not within [0, 1]. A catalog whose words cannot be read is no error: the report
// says why nothing was searched. `allowed`: as find_rows takes it.
Result<KeywordRanking> rank_by_keywords(const CollectionReader& collection, const SearchQuery& query,
                                        std::span<const uint8_t> allowed);

// Rank of a candidate after fusion.
struct FusedRank {
  int64_t row = 0;
  std::optional<int64_t> by_vectors;                // nothing below kScoreDepth
  const KeywordRanking::Place* by_words = nullptr;  // of the ranking; nullptr: it is not there
};

// Word search state of one search.
struct SearchWords {
  KeywordRanking ranking;
  ScoreScale scale;              // of the query's scores
  std::vector<FusedRank> ranks;  // of the candidates, in their order

  [[nodiscard]] bool change() const { return !ranking.places.empty(); }
};

// candidates: by score, and all that words brought are among them. Puts them by order_of(); equal ones stay by score.
// Returns their ranks, in that order too, which refer to `words`.
std::vector<FusedRank> fuse_ranks(const KeywordRanking& words, double share, const ScoreScale& scale,
                                  std::vector<Candidate>& candidates);
// Returns the place of a row among the keyword matches; `nullptr` if it is none.
const KeywordRanking::Place* place_of(const KeywordRanking& words, int64_t row);

// Returns the query's words as match_probability takes them for one image. They count as known if the image has some of
// them, or if enough images have words for none to mean anything. place: of the image; described: share of the
// collection's images with words.
QueryWords words_for(const KeywordRanking& words, const KeywordRanking::Place* place, double described);

// Finds the terms that the image has, and their fields. If the catalog cannot say, the hit has no matches, and
// report.reason has the error.
KeywordHit keyword_hit(const CollectionReader& collection, const KeywordRanking::Place& place,
                       KeywordSearch& report);

}  // namespace saccade
