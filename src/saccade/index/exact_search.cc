#include "saccade/index/exact_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "saccade/index/best_rows.h"
#include "saccade/index/bounded_search.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/int8_tiles.h"
#include "saccade/index/listed_rows.h"
#include "saccade/index/row_sample.h"

namespace saccade {
namespace {

// Number of rows that kPassQueries queries are scored with, so that both stay in the second-level cache: 128 KiB of
// each at 512 columns.
constexpr int64_t kTileRows = 64;
// Minimum number of rows that a thread takes at a time; smaller parts would mainly fill their lists of the
// best.
constexpr int64_t kMinPartRows = 4096;

// Smallest k for which the k-th best score is estimated from a sample.
constexpr int64_t kFewestGuessed = 128;
constexpr int64_t kLineFloats = 16;  // that are fetched together
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
  // Returns bit r set for each row first + r that is requested, below first + count (at most 64).
  [[nodiscard]] uint64_t within(int64_t first, int64_t count) const {
    uint64_t bits = 0;
    for (const int64_t row : rows) {
      if (row >= first + count) break;
      if (row >= first) bits |= uint64_t{1} << (row - first);
    }
    return bits;
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
  int64_t to = 0;                   // the row after the last
  MatrixView<const float> queries;  // padded
  std::span<const Wanted> wanted;   // one per query, or empty
  int64_t k = 0;
  const Int8TileQueries* coded = nullptr;  // the queries for 8-bit rows, if those are to be used
  std::span<int64_t> rescored = {};        // for these, one per query: the rows scored in full are added

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

// Likewise, but scores only rows that their 8-bit codes cannot exclude, and the wanted ones. scored: receives their number
// for each query.
void search_part_by_codes(const Block& block, int64_t begin, int64_t end, std::span<BestRows> best,
                          DotKernel dot, std::span<int64_t> scored_rows) {
  const MatrixView<const float> rows = block.searched.rows;
  const int64_t padded = block.queries.stride();
  Int8Tile tile(*block.coded);
  std::array<const float*, kInt8TileRows + kDotRowGroup> pointers{};
  std::array<int64_t, kInt8TileRows> numbers{};
  std::array<float, kInt8TileRows> scores{};
  std::vector<uint64_t> left(best.size());  // bit r: row r of the tile is to be scored
  std::vector<Wanted> wanted(block.wanted.begin(), block.wanted.end());
  for (Wanted& of_query : wanted) of_query.begin_at(begin);
  for (int64_t first = begin; first < end && !block.searched.stop.stop_requested(); first += kInt8TileRows) {
    const int64_t count = std::min(kInt8TileRows, end - first);
    uint64_t allowed = 0;
    for (int64_t r = 0; r < count; ++r) allowed |= static_cast<uint64_t>(block.allows(first + r)) << r;
    if (allowed == 0) continue;
    tile.read(first, count);
    uint64_t fetched = 0;
    for (size_t q = 0; q < best.size(); ++q) {
      left[q] = tile.reach(q, best[q].floor());
      if (!wanted.empty()) left[q] |= wanted[q].within(first, count);
      left[q] &= allowed;
      for (uint64_t rest = left[q] & ~fetched; rest != 0; rest &= rest - 1) {
        const float* row = rows.data() + (first + std::countr_zero(rest)) * rows.stride();
        for (int64_t c = 0; c < rows.columns(); c += kLineFloats) __builtin_prefetch(row + c, 0, 2);
      }
      fetched |= left[q];
    }
    for (size_t q = 0; q < best.size(); ++q) {
      if (left[q] == 0) continue;
      size_t some = 0;
      for (uint64_t rest = left[q]; rest != 0; rest &= rest - 1) {
        const int64_t row = first + std::countr_zero(rest);
        pointers[some] = rows.data() + row * rows.stride();
        numbers[some++] = row;
      }
      std::fill_n(pointers.begin() + static_cast<std::ptrdiff_t>(some), kDotRowGroup, pointers[some - 1]);
      dot(pointers.data(), static_cast<int64_t>(some),
          block.queries.data() + static_cast<int64_t>(q) * padded, 1, rows.columns(), scores.data());
      const auto scored = std::span<const int64_t>(numbers).first(some);
      best[q].offer(scored, scores.data());
      if (!wanted.empty()) wanted[q].take(scored, scores.data());
      scored_rows[q] += static_cast<int64_t>(some);
    }
  }
}

int64_t count_allowed(const SearchedRows& searched, int64_t from, int64_t to) {
  if (searched.allowed.empty()) return to - from;
  return std::ranges::count_if(
      searched.allowed.subspan(static_cast<size_t>(from), static_cast<size_t>(to - from)),
      [](uint8_t flag) { return flag != 0; });
}

// Ways to search rows: in full, or by their 8-bit codes, one after the other or in tiles.
enum class Way : uint8_t { kInFull, kByCodes, kByTiles };

bool tiles_pay(int64_t rows, int64_t k) {
  return k <= rows / 64 && has_fast_int8_tiles();
}

// Returns the fastest way. Codes exclude few rows where many are wanted or few allowed. With many queries, codes one after
// the other take as long as full rows, which arithmetic limits then, not memory; tiles score more rows in full.
Way way_to_search(const SearchedRows& searched, int64_t queries, int64_t k) {
  const int64_t allowed = count_allowed(searched, 0, searched.rows.rows());
  if (searched.int8.count == 0 || allowed < searched.rows.rows() / 4) return Way::kInFull;
  if (queries >= kFewestTileQueries && tiles_pay(allowed, k)) return Way::kByTiles;
  return queries <= kBoundedQueries && k <= allowed / 8 ? Way::kByCodes : Way::kInFull;
}

// Returns the queries for 8-bit rows, or an empty vector if one of them cannot be compared with these.
std::vector<Int8Query> int8_queries(MatrixView<const float> queries) {
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
  const int64_t count = block.to - block.from;
  if (block.k < kFewestGuessed || count < 16 * kSampleRows) return floors;
  std::vector<int64_t> sample = row_sample(block.from, block.to);
  std::erase_if(sample, [&](int64_t row) { return !block.allows(row); });
  // Expected number of sampled rows among the best k, with a standard deviation of its square root. Four
  // standard deviations are added, so one guess in about ten thousand is too high.
  const auto sampled = static_cast<double>(sample.size());
  const double expected =
      sampled * static_cast<double>(block.k) /
      static_cast<double>(std::max<int64_t>(1, count_allowed(block.searched, block.from, block.to)));
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
  const int64_t rows = block.to - block.from;
  // The best k do not depend on how rows are cut into parts, because ranks_before is a total order.
  const int64_t part_rows = std::max(kMinPartRows, rows / (int64_t{4} * pool.size()) + 1);
  const int64_t parts = (rows + part_rows - 1) / part_rows;
  const DotKernel dot = dot_kernels().front().run;
  std::vector<std::vector<BestRows>> lists(static_cast<size_t>(parts));
  std::vector<std::vector<int64_t>> scored(static_cast<size_t>(parts));
  // Scores that k rows of each query are known to reach; later parts keep nothing below them.
  std::vector<std::atomic<float>> floors(best.size());
  for (size_t q = 0; q < floors.size(); ++q) floors[q] = std::max(best[q].least(), trial[q]);
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      std::vector<BestRows>& own = lists[static_cast<size_t>(part)];
      own.reserve(floors.size());
      for (const std::atomic<float>& floor : floors) own.emplace_back(block.k, floor.load());
      const int64_t first = block.from + part * part_rows;
      const int64_t last = block.from + std::min(rows, (part + 1) * part_rows);
      if (block.coded != nullptr) {
        std::vector<int64_t>& of_part = scored[static_cast<size_t>(part)];
        of_part.resize(best.size());
        search_part_by_codes(block, first, last, own, dot, of_part);
      } else {
        search_part(block, first, last, own, dot);
      }
      for (size_t q = 0; q < own.size(); ++q) {
        const float least = own[q].least();
        for (float known = floors[q].load();
             known < least && !floors[q].compare_exchange_weak(known, least);) {
        }
      }
    }
  });
  for (const std::vector<int64_t>& of_part : scored) {
    for (size_t q = 0; q < of_part.size(); ++q) block.rescored[q] += of_part[q];
  }
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

// Offers rows [from, to) to the lists of the best, one per query. padded: the queries. wanted: one per query, or empty.
// by_codes: empty, or the queries for 8-bit rows; `rescored` then receives the number of rows scored in full for each.
void search_range(const SearchedRows& searched, int64_t from, int64_t to, const Matrix<float>& padded,
                  int64_t k, ThreadPool& pool, std::span<BestRows> best, std::span<const Wanted> wanted,
                  std::span<const Int8Query> by_codes = {}, std::span<int64_t> rescored = {}) {
  if (to == from) return;
  for (int64_t first = 0; first < padded.rows(); first += kPassQueries) {
    const int64_t count = std::min(kPassQueries, padded.rows() - first);
    const auto at = static_cast<size_t>(first);
    const auto of_queries = static_cast<size_t>(count);
    const auto of_block = best.subspan(at, of_queries);
    Block block{searched,
                from,
                to,
                padded.view().slice(first, count),
                wanted.empty() ? wanted : wanted.subspan(at, of_queries),
                k};
    Int8TileQueries coded;
    if (!by_codes.empty()) {
      coded = make_tile_queries(searched.int8, by_codes.subspan(at, of_queries));
      block.coded = &coded;
      block.rescored = rescored.subspan(at, of_queries);
    }
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
    search_block({searched, from, to, std::as_const(queries).view(), {}, k}, nothing, lists, pool);
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
  const Way way = way_to_search(searched, queries.rows(), k);
  const std::vector<Int8Query> by_codes =
      way == Way::kInFull ? std::vector<Int8Query>() : int8_queries(queries);
  const int64_t coded_rows = by_codes.empty() ? 0 : searched.int8.count;
  if (!by_codes.empty() && way == Way::kByTiles) {
    found.rescored.resize(by_codes.size());
    search_range(searched, 0, coded_rows, padded, k, pool, best, looked_for, by_codes, found.rescored);
  } else if (!by_codes.empty()) {
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
  search_range(searched, coded_rows, rows.rows(), padded, k, pool, best, looked_for);
  if (searched.stop.stop_requested()) return fail(ErrorCode::kCancelled, "search: asked to stop");
  for (size_t q = 0; q < best.size(); ++q) {
    found.best[q] = best[q].rows();
    std::ranges::sort(found.best[q], RanksBefore());
  }
  return found;
}

int64_t queries_of_a_pass(const SearchedRows& searched, int64_t k) {
  return searched.int8.count == 0 || tiles_pay(searched.rows.rows(), k) ? kPassQueries : kBoundedQueries;
}

Result<std::vector<std::vector<RowScore>>> exact_search(MatrixView<const float> rows,
                                                        MatrixView<const float> queries, int64_t k,
                                                        ThreadPool& pool, std::span<const uint8_t> allowed) {
  SACCADE_ASSIGN(FoundRows found, find_rows({rows, allowed, {}}, queries, k, pool));
  return std::move(found.best);
}

}  // namespace saccade
