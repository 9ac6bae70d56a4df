#include "saccade/search/matching/hit_judge.h"

#include <algorithm>
#include <vector>

#include "saccade/search/matching/evidence.h"
#include "saccade/text/caption_queries.h"

namespace saccade {

HitJudge judge_of(const CollectionReader& collection, const SearchQuery& query) {
  if (collection.has_late_rows()) {
    return {
        .reason =
            "scores of late interaction are not calibrated: they grow with the number of the text's tokens"};
  }
  if (query.background == nullptr) {
    return {.reason = "the collection has not been measured: `saccade index` does that"};
  }
  if (!query.is_plain()) return {.reason = "queries of several parts are not calibrated"};
  if (query.text.has_words() && !query.images.empty()) {
    return {.reason = "queries of a text and an image together are not calibrated"};
  }
  const Background& background = *query.background;
  const Background::Kind& kind = query.images.empty() ? background.text : background.picture;
  if (kind.surroundings.mean_query.empty()) return {.reason = kind.model.reason};
  if (query.images.empty() && query.keyword_weight > 0)
    return {.kind = &kind, .texts = &background.texts, .reason = {}};
  return {.kind = &kind, .reason = kind.model.reason};
}

std::map<int64_t, HitLikelihood> judge_candidates(const CollectionReader& collection,
                                                  std::span<const float> row, const HitJudge& judge,
                                                  const Candidates& candidates, const SearchWords& words,
                                                  SearchAnswer& answer) {
  Matching& matching = answer.matching.emplace();
  matching.reason = judge.reason;
  std::map<int64_t, HitLikelihood> by_row;
  if (judge.kind == nullptr) return by_row;
  const MatchModel& model = judge.kind->model;
  matching.tells = judge.tells();
  if (answer.query.background->sample > 0) {
    matching.sample = Matching::Sample{answer.query.background->sample, answer.query.background->items};
  }
  matching.queries = model.queries;
  matching.labelled = model.labelled;
  std::vector<RowScore> best;
  for (const Candidate& candidate : candidates.best) best.push_back({candidate.row, candidate.score});
  Judgement judgement = judge_hits(model, judge.kind->surroundings, collection.rows(), row, best,
                                   answer.searched, std::ssize(caption_words(answer.query.text.str())));
  matching.there = judgement.there;
  matching.p_value = judgement.p_value;
  if (judge.texts != nullptr && !best.empty()) {
    matching.shipped = !judge.texts->measured;
    matching.labelled = judge.texts->labelled;
    matching.there = 0;
    const LogOdds log_odds(best, judge.kind->surroundings.temperature);
    for (size_t i = 0; i < best.size(); ++i) {
      const KeywordRanking::Place* place = place_of(words.ranking, best[i].row);
      const double score{best[i].score};
      judgement.hits[i].right = match_probability(words.scale, score, log_odds.of(score),
                                                  place != nullptr ? place->evidence : WordEvidence(),
                                                  words_for(words.ranking, place, judge.texts->described));
      matching.there = std::max(matching.there, judgement.hits[i].right);
    }
  }
  for (size_t i = 0; i < best.size(); ++i) by_row.emplace(best[i].row, judgement.hits[i]);
  return by_row;
}

}  // namespace saccade
