#include "saccade/index/exact_search.h"

#include <algorithm>
#include <array>
#include <cstddef>

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

// The best k of the rows offered so far, as a heap with the worst on top. Rows come in ascending order, so
// that of equal scores the one that is already in stays in.
class BestRows {
 public:
  explicit BestRows(int64_t k) : k_(static_cast<size_t>(k)) {}

  void offer(int64_t row, float score) {
    if (heap_.size() == k_) {
      if (!(score > heap_.front().score)) return;  // NaN ends here too
      std::pop_heap(heap_.begin(), heap_.end(), ranks_before);
      heap_.back() = {row, score};
    } else {
      if (score != score) return;
      heap_.push_back({row, score});
    }
    std::push_heap(heap_.begin(), heap_.end(), ranks_before);
  }

  [[nodiscard]] const std::vector<RowScore>& rows() const { return heap_; }

 private:
  size_t k_;
  std::vector<RowScore> heap_;
};

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

}  // namespace

bool ranks_before(const RowScore& a, const RowScore& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

Result<std::vector<std::vector<RowScore>>> exact_search(MatrixView<const float> rows,
                                                        MatrixView<const float> queries, int64_t k,
                                                        ThreadPool& pool, std::span<const uint8_t> allowed) {
  if (k < 0) return fail(ErrorCode::kUsage, "k is {}, expected 0 or more", k);
  if (rows.rows() > 0 && queries.rows() > 0 && rows.columns() != queries.columns()) {
    return fail(ErrorCode::kMismatch, "queries have {} columns, the rows searched have {}", queries.columns(),
                rows.columns());
  }
  if (!allowed.empty() && static_cast<int64_t>(allowed.size()) != rows.rows()) {
    return fail(ErrorCode::kMismatch, "the filter covers {} rows, there are {}", allowed.size(), rows.rows());
  }
  std::vector<std::vector<RowScore>> answers(static_cast<size_t>(queries.rows()));
  if (k == 0 || rows.rows() == 0 || queries.rows() == 0) return answers;

  Matrix<float> padded(queries.rows(), padded_dim(rows.columns()));
  for (int64_t q = 0; q < queries.rows(); ++q) std::ranges::copy(queries.row(q), padded.row(q).begin());

  // What the best k are does not depend on how rows are cut into parts: ranks_before orders them totally.
  const int64_t part_rows = std::max(kMinPartRows, rows.rows() / (int64_t{4} * pool.size()) + 1);
  const int64_t parts = (rows.rows() + part_rows - 1) / part_rows;
  const DotKernel dot = dot_kernels().front().run;
  for (int64_t first = 0; first < queries.rows(); first += kBlockQueries) {
    const int64_t block = std::min(kBlockQueries, queries.rows() - first);
    std::vector<std::vector<BestRows>> best(static_cast<size_t>(parts),
                                            std::vector<BestRows>(static_cast<size_t>(block), BestRows(k)));
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        search_part(rows, part * part_rows, std::min(rows.rows(), (part + 1) * part_rows), allowed, padded,
                    first, best[static_cast<size_t>(part)], dot);
      }
    });
    for (int64_t q = 0; q < block; ++q) {
      std::vector<RowScore>& answer = answers[static_cast<size_t>(first + q)];
      for (const std::vector<BestRows>& part : best) {
        const std::vector<RowScore>& found = part[static_cast<size_t>(q)].rows();
        answer.insert(answer.end(), found.begin(), found.end());
      }
      std::ranges::sort(answer, ranks_before);
      if (static_cast<int64_t>(answer.size()) > k) answer.resize(static_cast<size_t>(k));
    }
  }
  return answers;
}

}  // namespace saccade
