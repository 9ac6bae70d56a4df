#include "saccade/index/lists/list_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "saccade/index/best_rows.h"

namespace saccade {
namespace {

// Effort of one estimated row and of one row that is scored again, in nanoseconds: what the choice between more lists and more
// candidates weighs.
constexpr double kScanCost = 10;
constexpr double kRescoreCost = 300;
constexpr int64_t kFewestRescored = 64;

// The exact neighbors of some queries, and where the index has them.
struct Truth {
  std::vector<std::vector<int64_t>> rows;  // of each query
  int64_t all = 0;
};

int64_t itself_of(const TuningQueries& queries, int64_t q) {
  return queries.itself.empty() ? -1 : queries.itself[static_cast<size_t>(q)];
}

double share_of(int64_t part, int64_t all) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, all));
}

int64_t raised(int64_t number, double factor) {
  return 1 + static_cast<int64_t>(static_cast<double>(number) * factor);
}

// Returns the number of estimated rows at which `share` of the neighbors lie in a list that is looked into. Ascending
// `depths`: of each neighbor.
int64_t depth_for(std::span<const int64_t> depths, double share) {
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(depths.size())));
  return depths[std::min(std::max<size_t>(at, 1), depths.size()) - 1];
}

// Tuning by the first `count` queries.
class Tuner {
 public:
  Tuner(const SearchedRows& searched, const ListIndex& index, const ListChecks& checks,
        const TuningQueries& queries, std::span<const std::vector<RowScore>> exact, ThreadPool& pool)
      : searched_(searched), index_(index), checks_(checks), queries_(queries), exact_(exact), pool_(pool) {}

  Result<ListProbe> find(double wanted) {
    find_depths();
    if (depths_.empty()) return ListProbe{index_.covered, kFewestRescored};
    ListProbe best;
    double best_cost = std::numeric_limits<double>::infinity();
    for (const double part : {0.2, 0.4, 0.6, 0.8, 0.95}) {
      // Some of what may be missed is missed by the lists, the rest by the candidates.
      const double covered = wanted + (1 - wanted) * part;
      const int64_t scanned = depth_for(depths_, covered);
      SACCADE_ASSIGN(const int64_t rescored, rescored_for(scanned, wanted));
      const double cost =
          kScanCost * static_cast<double>(scanned) + kRescoreCost * static_cast<double>(rescored);
      if (rescored <= kMostRescored && cost < best_cost) {
        best_cost = cost;
        best = {scanned, rescored};
      }
    }
    if (best.scanned == 0) return ListProbe{index_.covered, kMostRescored};
    return best;
  }

 private:
  // Computes for each neighbor how many rows are estimated before its list ends.
  void find_depths() {
    std::unordered_map<int64_t, int64_t> list_of;
    for (const auto& rows : exact_) {
      for (const RowScore& row : rows) list_of.emplace(row.row, -1);
    }
    for (int64_t list = 0; list < index_.lists(); ++list) {
      for (int64_t at = index_.begin_of(list); at < index_.ends[static_cast<size_t>(list)]; ++at) {
        const auto found = list_of.find(index_.rows[static_cast<size_t>(at)]);
        if (found != list_of.end()) found->second = list;
      }
    }
    for (size_t q = 0; q < exact_.size(); ++q) {
      const std::vector<int64_t> order =
          order_lists(index_, queries_.rows.row(static_cast<int64_t>(q)), pool_);
      std::vector<int64_t> depth(order.size());
      int64_t rows = 0;
      for (const int64_t list : order) depth[static_cast<size_t>(list)] = rows += index_.size_of(list);
      for (const RowScore& row : exact_[q]) {
        ++neighbors_;
        // Rows that no list covers are always found.
        const int64_t list = list_of.at(row.row);
        depths_.push_back(list < 0 ? 0 : depth[static_cast<size_t>(list)]);
      }
    }
    std::ranges::sort(depths_);
  }

  // Returns how many candidates have to be scored again to find the wanted share; more than kMostRescored if that is not
  // reached.
  Result<int64_t> rescored_for(int64_t scanned, double wanted) {
    std::vector<int64_t> places;
    for (size_t q = 0; q < exact_.size(); ++q) {
      SACCADE_ASSIGN(const std::vector<EstimatedRow> estimated,
                     scan_lists(searched_, index_, checks_, {scanned, kMostRescored},
                                queries_.rows.row(static_cast<int64_t>(q)), pool_));
      std::unordered_map<int64_t, int64_t> place_of;
      for (size_t i = 0; i < estimated.size(); ++i) place_of[estimated[i].row] = static_cast<int64_t>(i) + 1;
      for (const RowScore& row : exact_[q]) {
        const auto found = place_of.find(row.row);
        if (row.row >= index_.covered) places.push_back(0);
        if (found != place_of.end()) places.push_back(found->second);
      }
    }
    std::ranges::sort(places);
    const auto needed = static_cast<size_t>(std::ceil(wanted * static_cast<double>(neighbors_)));
    if (needed > places.size()) return kMostRescored + 1;
    return std::max(kFewestRescored, places[std::max<size_t>(needed, 1) - 1]);
  }

  const SearchedRows& searched_;
  const ListIndex& index_;
  const ListChecks& checks_;
  const TuningQueries& queries_;
  std::span<const std::vector<RowScore>> exact_;
  ThreadPool& pool_;
  int64_t neighbors_ = 0;
  std::vector<int64_t> depths_;
};

// Returns the share of the exact rows that is found, for queries [begin, end).
Result<double> measure(const SearchedRows& searched, const ListIndex& index, const ListChecks& checks,
                       const TuningQueries& queries, std::span<const std::vector<RowScore>> exact,
                       int64_t begin, const ListProbe& probe, ThreadPool& pool) {
  int64_t found = 0;
  int64_t all = 0;
  for (int64_t q = begin; q < queries.rows.rows(); ++q) {
    const int64_t itself = itself_of(queries, q);
    SACCADE_ASSIGN(FoundRows near, find_near_rows(searched, index, checks, probe, queries.rows.row(q),
                                                  kRecallAt + (itself < 0 ? 0 : 1), pool));
    for (const RowScore& row : exact[static_cast<size_t>(q)]) {
      ++all;
      // By score: of rows that score alike any will do.
      const float least =
          near.best.front().empty() ? std::numeric_limits<float>::infinity() : near.best.front().back().score;
      const bool there =
          std::ranges::any_of(near.best.front(), [&](const RowScore& other) { return other.row == row.row; });
      found += there || (std::ssize(near.best.front()) >= kRecallAt && row.score == least) ? 1 : 0;
    }
  }
  return share_of(found, all);
}

// Returns the best k rows of each query but itself, as exact_search, in one pass over the rows: blocks of rows meet all
// queries.
Result<std::vector<std::vector<RowScore>>> exact_in_one_pass(const SearchedRows& searched,
                                                             const TuningQueries& queries, int64_t k,
                                                             ThreadPool& pool) {
  constexpr int64_t kBlock = 65'536;
  const int64_t count = queries.rows.rows();
  std::vector<BestRows> best(static_cast<size_t>(count), BestRows(k + 1));
  for (int64_t first = 0; first < searched.rows.rows(); first += kBlock) {
    const int64_t rows = std::min(kBlock, searched.rows.rows() - first);
    SearchedRows block{searched.rows.slice(first, rows), {}, {}, searched.stop};
    if (!searched.allowed.empty()) {
      block.allowed = searched.allowed.subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
    }
    SACCADE_ASSIGN(const FoundRows found, find_rows(block, queries.rows, k + 1, pool));
    for (size_t q = 0; q < best.size(); ++q) {
      for (const RowScore& row : found.best[q]) best[q].offer(row.row + first, row.score);
    }
  }
  std::vector<std::vector<RowScore>> exact;
  for (int64_t q = 0; q < count; ++q) {
    std::vector<RowScore> rows = best[static_cast<size_t>(q)].rows();
    const int64_t itself = itself_of(queries, q);
    std::erase_if(rows, [itself](const RowScore& row) { return row.row == itself; });
    std::ranges::sort(rows, RanksBefore());
    if (std::ssize(rows) > k) rows.resize(static_cast<size_t>(k));
    exact.push_back(std::move(rows));
  }
  return exact;
}

}  // namespace

Status check_recall(double recall) {
  if (recall > 0 && recall < 1) return {};
  return fail(ErrorCode::kUsage, "a recall of {} is wanted, expected above 0 and below 1", recall);
}

Result<ListRecall> tune_lists(const SearchedRows& searched, const ListIndex& index, const ListChecks& checks,
                              const TuningQueries& queries, const TuningOptions& options, ThreadPool& pool) {
  ListRecall recall;
  recall.wanted = options.recall;
  const int64_t count = queries.rows.rows();
  SACCADE_TRY(check_recall(options.recall));
  if (count < kFewestTuning) return recall;
  recall.tuned_with = std::min(options.most_tuned, count / 3);
  SearchedRows stoppable = searched;
  stoppable.stop = options.stop;
  SACCADE_ASSIGN(const auto exact, exact_in_one_pass(stoppable, queries, kRecallAt, pool));
  const auto with =
      std::span<const std::vector<RowScore>>(exact).first(static_cast<size_t>(recall.tuned_with));
  // Other queries may do a little worse than these: one standard error of their mean, as if a query's neighbors were found
  // or missed together by half.
  const double error =
      std::sqrt(options.recall * (1 - options.recall) / (2 * static_cast<double>(recall.tuned_with)));
  Tuner tuner(stoppable, index, checks, queries, with, pool);
  SACCADE_ASSIGN(recall.probe, tuner.find(options.recall + std::min(error, (1 - options.recall) / 2)));
  // The effort is raised in steps if they do worse all the same: with 250 tuning queries, a recall of 0.96 among them was
  // seen to be 0.947 among 500 others.
  constexpr double kStep = 1.3;
  for (;;) {
    SACCADE_ASSIGN(recall.measured,
                   measure(stoppable, index, checks, queries, exact, recall.tuned_with, recall.probe, pool));
    if (recall.measured >= options.recall || recall.probe.scanned >= index.covered) break;
    recall.probe = {std::min(index.covered, raised(recall.probe.scanned, kStep)),
                    std::min(kMostRescored, raised(recall.probe.rescored, kStep))};
  }
  recall.queries = count - recall.tuned_with;
  return recall;
}

}  // namespace saccade
