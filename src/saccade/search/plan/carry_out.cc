#include "saccade/search/plan/carry_out.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "saccade/index/likelihood.h"
#include "saccade/search/candidates.h"
#include "saccade/search/fold.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/matching/hit_judge.h"
#include "saccade/search/matching/query_scale.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

Result<std::vector<SearchHit>> hits_of(const CollectionReader& collection, const std::vector<Group>& groups,
                                       bool late) {
  std::vector<SearchHit> hits;
  for (const Group& group : groups) {
    SearchHit hit;
    hit.rank = static_cast<int64_t>(hits.size()) + 1;
    hit.score = group.first.score;
    if (late) hit.pooled_score = group.first.pooled_score;
    SACCADE_ASSIGN(hit.item, collection.item(group.first.id));
    SACCADE_ASSIGN(hit.facts, collection.facts(group.first.id));
    for (const Candidate& other : group.others) {
      SACCADE_ASSIGN(Item item, collection.item(other.id));
      const bool same_bytes = item.hash == hit.item.hash && !item.hash.empty();
      hit.folded.push_back({std::move(item), other.score, same_bytes});
    }
    hits.push_back(std::move(hit));
  }
  return hits;
}

// Returns true if a caption of the item is the query.
Result<bool> caption_is(const CollectionReader& collection, int64_t id,
                        const std::vector<std::string>& asked) {
  SACCADE_ASSIGN(const Item item, collection.item(id));
  const auto parts = caption_parts(item.caption);
  return std::ranges::any_of(parts, [&](std::string_view part) { return caption_words(part) == asked; });
}

// Returns true if images that were not looked at may be as likely. Those without words of the query score at most as high as
// the last candidate without such words. Those with words are all candidates, down to the last rank by words.
bool may_miss_likely(const Candidates& candidates, const KeywordRanking& words,
                     const std::function<bool(int64_t row)>& is_likely) {
  const std::vector<Candidate>& best = candidates.best;
  if (candidates.complete || best.empty()) return false;
  const auto last = std::find_if(best.rbegin(), best.rend(), [&](const Candidate& candidate) {
    return place_of(words, candidate.row) == nullptr;
  });
  if (is_likely(last == best.rend() ? best.back().row : last->row)) return true;
  if (words.report.pictures <= std::ssize(words.places)) return false;
  const auto weakest =
      std::ranges::max_element(words.places, {}, [](const auto& place) { return place.second.rank; });
  return weakest != words.places.end() && is_likely(weakest->first);
}

// Returns the hits of the candidates that pass the cut, and those whose caption is the query. All candidates are
// judged first, so that only few are grouped.
Result<Folding> cut_and_fold(Candidates candidates, SearchWords& words,
                             const std::map<int64_t, HitLikelihood>& likelihoods,
                             const CollectionReader& collection, const SearchQuery& query,
                             SearchAnswer& answer) {
  Matching& matching = *answer.matching;
  const std::vector<std::string> asked = caption_words(query.text.str());
  std::vector<Candidate> left;
  const auto is_likely = [&](int64_t row) {
    const auto found = likelihoods.find(row);
    return found != likelihoods.end() && found->second.right >= *query.min_probability;
  };
  for (const auto& [row, likelihood] : likelihoods) {
    if (!(matching.best >= likelihood.right)) matching.best = likelihood.right;
  }
  matching.more = may_miss_likely(candidates, words.ranking, is_likely);
  for (const Candidate& candidate : candidates.best) {
    bool passes = is_likely(candidate.row);
    const KeywordRanking::Place* place = place_of(words.ranking, candidate.row);
    if (!passes && place != nullptr && place->evidence.all) {
      SACCADE_ASSIGN(passes, caption_is(collection, candidate.id, asked));
    }
    if (passes) left.push_back(candidate);
  }
  matching.cut_hits = std::ssize(candidates.best) - std::ssize(left);
  candidates.best = std::move(left);
  if (words.change()) {
    words.ranks = fuse_ranks(words.ranking, query.keyword_weight, words.scale, candidates.best);
  }
  Folding folding =
      fold(candidates, collection, query, std::ssize(candidates.best), std::ssize(candidates.best));
  matching.passed = std::ssize(folding.groups);
  if (matching.passed > query.k) folding.groups.resize(static_cast<size_t>(query.k));
  return folding;
}

// Checks that the near-duplicates are within the query's limit.
Status check_grouped(const SearchQuery& query, const Folding& folding) {
  if (!query.most_grouped) return {};
  int64_t grouped = 0;
  for (const Group& group : folding.groups) grouped += std::ssize(group.others);
  if (grouped <= *query.most_grouped) return {};
  return fail(ErrorCode::kLimit,
              "near-duplicates from a cosine of {} on are more than {}: raise group_above, or set "
              "group_duplicates to false",
              query.duplicate_cosine, *query.most_grouped);
}

// Returns the number of the first candidates, in the order of `words.ranks`, that rank before every image that was not found.
// last: the lowest score of those that were found by it.
int64_t ranked_before(float last, const SearchWords& words, const SearchQuery& query,
                      std::span<const Candidate> fused) {
  const double beyond = order_of(words.scale, last, {}, query.keyword_weight);
  for (size_t i = 0; i < fused.size(); ++i) {
    const KeywordRanking::Place* place = words.ranks[i].by_words;
    const double order = order_of(words.scale, fused[i].score,
                                  place != nullptr ? place->evidence : WordEvidence(), query.keyword_weight);
    if (order < beyond || (order == beyond && fused[i].score < last)) return static_cast<int64_t>(i);
  }
  return std::ssize(fused);
}

}  // namespace

Result<SearchAnswer> carry_out(const CollectionReader& collection, const RowQuery& asked, SearchPlan plan,
                               ThreadPool& pool, RowFinder& finder) {
  const std::span<const float> row = asked.row;
  const PackedQuery* late = asked.late;
  const HitJudge* by = asked.by;
  const SearchQuery& query = asked.query;
  const WholeCollection* whole = asked.whole;
  SearchAnswer& answer = plan.answer;
  if (plan.first == 0) return std::move(answer);
  SearchWords& words = plan.words;
  const CandidateRows& rows = plan.rows;
  const ListRecall* recall = plan.recall;
  const auto say_how = [&](const Candidates& found) {
    answer.rescored = found.rescored;
    if (!found.why_exact.empty()) answer.why_exact = found.why_exact;
    answer.approximate.reset();
    if (!found.approximate) return;
    answer.approximate = {
        .recall = recall->measured, .queries = recall->queries, .texts = query.text.has_words()};
  };
  Folding folding;
  Candidates candidates;
  std::map<int64_t, HitLikelihood> likelihoods;
  if (by != nullptr && query.min_probability) {
    // Further where that many score alike.
    for (int64_t count = plan.first; candidates.best.empty() && !candidates.complete; count *= 4) {
      SACCADE_ASSIGN(candidates, find_candidates(collection, row, std::min(count, answer.searched + 1), rows,
                                                 pool, finder));
    }
    say_how(candidates);
    if (whole != nullptr && !whole->complete) candidates.complete = false;
    join_brought(candidates);
    likelihoods = judge_candidates(collection, row, *by, candidates, words, answer);
    SACCADE_ASSIGN(folding,
                   cut_and_fold(std::move(candidates), words, likelihoods, collection, query, answer));
    folding.settled = true;
  }
  // The same copies are grouped whether or not hits are judged, which looks at more candidates.
  const int64_t depth = first_count(query, answer.searched, late != nullptr, false, words.change());
  for (int64_t count = plan.first; !folding.settled; count *= 4) {
    count = std::min(count, answer.searched + 1);
    SACCADE_TRY(check_stop(query));
    SACCADE_TRY(check_grouped(query, folding));
    if (late != nullptr) {
      SACCADE_ASSIGN(candidates, find_late_candidates(collection, row, *late, count, rows, pool, finder));
      answer.late_scored = candidates.scored;
    } else {
      SACCADE_ASSIGN(candidates, find_candidates(collection, row, count, rows, pool, finder));
    }
    say_how(candidates);
    if (!words.change()) {
      folding = fold(candidates, collection, query, query.k, depth);
      continue;
    }
    // So many must be there, and where many score alike they may not be.
    if (!candidates.complete && std::ssize(candidates.best) < kScoreDepth) continue;
    const float last = candidates.best.empty() ? 0 : candidates.best.back().score;
    join_brought(candidates);
    Candidates fused = candidates;
    if (late != nullptr) words.scale = late_scale(fused.best);
    words.ranks = fuse_ranks(words.ranking, query.keyword_weight, words.scale, fused.best);
    // Late interaction ranks the candidates of its first stage alone.
    if (late == nullptr && !fused.complete) fused.ranked = ranked_before(last, words, query, fused.best);
    folding = fold(fused, collection, query, query.k, depth);
  }
  SACCADE_TRY(check_stop(query));
  SACCADE_TRY(check_grouped(query, folding));
  SACCADE_ASSIGN(answer.hits, hits_of(collection, folding.groups, late != nullptr));
  std::unordered_map<int64_t, SearchHit*> hits;  // by row: few, where ranks are hundreds
  if (!words.ranks.empty()) {
    for (SearchHit& hit : answer.hits) hits.emplace(hit.item.row, &hit);
  }
  for (const FusedRank& rank : words.ranks) {
    const auto ranked = hits.find(rank.row);
    if (ranked == hits.end()) continue;
    SearchHit& hit = *ranked->second;
    hit.vector_rank = rank.by_vectors;
    if (rank.by_words == nullptr) continue;
    hit.keywords = keyword_hit(collection, *rank.by_words, *answer.keywords);
  }
  if (by == nullptr) return std::move(answer);
  if (!query.min_probability) likelihoods = judge_candidates(collection, row, *by, candidates, words, answer);
  for (SearchHit& hit : answer.hits) {
    const auto found = likelihoods.find(hit.item.row);
    if (found == likelihoods.end()) continue;
    hit.likelihood = found->second;
    if (answer.matching->tells && !(answer.matching->best >= hit.likelihood->right)) {
      answer.matching->best = hit.likelihood->right;
    }
  }
  return std::move(answer);
}

Result<SearchAnswer> search_with(const CollectionReader& collection, const RowQuery& asked, ThreadPool& pool,
                                 RowFinder& finder) {
  AllowedByFilter known;
  SACCADE_ASSIGN(SearchPlan plan, plan_search(collection, asked, known));
  return carry_out(collection, asked, std::move(plan), pool, finder);
}

}  // namespace saccade
