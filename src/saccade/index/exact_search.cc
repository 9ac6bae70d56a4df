#include "saccade/index/exact_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "saccade/index/best_rows.h"
#include "saccade/index/bounded_search.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/listed_rows.h"
#include "saccade/index/row_sample.h"

namespace saccade {
namespace {

// Numbers of rows and queries scored together, so that both stay in the second-level cache: 128 KiB of each
// at 512 columns.
constexpr int64_t kTileRows = 64;
constexpr int64_t kBlockQueries = 64;
// Minimum number of rows that a thread takes at a time; smaller parts would mainly fill their lists of the
// best.
constexpr int64_t kMinPartRows = 4096;

// Smallest k for which the k-th best score is estimated from a sample.
constexpr int64_t kFewestGuessed = 128;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

bool is_allowed(const SearchedRows& searched, int64_t row) {
  return searched.allowed.empty() || searched.allowed[static_cast<size_t>(row)] != 0;
}

// Rows of one query whose scores are requested and not known yet, ascending, and the destination of the
// scores.
struct Wanted {
  std::span<const int64_t> rows;
  float* scores = nullptr;

  void skip(size_t count) {
    rows = rows.subspan(count);
    scores += count;
  }
  // Drops rows before `row`.
  void begin_at(int64_t row) {
    skip(static_cast<size_t>(std::ranges::lower_bound(rows, row) - rows.begin()));
  }
  // Takes the scores of these rows, ascending.
  void take(std::span<const int64_t> scored, const float* of_scored) {
    for (; !rows.empty() && rows.front() <= scored.back(); skip(1)) {
      const auto at = std::ranges::lower_bound(scored, rows.front());
      if (*at == rows.front()) *scores = of_scored[at - scored.begin()];
    }
  }
};

// Block of queries with the inputs of their search.
struct Block {
  const SearchedRows& searched;
  int64_t from = 0;                 // the first row
  MatrixView<const float> queries;  // padded
  std::span<const Wanted> wanted;   // one per query, or empty
  int64_t k = 0;

  [[nodiscard]] bool allows(int64_t row) const { return is_allowed(searched, row); }
};

// Scores rows [begin, end) against the block's queries and offers them to `best`, one list per query.
void search_part(const Block& block, int64_t begin, int64_t end, std::span<BestRows> best, DotKernel dot) {
  const MatrixView<const float> rows = block.searched.rows;
  std::array<const float*, kTileRows + kDotRowGroup> tile{};
  std::array<int64_t, kTileRows> tile_rows{};
  std::vector<float> scores(static_cast<size_t>(kTileRows) * best.size());
  std::vector<Wanted> wanted(block.wanted.begin(), block.wanted.end());
  for (Wanted& of_query : wanted) of_query.begin_at(begin);
  int64_t next = begin;
  while (next < end && !block.searched.stop.stop_requested()) {
    int64_t count = 0;
    for (; next < end && count < kTileRows; ++next) {
      if (!block.allows(next)) continue;
      tile_rows[static_cast<size_t>(count)] = next;
      tile[static_cast<size_t>(count++)] = rows.data() + next * rows.stride();
    }
    if (count == 0) break;
    // The kernel prefetches the rows that follow, or the last one again.
    for (int64_t ahead = 0; ahead < kDotRowGroup; ++ahead) {
      const int64_t row = std::min(next + ahead, end - 1);
      tile[static_cast<size_t>(count + ahead)] = rows.data() + row * rows.stride();
    }
    dot(tile.data(), count, block.queries.data(), block.queries.rows(), rows.columns(), scores.data());
    const auto scored = std::span<const int64_t>(tile_rows).first(static_cast<size_t>(count));
    for (size_t q = 0; q < best.size(); ++q) {
      const float* of_query = scores.data() + q * scored.size();
      best[q].offer(scored, of_query);
      if (!wanted.empty()) wanted[q].take(scored, of_query);
    }
  }
}

int64_t count_allowed(const SearchedRows& searched, int64_t from = 0) {
  if (searched.allowed.empty()) return searched.rows.rows() - from;
  return std::ranges::count_if(searched.allowed.subspan(static_cast<size_t>(from)),
                               [](uint8_t flag) { return flag != 0; });
}

// Returns the queries for 8-bit rows, or an empty vector if those are not to be used. More than
// kBoundedQueries queries are limited by arithmetic, not by memory, and are as fast with full rows.
std::vector<Int8Query> int8_queries(const SearchedRows& searched, MatrixView<const float> queries,
                                    int64_t k) {
  if (searched.int8.count == 0 || queries.rows() > kBoundedQueries) return {};
  const int64_t allowed = count_allowed(searched);
  if (k > allowed / 8 || allowed < searched.rows.rows() / 4) return {};
  std::vector<Int8Query> made;
  for (int64_t q = 0; q < queries.rows(); ++q) {
    made.push_back(make_int8_query(queries.row(q)));
    if (!made.back().usable) return {};
  }
  return made;
}

Status check_search(const SearchedRows& searched, MatrixView<const float> queries, int64_t k) {
  const MatrixView<const float> rows = searched.rows;
  if (k < 0) return fail(ErrorCode::kUsage, "k is {}, expected 0 or more", k);
  if (rows.rows() > 0 && queries.rows() > 0 && rows.columns() != queries.columns()) {
    return fail(ErrorCode::kMismatch, "queries have {} columns, the rows searched have {}", queries.columns(),
                rows.columns());
  }
  if (!searched.allowed.empty() && static_cast<int64_t>(searched.allowed.size()) != rows.rows()) {
    return fail(ErrorCode::kMismatch, "the filter covers {} rows, there are {}", searched.allowed.size(),
                rows.rows());
  }
  const Int8Rows& int8 = searched.int8;
  if (int8.count > 0 && (int8.dim != rows.columns() || int8.count > rows.rows())) {
    return fail(ErrorCode::kMismatch, "{} rows of {} columns in eight bits, the rows searched are {} of {}",
                int8.count, int8.dim, rows.rows(), rows.columns());
  }
  return {};
}

Status check_wanted(const SearchedRows& searched, MatrixView<const float> queries,
                    std::span<const std::span<const int64_t>> wanted) {
  if (!wanted.empty() && static_cast<int64_t>(wanted.size()) != queries.rows()) {
    return fail(ErrorCode::kMismatch, "rows are wanted for {} queries, there are {}", wanted.size(),
                queries.rows());
  }
  for (const std::span<const int64_t> rows : wanted) {
    if (rows.empty()) continue;
    if (!std::ranges::is_sorted(rows) || rows.front() < 0 || rows.back() >= searched.rows.rows()) {
      return fail(ErrorCode::kMismatch, "rows {} to {} are wanted, expected ascending ones of {}",
                  rows.front(), rows.back(), searched.rows.rows());
    }
  }
  return {};
}

// Estimates from a sample of the rows, for each query, a score that most likely slightly more than k rows
// reach. With it a pass keeps few rows beyond the k best; without it, it would keep most of the first rows it
// meets. Returns kNothing if an estimate is not worth its cost.
std::vector<float> guess_floors(const Block& block, ThreadPool& pool) {
  const MatrixView<const float> rows = block.searched.rows;
  std::vector<float> floors(static_cast<size_t>(block.queries.rows()), kNothing);
  const int64_t count = rows.rows() - block.from;
  if (block.k < kFewestGuessed || count < 16 * kSampleRows) return floors;
  std::vector<int64_t> sample = row_sample(block.from, rows.rows());
  std::erase_if(sample, [&](int64_t row) { return !block.allows(row); });
  // Expected number of sampled rows among the best k, with a standard deviation of its square root. Four
  // standard deviations are added, so one guess in about ten thousand is too high.
  const auto sampled = static_cast<double>(sample.size());
  const double expected =
      sampled * static_cast<double>(block.k) /
      static_cast<double>(std::max<int64_t>(1, count_allowed(block.searched, block.from)));
  const double rank = std::ceil(expected + 4 * std::sqrt(expected) + 4);
  if (!(rank <= sampled / 4)) return floors;
  Matrix<float> scores(block.queries.rows(), std::ssize(sample));
  pool.parallel_for(std::ssize(sample), kTileRows, [&](int64_t begin, int64_t end) {
    score_listed(rows, sample, begin, end, block.queries, [&](int64_t i, int64_t q, float score) {
      scores(q, i) = std::isnan(score) ? kNothing : score;
    });
  });
  for (int64_t q = 0; q < block.queries.rows(); ++q) {
    const auto last = scores.row(q).begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::ranges::nth_element(scores.row(q), last, std::greater<>());
    floors[static_cast<size_t>(q)] = *last;
  }
  return floors;
}

// Scores the block's rows in parts and offers them to `best`, one list per query, with `trial` as the initial
// threshold. Returns the queries, by number, for which fewer than k rows reach it; nothing was offered for
// these.
std::vector<int64_t> search_block(const Block& block, std::span<const float> trial, std::span<BestRows> best,
                                  ThreadPool& pool) {
  const int64_t rows = block.searched.rows.rows() - block.from;
  // The best k do not depend on how rows are cut into parts, because ranks_before is a total order.
  const int64_t part_rows = std::max(kMinPartRows, rows / (int64_t{4} * pool.size()) + 1);
  const int64_t parts = (rows + part_rows - 1) / part_rows;
  const DotKernel dot = dot_kernels().front().run;
  std::vector<std::vector<BestRows>> lists(static_cast<size_t>(parts));
  // Scores that k rows of each query are known to reach; later parts keep nothing below them.
  std::vector<std::atomic<float>> floors(best.size());
  for (size_t q = 0; q < floors.size(); ++q) floors[q] = std::max(best[q].least(), trial[q]);
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      std::vector<BestRows>& own = lists[static_cast<size_t>(part)];
      own.reserve(floors.size());
      for (const std::atomic<float>& floor : floors) own.emplace_back(block.k, floor.load());
      search_part(block, block.from + part * part_rows, block.from + std::min(rows, (part + 1) * part_rows),
                  own, dot);
      for (size_t q = 0; q < own.size(); ++q) {
        const float least = own[q].least();
        for (float known = floors[q].load();
             known < least && !floors[q].compare_exchange_weak(known, least);) {
        }
      }
    }
  });
  std::vector<int64_t> failed;
  for (size_t q = 0; q < best.size(); ++q) {
    int64_t kept = 0;
    for (std::vector<BestRows>& part : lists) kept += std::ssize(part[q].rows());
    if (trial[q] > best[q].least() && kept < block.k) {
      failed.push_back(static_cast<int64_t>(q));
      continue;
    }
    for (std::vector<BestRows>& part : lists) {
      for (const RowScore& row : part[q].rows()) best[q].offer(row.row, row.score);
    }
  }
  return failed;
}

// Offers rows from `from` on to the lists of the best, one per query. padded: the queries. wanted: one per
// query, or empty.
void search_in_full(const SearchedRows& searched, int64_t from, const Matrix<float>& padded, int64_t k,
                    ThreadPool& pool, std::span<BestRows> best, std::span<const Wanted> wanted) {
  if (searched.rows.rows() == from) return;
  for (int64_t first = 0; first < padded.rows(); first += kBlockQueries) {
    const int64_t count = std::min(kBlockQueries, padded.rows() - first);
    const auto at = static_cast<size_t>(first);
    const auto of_block = best.subspan(at, static_cast<size_t>(count));
    const Block block{searched, from, padded.view().slice(first, count),
                      wanted.empty() ? wanted : wanted.subspan(at, static_cast<size_t>(count)), k};
    if (searched.stop.stop_requested()) return;
    const std::vector<int64_t> failed = search_block(block, guess_floors(block, pool), of_block, pool);
    if (failed.empty()) continue;
    // The sample was not representative: search again for the queries that failed.
    Matrix<float> queries(std::ssize(failed), padded.columns());
    std::vector<BestRows> lists;
    for (int64_t i = 0; i < queries.rows(); ++i) {
      const int64_t q = failed[static_cast<size_t>(i)];
      std::ranges::copy(block.queries.row(q), queries.row(i).begin());
      lists.push_back(std::move(of_block[static_cast<size_t>(q)]));
    }
    const std::vector<float> nothing(failed.size(), kNothing);
    search_block({searched, from, std::as_const(queries).view(), {}, k}, nothing, lists, pool);
    for (size_t i = 0; i < failed.size(); ++i) of_block[static_cast<size_t>(failed[i])] = std::move(lists[i]);
  }
}

}  // namespace

Result<FoundRows> find_rows(const SearchedRows& searched, MatrixView<const float> queries, int64_t k,
                            ThreadPool& pool, std::span<const std::span<const int64_t>> wanted) {
  SACCADE_TRY(check_search(searched, queries, k));
  SACCADE_TRY(check_wanted(searched, queries, wanted));
  const MatrixView<const float> rows = searched.rows;
  FoundRows found;
  found.best.resize(static_cast<size_t>(queries.rows()));
  std::vector<Wanted> looked_for;
  found.wanted.reserve(wanted.size());
  for (const std::span<const int64_t> of_query : wanted) {
    auto& scores = found.wanted.emplace_back(of_query.size(), std::numeric_limits<float>::quiet_NaN());
    looked_for.push_back({of_query, scores.data()});
  }
  if (k == 0 || rows.rows() == 0 || queries.rows() == 0) return found;

  Matrix<float> padded(queries.rows(), padded_dim(rows.columns()));
  for (int64_t q = 0; q < queries.rows(); ++q) std::ranges::copy(queries.row(q), padded.row(q).begin());
  std::vector<BestRows> best(static_cast<size_t>(queries.rows()), BestRows(k));
  const std::vector<Int8Query> by_codes = int8_queries(searched, queries, k);
  if (!by_codes.empty()) {
    BoundedBest bounded = bounded_search(rows, searched.int8, by_codes, std::as_const(padded).view(), k,
                                         searched.allowed, pool);
    best = std::move(bounded.best);
    found.rescored = std::move(bounded.rescored);
    // No pass over all rows will score these.
    for (size_t q = 0; q < looked_for.size(); ++q) {
      const auto query = std::as_const(padded).view().slice(static_cast<int64_t>(q), 1);
      score_listed(rows, wanted[q], 0, std::ssize(wanted[q]), query, [&](int64_t i, int64_t, float score) {
        if (is_allowed(searched, wanted[q][static_cast<size_t>(i)]))
          found.wanted[q][static_cast<size_t>(i)] = score;
      });
    }
    looked_for.clear();
  }
  search_in_full(searched, by_codes.empty() ? 0 : searched.int8.count, padded, k, pool, best, looked_for);
  if (searched.stop.stop_requested()) return fail(ErrorCode::kCancelled, "search: asked to stop");
  for (size_t q = 0; q < best.size(); ++q) {
    found.best[q] = best[q].rows();
    std::ranges::sort(found.best[q], RanksBefore());
  }
  return found;
}

Result<std::vector<std::vector<RowScore>>> exact_search(MatrixView<const float> rows,
                                                        MatrixView<const float> queries, int64_t k,
                                                        ThreadPool& pool, std::span<const uint8_t> allowed) {
  SACCADE_ASSIGN(FoundRows found, find_rows({rows, allowed, {}}, queries, k, pool));
  return std::move(found.best);
}

}  // namespace saccade
