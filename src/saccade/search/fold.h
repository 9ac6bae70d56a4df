// Folds near-duplicates: candidates that look the same, or that one shot made, become one
// group, which is shown as one hit; not for use outside this module.
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/search/candidates.h"
#include "saccade/search/search_query.h"

namespace saccade {

// A future hit, and the candidates grouped under it.
struct Group {
  Candidate first;
  std::vector<Candidate> others;
};

struct Folding {
  std::vector<Group> groups;
  bool settled = false;  // candidates further down would not change the groups
};

// Candidates behind the last hit that may still join its groups, or those before it.
inline constexpr int64_t kBehindLastHit = 256;

// Groups near-duplicates, in order of rank, until the group after the k-th would begin. A candidate joins the
// first group whose first image it resembles (query.duplicate_cosine; with late interaction the rows at equal
// positions too) or is paired with. Pairs are a RAW file and the image of the same name beside it, and a live
// photo and its clip. The image that every program shows leads its pair. Files of the same bytes have the
// same row, so the cosine covers them too. The groups for a smaller k are the first of those for a larger one, but
// for images that rank below: no group moves, or merges with another one, as more candidates are read.
// Cost: a few nanoseconds for each candidate and group, and a dot product for the pairs whose first values leave it
// open (near_rows.h). Pairing by name adds one catalog look-up a candidate, and up to six a name that several groups
// share.
// A copy may stand far behind: one without a caption, where words brought the other. So the next kBehindLastHit of
// the first `depth` candidates join the k groups too, by the cosine alone, without look-ups.
Folding fold(const Candidates& candidates, const CollectionReader& collection, const SearchQuery& query,
             int64_t k, int64_t depth);

}  // namespace saccade
