// Word search beside vectors: images whose captions, names or folders contain the query's words, fused by
// rank with those whose embeddings are near the query's. Not for use outside this module, except its measured
// constants.
//
// Only the query's words that some image has are weighed. An image matches if it has more than half of their
// weight. A word weighs the more the fewer images have it (BM25's idf; collection/catalog/word_match.h). An
// image's rank is by that weight, and images with the same words share it: the length of a caption tells
// nothing about the image. Ranks are fused as in Cormack, Clarke and Buettcher, SIGIR 2009:
//
//   share / (kRankOffset + rank by words) + (1 - share) / (kRankOffset + rank by vectors)
//
// where a list contributes nothing to an image below kWordDepth. Equal sums are ordered by score. If no image
// has a word of the query, the answer is that of the vectors alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/search/candidates.h"
#include "saccade/search/keywords/word_answer.h"
#include "saccade/search/query.h"

namespace saccade {

// Default weight of word search in `saccade search` and the server; docs/studies.md has the measurements
// behind it.
inline constexpr double kWordShare = 0.5;
inline constexpr double kRankOffset = 60;
inline constexpr int64_t kWordDepth = 1000;

// The query's words as word search takes them: in quotes together, each other one alone; function
// words are left out where there are others.
std::vector<std::string> word_terms(const SearchQuery& query);

struct WordRanking {
  struct Place {
    int64_t id = 0;
    int64_t rank = 0;   // from 1; equal weights share it
    double weight = 0;  // share of what the query's words weigh
  };
  WordSearch report;
  std::vector<std::pair<int64_t, Place>> places;  // of each row, ascending; down to kWordDepth
};

// kUsage for a share that is not within [0, 1]. A catalog whose words cannot be read is no error: the report
// says why nothing was searched. `allowed`: as find_rows takes it.
Result<WordRanking> rank_by_words(const Collection& collection, const SearchQuery& query,
                                  std::span<const uint8_t> allowed);

// Rank of a candidate after fusion.
struct FusedRank {
  int64_t row = 0;
  std::optional<int64_t> by_vectors;             // nothing below kWordDepth
  const WordRanking::Place* by_words = nullptr;  // of the ranking; nullptr: it is not there
};

// candidates: by score, and all that words brought are among them. Puts them into the fused order; the ranks,
// in that order too, which refer to `words`.
std::vector<FusedRank> fuse_ranks(const WordRanking& words, double share, std::vector<Candidate>& candidates);

// Finds the terms that the image has, and their fields.
Result<WordHit> word_hit(const Collection& collection, const WordRanking::Place& place,
                         const WordSearch& report);

}  // namespace saccade
