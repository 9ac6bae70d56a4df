#include "saccade/index/max_sim.h"

#include <limits>

namespace saccade {
namespace {

constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max() / 2;

Status check(const StoredRows& item, const PackedQuery& query) {
  if (!(item.layout == query.layout)) {
    return fail(ErrorCode::kMismatch, "the query is for {} rows of {} columns, an item has {} rows of {}",
                enum_name(query.layout.precision), query.layout.dim, enum_name(item.layout.precision),
                item.layout.dim);
  }
  if (item.count > kMostRows) return fail(ErrorCode::kLimit, "an item of {} rows", item.count);
  return {};
}

// Per-thread scratch data for the scoring of items against a query.
struct Best {
  std::vector<float> dots;
  std::vector<int32_t> rows;
  explicit Best(const PackedQuery& query)
      : dots(static_cast<size_t>(query.lanes())), rows(static_cast<size_t>(query.lanes())) {}

  [[nodiscard]] RowMatch match(size_t lane, const PackedQuery& query) const {
    if (rows[lane] < 0) return {};
    return {rows[lane], dots[lane] * query.scales[lane]};
  }
};

// Accumulates the same sum as max_sim_total.
class Total {
 public:
  void add(const RowMatch& match) {
    sum_ += match.row < 0 ? -std::numeric_limits<double>::infinity() : double{match.dot};
  }
  [[nodiscard]] float value() const { return static_cast<float>(sum_); }

 private:
  double sum_ = 0;
};

}  // namespace

Result<std::vector<float>> max_sim(std::span<const StoredRows> items, const PackedQuery& query,
                                   ThreadPool& pool) {
  for (const StoredRows& item : items) SACCADE_TRY(check(item, query));
  const MaxSimKernel kernel = max_sim_kernels(query.layout.precision).front().run;
  std::vector<float> scores(items.size());
  constexpr int64_t kGrain = 4;
  pool.parallel_for(static_cast<int64_t>(items.size()), kGrain, [&](int64_t begin, int64_t end) {
    Best best(query);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      kernel(items[i].data, items[i].count, query, best.dots.data(), best.rows.data());
      Total total;
      for (size_t lane = 0; lane < static_cast<size_t>(query.rows); ++lane)
        total.add(best.match(lane, query));
      scores[i] = total.value();
    }
  });
  return scores;
}

Result<std::vector<RowMatch>> max_sim_matches(const StoredRows& item, const PackedQuery& query) {
  SACCADE_TRY(check(item, query));
  Best best(query);
  max_sim_kernels(query.layout.precision)
      .front()
      .run(item.data, item.count, query, best.dots.data(), best.rows.data());
  std::vector<RowMatch> matches;
  for (size_t lane = 0; lane < static_cast<size_t>(query.rows); ++lane) {
    matches.push_back(best.match(lane, query));
  }
  return matches;
}

std::vector<RowMatch> max_sim_matches_plain(MatrixView<const float> query, MatrixView<const float> item) {
  std::vector<RowMatch> matches(static_cast<size_t>(query.rows()));
  for (int64_t q = 0; q < query.rows(); ++q) {
    RowMatch& match = matches[static_cast<size_t>(q)];
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t r = 0; r < item.rows(); ++r) {
      float dot = 0;
      for (int64_t c = 0; c < query.columns(); ++c) dot += query(q, c) * item(r, c);
      if (!(dot > best)) continue;
      best = dot;
      match = {r, dot};
    }
  }
  return matches;
}

float max_sim_total(std::span<const RowMatch> matches) {
  Total total;
  for (const RowMatch& match : matches) total.add(match);
  return total.value();
}

}  // namespace saccade
