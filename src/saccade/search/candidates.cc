#include "saccade/search/candidates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/collection/rows/approximate_index.h"
#include "saccade/index/max_sim.h"

namespace saccade {
namespace {

struct ByScore {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
  }
};

// Returns the number of rows that are looked for, so that `count` are left of them.
int64_t looked_for(int64_t count, const CandidateRows& rows) {
  return count + std::ssize(rows.without);
}

// Returns true if the approximate index is to be used, and that pays.
bool uses_lists(int64_t k, const CandidateRows& rows) {
  return rows.approximate != nullptr && lists_pay(rows.probe, rows.count, k);
}

// Scores the rows: through the approximate index, or all.
Result<FoundRows> find_best(const CollectionReader& collection, std::span<const float> query, int64_t k,
                            const CandidateRows& rows, ThreadPool& pool, RowFinder& finder,
                            Candidates& found) {
  const SearchedRows searched{collection.rows(), rows.allowed, collection.int8_rows(), rows.stop};
  if (uses_lists(k, rows)) {
    auto near = find_near_rows(searched, rows.approximate->lists, *rows.approximate->checks, rows.probe,
                               query, k, pool, rows.wanted);
    found.approximate = near.has_value();
    if (near || near.error().code != ErrorCode::kBadData) return near;
    found.why_exact = near.error().message;
  }
  return finder.find({collection.rows(), rows.allowed, collection.int8_rows()}, query, k, rows.wanted, pool);
}

// whole_ties: of the rows that score as the last, which may go on, none.
Result<Candidates> by_one_row(const CollectionReader& collection, std::span<const float> query, int64_t count,
                              bool whole_ties, const CandidateRows& rows, ThreadPool& pool,
                              RowFinder& finder) {
  Candidates found;
  SACCADE_ASSIGN(FoundRows answers,
                 find_best(collection, query, looked_for(count, rows), rows, pool, finder, found));
  const auto candidate = [&](const RowScore& row) {
    return Candidate{row.row, collection.ids()[static_cast<size_t>(row.row)], row.score, row.score};
  };
  std::vector<RowScore>& best = answers.best.front();
  std::erase_if(best, [&](const RowScore& row) { return rows.without.contains(row.row); });
  if (std::ssize(best) > count) best.resize(static_cast<size_t>(count));
  found.complete = static_cast<int64_t>(best.size()) < count;
  if (!found.complete && whole_ties) {
    const float last = best.back().score;
    while (!best.empty() && best.back().score == last) best.pop_back();
  }
  found.best.reserve(best.size());
  for (const RowScore& row : best) found.best.push_back(candidate(row));
  for (size_t i = 0; i < rows.wanted.size(); ++i) {
    const RowScore row = {rows.wanted[i], answers.wanted.front()[i]};
    // All that rank before the last of the best are among them.
    const bool there = found.complete || (!best.empty() && !ranks_before(best.back(), row));
    if (!there && !std::isnan(row.score)) found.brought.push_back(candidate(row));
  }
  if (!answers.rescored.empty()) found.rescored = answers.rescored.front();
  std::ranges::sort(found.best, ByScore());
  std::ranges::sort(found.brought, ByScore());
  return found;
}

// Scores candidates again, by late interaction.
Status score_late(const CollectionReader& collection, const PackedQuery& late, ThreadPool& pool,
                  const std::stop_token& stop, std::vector<Candidate>& candidates) {
  if (candidates.empty()) return {};
  constexpr size_t kBlock = 1024;
  for (size_t begin = 0; begin < candidates.size(); begin += kBlock) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop while searching");
    const auto block = std::span(candidates).subspan(begin, std::min(kBlock, candidates.size() - begin));
    std::vector<StoredRows> items;
    for (const Candidate& candidate : block) items.push_back(collection.late_rows(candidate.row));
    SACCADE_ASSIGN(const std::vector<float> scores, max_sim(items, late, pool));
    for (size_t i = 0; i < scores.size(); ++i) block[i].score = scores[i];
  }
  // Only damaged rows have none: they are no hits, as in the first stage.
  std::erase_if(candidates, [](const Candidate& candidate) { return !std::isfinite(candidate.score); });
  std::ranges::sort(candidates, ByScore());
  return {};
}

}  // namespace

std::optional<RowRequest> row_request(std::span<const float> query, int64_t count,
                                      const CandidateRows& rows) {
  const int64_t k = looked_for(count, rows);
  if (uses_lists(k, rows)) return std::nullopt;
  return RowRequest{query, k, rows.wanted};
}

Result<Candidates> find_candidates(const CollectionReader& collection, std::span<const float> query,
                                   int64_t count, const CandidateRows& rows, ThreadPool& pool,
                                   RowFinder& finder) {
  return by_one_row(collection, query, count, true, rows, pool, finder);
}

Result<Candidates> find_late_candidates(const CollectionReader& collection, std::span<const float> query,
                                        const PackedQuery& late, int64_t count, const CandidateRows& rows,
                                        ThreadPool& pool, RowFinder& finder) {
  SACCADE_ASSIGN(Candidates found, by_one_row(collection, query, count, false, rows, pool, finder));
  found.scored = std::ssize(found.best) + std::ssize(found.brought);
  SACCADE_TRY(score_late(collection, late, pool, rows.stop, found.best));
  SACCADE_TRY(score_late(collection, late, pool, rows.stop, found.brought));
  return found;
}

void join_brought(Candidates& candidates) {
  if (candidates.brought.empty()) return;
  std::vector<Candidate> all(candidates.best.size() + candidates.brought.size());
  std::ranges::merge(candidates.best, candidates.brought, all.begin(), ByScore());
  candidates.best = std::move(all);
  candidates.brought.clear();
}

}  // namespace saccade
