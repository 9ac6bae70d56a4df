#include "saccade/search/candidates.h"

#include <algorithm>
#include <cmath>

#include "saccade/index/max_sim.h"

namespace saccade {
namespace {

void sort(std::vector<Candidate>& candidates) {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
  });
}

Result<Candidates> by_one_row(const Collection& collection, std::span<const float> query, int64_t count,
                              std::span<const uint8_t> allowed, ThreadPool& pool, RowFinder& finder) {
  SACCADE_ASSIGN(const FoundRows answers,
                 finder.find({collection.rows(), allowed, collection.int8_rows()}, query, count, pool));
  Candidates found;
  for (const RowScore& best : answers.best.front()) {
    found.best.push_back({best.row, collection.ids()[static_cast<size_t>(best.row)], best.score, best.score});
  }
  if (!answers.rescored.empty()) found.rescored = answers.rescored.front();
  return found;
}

}  // namespace

Result<Candidates> find_candidates(const Collection& collection, std::span<const float> query, int64_t count,
                                   std::span<const uint8_t> allowed, ThreadPool& pool, RowFinder& finder) {
  SACCADE_ASSIGN(Candidates found, by_one_row(collection, query, count, allowed, pool, finder));
  found.complete = static_cast<int64_t>(found.best.size()) < count;
  if (!found.complete) {
    const float last = found.best.back().score;
    while (!found.best.empty() && found.best.back().score == last) found.best.pop_back();
  }
  sort(found.best);
  return found;
}

Result<Candidates> find_late_candidates(const Collection& collection, std::span<const float> query,
                                        const PackedQuery& late, int64_t count,
                                        std::span<const uint8_t> allowed, ThreadPool& pool,
                                        RowFinder& finder) {
  SACCADE_ASSIGN(Candidates found, by_one_row(collection, query, count, allowed, pool, finder));
  found.scored = static_cast<int64_t>(found.best.size());
  found.complete = found.scored < count;
  std::vector<StoredRows> items;
  for (const Candidate& candidate : found.best) items.push_back(collection.late_rows(candidate.row));
  SACCADE_ASSIGN(const std::vector<float> scores, max_sim(items, late, pool));
  for (size_t i = 0; i < scores.size(); ++i) found.best[i].score = scores[i];
  // Only damaged rows have none: they are no hits, as in the first stage.
  std::erase_if(found.best, [](const Candidate& candidate) { return !std::isfinite(candidate.score); });
  sort(found.best);
  return found;
}

}  // namespace saccade
