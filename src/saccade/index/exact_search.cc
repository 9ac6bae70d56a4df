#include "saccade/index/exact_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "saccade/index/best_rows.h"
#include "saccade/index/bounded_search.h"
#include "saccade/index/dot_kernels.h"

namespace saccade {
namespace {

// Rows scored together, and queries scored against them while they are in the second-level cache: 128 KiB of
// rows and as much of queries at 512 columns.
constexpr int64_t kTileRows = 64;
constexpr int64_t kBlockQueries = 64;
// A part is what one thread takes at a time; smaller ones
// would spend their time filling their lists of the best.
constexpr int64_t kMinPartRows = 4096;

// Scores rows [begin, end) against a block of queries and offers them to `best`, one list a query.
void search_part(MatrixView<const float> rows, int64_t begin, int64_t end, std::span<const uint8_t> allowed,
                 const Matrix<float>& queries, int64_t first_query, std::span<BestRows> best, DotKernel dot) {
  std::array<const float*, kTileRows + kDotRowGroup> tile{};
  std::array<int64_t, kTileRows> tile_rows{};
  std::vector<float> scores(static_cast<size_t>(kTileRows) * best.size());

  const auto is_allowed = [&](int64_t row) {
    return allowed.empty() || allowed[static_cast<size_t>(row)] != 0;
  };
  int64_t next = begin;
  while (next < end) {
    int64_t count = 0;
    for (; next < end && count < kTileRows; ++next) {
      if (!is_allowed(next)) continue;
      tile_rows[static_cast<size_t>(count)] = next;
      tile[static_cast<size_t>(count++)] = rows.data() + next * rows.stride();
    }
    if (count == 0) break;
    // What the kernel fetches early: the rows that follow, or the last one again.
    for (int64_t ahead = 0; ahead < kDotRowGroup; ++ahead) {
      const int64_t row = std::min(next + ahead, end - 1);
      tile[static_cast<size_t>(count + ahead)] = rows.data() + row * rows.stride();
    }
    dot(tile.data(), count, queries.row(first_query).data(), static_cast<int64_t>(best.size()),
        rows.columns(), scores.data());
    for (size_t q = 0; q < best.size(); ++q) {
      const float* query_scores = scores.data() + q * static_cast<size_t>(count);
      for (int64_t r = 0; r < count; ++r) best[q].offer(tile_rows[static_cast<size_t>(r)], query_scores[r]);
    }
  }
}

int64_t count_allowed(const SearchedRows& searched) {
  if (searched.allowed.empty()) return searched.rows.rows();
  return std::ranges::count_if(searched.allowed, [](uint8_t flag) { return flag != 0; });
}

// The queries as rows in eight bits are held against; none where these are not to be used. More than
// kBoundedQueries wait for arithmetic, not for memory, and that is as quick in full.
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

// Offers rows from `from` on to the lists of the best, one a query. padded: the queries.
void search_in_full(const SearchedRows& searched, int64_t from, const Matrix<float>& padded, int64_t k,
                    ThreadPool& pool, std::span<BestRows> best) {
  const int64_t rows = searched.rows.rows() - from;
  if (rows == 0) return;
  // What the best k are does not depend on how rows are cut into parts: ranks_before orders them totally.
  const int64_t part_rows = std::max(kMinPartRows, rows / (int64_t{4} * pool.size()) + 1);
  const int64_t parts = (rows + part_rows - 1) / part_rows;
  const DotKernel dot = dot_kernels().front().run;
  for (int64_t first = 0; first < padded.rows(); first += kBlockQueries) {
    const int64_t block = std::min(kBlockQueries, padded.rows() - first);
    std::vector<std::vector<BestRows>> lists(static_cast<size_t>(parts));
    // Of each query, what k rows are known to reach: later parts keep nothing below it.
    std::vector<std::atomic<float>> floors(static_cast<size_t>(block));
    for (size_t q = 0; q < floors.size(); ++q) floors[q] = best[static_cast<size_t>(first) + q].least();
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        std::vector<BestRows>& own = lists[static_cast<size_t>(part)];
        for (const std::atomic<float>& floor : floors) own.emplace_back(k, floor.load());
        search_part(searched.rows, from + part * part_rows, from + std::min(rows, (part + 1) * part_rows),
                    searched.allowed, padded, first, own, dot);
        for (size_t q = 0; q < own.size(); ++q) {
          const float least = own[q].least();
          for (float known = floors[q].load();
               known < least && !floors[q].compare_exchange_weak(known, least);) {
          }
        }
      }
    });
    for (std::vector<BestRows>& part : lists) {
      for (size_t q = 0; q < part.size(); ++q) {
        BestRows& all = best[static_cast<size_t>(first) + q];
        for (const RowScore& row : part[q].rows()) all.offer(row.row, row.score);
      }
    }
  }
}

}  // namespace

bool ranks_before(const RowScore& a, const RowScore& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

Result<FoundRows> find_rows(const SearchedRows& searched, MatrixView<const float> queries, int64_t k,
                            ThreadPool& pool) {
  SACCADE_TRY(check_search(searched, queries, k));
  const MatrixView<const float> rows = searched.rows;
  FoundRows found;
  found.best.resize(static_cast<size_t>(queries.rows()));
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
  }
  search_in_full(searched, by_codes.empty() ? 0 : searched.int8.count, padded, k, pool, best);
  for (size_t q = 0; q < best.size(); ++q) {
    found.best[q] = best[q].rows();
    std::ranges::sort(found.best[q], ranks_before);
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
