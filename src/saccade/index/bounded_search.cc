#include "saccade/index/bounded_search.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace saccade {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Number of rows whose codes are summed together: 64 KiB at 512 columns.
constexpr int64_t kTileRows = 128;
// Number of rows that a thread takes at a time; a multiple of kTileRows.
constexpr int64_t kPartRows = 32'768;
// Maximum number of candidates that a part keeps per query before it scores them, unless 4 k is larger.
constexpr int64_t kMostPending = 4096;
// Number of candidates that are first scored together.
constexpr int64_t kFirstRescored = 128;

// Candidate row whose score lies between `low` and `high`.
struct Pending {
  int64_t row = 0;
  float low = 0;
  float high = 0;
};

// Inputs of a scan over the rows' codes.
struct Scan {
  MatrixView<const float> rows;
  Int8Rows int8;
  std::span<const uint8_t> allowed;
  int64_t k = 0;
  int64_t columns = 0;
  std::vector<int8_t> check;
  Int8Kernel sums = nullptr;
  DotKernel dot = nullptr;

  [[nodiscard]] bool is_allowed(int64_t row) const {
    return allowed.empty() || allowed[static_cast<size_t>(row)] != 0;
  }
  [[nodiscard]] bool any_allowed(int64_t begin, int64_t count) const {
    if (allowed.empty()) return true;
    const auto some = allowed.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    return std::ranges::any_of(some, [](uint8_t flag) { return flag != 0; });
  }
};

// Scores rows in full. query: padded.
void score_rows(const Scan& scan, std::span<const Pending> pending, const float* query, BestRows& best) {
  constexpr size_t kTogether = 64;
  std::array<const float*, kTogether + kDotRowGroup> pointers{};
  std::array<float, kTogether> scores{};
  for (size_t first = 0; first < pending.size(); first += kTogether) {
    const size_t count = std::min(kTogether, pending.size() - first);
    for (size_t i = 0; i < count + kDotRowGroup; ++i) {
      const int64_t row = pending[std::min(first + i, pending.size() - 1)].row;
      pointers[i] = scan.rows.data() + row * scan.rows.stride();
    }
    scan.dot(pointers.data(), static_cast<int64_t>(count), query, 1, scan.rows.columns(), scores.data());
    for (size_t i = 0; i < count; ++i) best.offer(pending[first + i].row, scores[i]);
  }
}

// Candidates of one query in one part, with the rows that were scored to keep the list short.
class Shortlist {
 public:
  Shortlist(const Scan& scan, const float* query)
      : scan_(&scan), query_(query), best_(scan.k), limit_(std::max(kMostPending, 4 * scan.k)) {}

  // Offers the rows of a tile from `first` on. low, high: [count].
  void offer(int64_t first, int64_t count, const float* low, const float* high) {
    for (int64_t i = 0; i < count; ++i) {
      if (high[i] < least_ || !scan_->is_allowed(first + i)) continue;
      pending_.push_back({first + i, low[i], high[i]});
    }
    if (static_cast<int64_t>(pending_.size()) < next_) return;
    drop_excluded();
    if (static_cast<int64_t>(pending_.size()) > limit_ / 2) score_pending();
    next_ = std::max(int64_t{2} * static_cast<int64_t>(pending_.size()), 2 * scan_->k + kTileRows);
  }

  // Drops candidates below the k-th largest lower end, which is a lower bound of the k-th best score.
  void drop_excluded() {
    raise_least(best_, pending_);
    std::erase_if(pending_, [this](const Pending& pending) { return pending.high < least_; });
  }

  [[nodiscard]] BestRows& best() { return best_; }
  [[nodiscard]] const std::vector<Pending>& pending() const { return pending_; }
  [[nodiscard]] int64_t rescored() const { return rescored_; }

 private:
  void raise_least(BestRows& best, std::span<const Pending> pending) {
    lows_.clear();
    for (const RowScore& row : best.rows()) lows_.push_back(row.score);
    for (const Pending& row : pending) lows_.push_back(row.low);
    const auto k = static_cast<size_t>(scan_->k);
    if (lows_.size() < k) return;
    std::nth_element(lows_.begin(), lows_.begin() + static_cast<std::ptrdiff_t>(k - 1), lows_.end(),
                     std::greater<>());
    least_ = std::max(least_, lows_[k - 1]);
  }
  void score_pending() {
    rescored_ += static_cast<int64_t>(pending_.size());
    score_rows(*scan_, pending_, query_, best_);
    pending_.clear();
    least_ = std::max(least_, best_.least());
  }

  const Scan* scan_;
  const float* query_;
  BestRows best_;
  std::vector<Pending> pending_;
  std::vector<float> lows_;
  float least_ = -kInfinity;  // rows whose upper end is below are not among the best
  int64_t limit_;
  int64_t next_ = 0;
  int64_t rescored_ = 0;
};

// Scales and errors of a tile's rows. The error is infinite if a row's check is wrong.
struct TileTerms {
  std::array<float, kTileRows> scale;
  std::array<float, kTileRows> error;

  void read(const Scan& scan, int64_t first, int64_t count, const std::byte* codes, const int32_t* odd,
            const int32_t* even) {
    const int64_t stride = int8_row_bytes(scan.int8.dim);
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      const Int8Terms terms =
          read_checked_terms(codes + i * stride, scan.columns, odd[i], even[i], first + i);
      scale[at] = terms.scale;
      error[at] = terms.error;
    }
  }
};

// Computes low[i] and high[i], the bounds of the score of the tile's row i.
void enclose(const Int8Query& query, const TileTerms& terms, int64_t count, const int32_t* first_sums,
             const int32_t* second_sums, float* low, float* high) {
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const float about =
        terms.scale[at] * (query.step[0] * static_cast<float>(first_sums[i] - query.start[0]) +
                           query.step[1] * static_cast<float>(second_sums[i] - query.start[1]));
    const float bound = query.of_scale * terms.scale[at] + query.of_error * terms.error[at] + query.least;
    low[i] = about - bound;
    high[i] = about + bound;
  }
}

// Scans rows [begin, end) for all queries. parts: those of all queries, then the checks', [2 m + 2, columns].
void scan_part(const Scan& scan, int64_t begin, int64_t end, std::span<const Int8Query> queries,
               const std::vector<int8_t>& parts, std::span<Shortlist> lists) {
  const auto part_count = static_cast<int64_t>(2 * queries.size() + 2);
  std::vector<int32_t> sums(static_cast<size_t>(part_count * kTileRows));
  TileTerms terms;
  std::array<float, kTileRows> low;
  std::array<float, kTileRows> high;
  const int64_t stride = int8_row_bytes(scan.int8.dim);
  for (int64_t first = begin; first < end; first += kTileRows) {
    const int64_t count = std::min(kTileRows, end - first);
    if (!scan.any_allowed(first, count)) continue;
    const std::byte* codes = scan.int8.data + first * stride;
    scan.sums(codes, count, stride, scan.columns, parts.data(), part_count, sums.data());
    const int32_t* checks = sums.data() + (part_count - 2) * count;
    terms.read(scan, first, count, codes, checks, checks + count);
    for (size_t q = 0; q < queries.size(); ++q) {
      const int32_t* of_query = sums.data() + static_cast<int64_t>(2 * q) * count;
      enclose(queries[q], terms, count, of_query, of_query + count, low.data(), high.data());
      lists[q].offer(first, count, low.data(), high.data());
    }
  }
  for (Shortlist& list : lists) list.drop_excluded();
}

// Combines all parts: scores the remaining candidates that may be among the best.
int64_t settle(const Scan& scan, std::span<Shortlist* const> lists, const float* query,
               int64_t first_rescored, BestRows& best, ThreadPool& pool) {
  std::vector<Pending> pending;
  std::vector<float> lows;
  int64_t rescored = 0;
  for (Shortlist* list : lists) {
    rescored += list->rescored();
    for (const RowScore& row : list->best().rows()) {
      best.offer(row.row, row.score);
      lows.push_back(row.score);
    }
    for (const Pending& row : list->pending()) lows.push_back(row.low);
    pending.insert(pending.end(), list->pending().begin(), list->pending().end());
  }
  const auto k = static_cast<size_t>(scan.k);
  if (lows.size() >= k) {
    std::ranges::nth_element(lows, lows.begin() + static_cast<std::ptrdiff_t>(k - 1), std::greater<>());
    const float least = lows[k - 1];
    std::erase_if(pending, [least](const Pending& row) { return row.high < least; });
  }
  std::ranges::sort(pending, [](const Pending& a, const Pending& b) {
    return a.high > b.high || (a.high == b.high && a.row < b.row);
  });
  auto together = static_cast<size_t>(first_rescored);
  for (size_t first = 0; first < pending.size() && !(pending[first].high < best.least());) {
    const auto next = std::span(pending).subspan(first, std::min(together, pending.size() - first));
    constexpr int64_t kGrain = 512;
    const auto count = static_cast<int64_t>(next.size());
    if (count <= kGrain) {
      score_rows(scan, next, query, best);
    } else {
      std::vector<BestRows> found(static_cast<size_t>((count + kGrain - 1) / kGrain), BestRows(scan.k));
      pool.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
        const auto some = next.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
        score_rows(scan, some, query, found[static_cast<size_t>(begin / kGrain)]);
      });
      for (BestRows& some : found) {
        for (const RowScore& row : some.rows()) best.offer(row.row, row.score);
      }
    }
    rescored += count;
    first += next.size();
    together *= 2;
  }
  return rescored;
}

Scan scan_of(MatrixView<const float> rows, const Int8Rows& int8, std::span<const uint8_t> allowed,
             int64_t k) {
  const int64_t columns = int8_columns(int8.dim);
  return {rows,
          int8,
          allowed,
          k,
          columns,
          int8_check_parts(columns),
          int8_kernels().front().run,
          dot_kernels().front().run};
}

// Returns the vectors whose products with the codes are summed: those of the queries, then the checks',
// [2 m + 2, columns].
std::vector<int8_t> vectors_of(const Scan& scan, std::span<const Int8Query> queries) {
  std::vector<int8_t> vectors;
  for (const Int8Query& query : queries)
    vectors.insert(vectors.end(), query.parts.begin(), query.parts.end());
  vectors.insert(vectors.end(), scan.check.begin(), scan.check.end());
  return vectors;
}

}  // namespace

BoundedBest bounded_search(MatrixView<const float> rows, const Int8Rows& int8,
                           std::span<const Int8Query> queries, MatrixView<const float> padded, int64_t k,
                           std::span<const uint8_t> allowed, ThreadPool& pool) {
  const Scan scan = scan_of(rows, int8, allowed, k);
  BoundedBest found;
  found.best.assign(queries.size(), BestRows(k));
  found.rescored.assign(queries.size(), 0);
  const std::vector<int8_t> vectors = vectors_of(scan, queries);

  const int64_t parts = (int8.count + kPartRows - 1) / kPartRows;
  const auto count = static_cast<int64_t>(queries.size());
  std::vector<std::vector<Shortlist>> lists(static_cast<size_t>(parts));
  for (auto& of_part : lists) {
    for (int64_t q = 0; q < count; ++q) of_part.emplace_back(scan, padded.row(q).data());
  }
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      scan_part(scan, part * kPartRows, std::min(int8.count, (part + 1) * kPartRows), queries, vectors,
                lists[static_cast<size_t>(part)]);
    }
  });
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t q = begin; q < end; ++q) {
      const auto at = static_cast<size_t>(q);
      std::vector<Shortlist*> of_query;
      for (auto& of_part : lists) of_query.push_back(&of_part[at]);
      found.rescored[at] = settle(scan, of_query, padded.row(q).data(), kFirstRescored, found.best[at], pool);
    }
  });
  return found;
}

BoundedBest bounded_candidates(MatrixView<const float> rows, const Int8Rows& int8, const Int8Query& query,
                               MatrixView<const float> padded, int64_t k, std::span<const int64_t> candidates,
                               ThreadPool& pool) {
  const Scan scan = scan_of(rows, int8, {}, k);
  const std::span<const Int8Query> queries(&query, 1);
  const std::vector<int8_t> vectors = vectors_of(scan, queries);
  constexpr int64_t kPart = 1024;
  const int64_t stride = int8_row_bytes(int8.dim);
  const float* own = padded.row(0).data();
  std::vector<Shortlist> lists;
  for (int64_t begin = 0; begin < std::ssize(candidates); begin += kPart) lists.emplace_back(scan, own);
  pool.parallel_for(std::ssize(candidates), kPart, [&](int64_t begin, int64_t end) {
    Shortlist& list = lists[static_cast<size_t>(begin / kPart)];
    // The rows lie apart, so that each is fetched while a few before it are scored.
    constexpr int64_t kAhead = 8;
    const auto codes_of = [&](int64_t i) { return int8.data + candidates[static_cast<size_t>(i)] * stride; };
    TileTerms terms;
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) {
        for (int64_t at = 0; at < stride; at += 64) __builtin_prefetch(codes_of(i + kAhead) + at);
      }
      const int64_t row = candidates[static_cast<size_t>(i)];
      std::array<int32_t, 4> sums{};
      scan.sums(codes_of(i), 1, stride, scan.columns, vectors.data(), 4, sums.data());
      terms.read(scan, row, 1, codes_of(i), &sums[2], &sums[3]);
      float low = 0;
      float high = 0;
      enclose(query, terms, 1, sums.data(), &sums[1], &low, &high);
      list.offer(row, 1, &low, &high);
    }
    list.drop_excluded();
  });
  std::vector<Shortlist*> all;
  for (Shortlist& list : lists) all.push_back(&list);
  BoundedBest found;
  found.best.emplace_back(k);
  // Full rows may lie on the disk: few more than needed are read at a time.
  found.rescored.push_back(settle(scan, all, own, std::max(2 * k, int64_t{16}), found.best.front(), pool));
  return found;
}

}  // namespace saccade
