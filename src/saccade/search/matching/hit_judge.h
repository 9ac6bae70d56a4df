// Judging of hits: their match probabilities by the collection's calibration. Not for use outside this module.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/index/likelihood.h"
#include "saccade/search/candidates.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/matching/background.h"
#include "saccade/search/search_answer.h"
#include "saccade/search/search_query.h"

namespace saccade {

// Calibration that judges the hits of this kind of query, or the reason why there is none.
struct HitJudge {
  const Background::Kind* kind = nullptr;
  // Evidence of both sides, for a text whose words count too. `nullptr`: it is judged by `kind` alone.
  const Background::Texts* texts = nullptr;
  std::string reason;

  [[nodiscard]] bool tells() const { return kind != nullptr && (texts != nullptr || kind->model.tells); }
};

// Returns the calibration for this kind of query, borrowed from query.background.
HitJudge judge_of(const CollectionReader& collection, const SearchQuery& query);

// Returns the likelihoods of the candidates by their rows; none without calibration. Fills answer.matching.
std::map<int64_t, HitLikelihood> judge_candidates(const CollectionReader& collection,
                                                  std::span<const float> row, const HitJudge& judge,
                                                  const Candidates& candidates, const SearchWords& words,
                                                  SearchAnswer& answer);

}  // namespace saccade
