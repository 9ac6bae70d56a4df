#include "saccade/index/lists/list_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "saccade/core/half.h"
#include "saccade/index/best_rows.h"
#include "saccade/index/bounded_search.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/listed_rows.h"
#include "saccade/index/lists/bit_kernels.h"
#include "saccade/index/rotation.h"

namespace saccade {
namespace {

// Rows whose sums are computed together.
constexpr int64_t kTile = 256;
// Lists that a thread takes at a time, by their rows.
constexpr int64_t kPartRows = 16'384;

// A query as the lists compare it.
struct RotatedQuery {
  std::vector<float> values;     // [64 words]
  std::vector<uint64_t> planes;  // [kBitPlanes, words]
  float step = 0;                // of the integers
  float offset = 0;              // step times the integers' sum
};

RotatedQuery rotated_query(std::span<const float> query) {
  const int64_t words = sign_words(std::ssize(query));
  RotatedQuery made;
  made.values.resize(static_cast<size_t>(64 * words));
  rotate<float>(query, column_signs<float>(64 * words), made.values);
  float largest = 0;
  for (const float value : made.values) largest = std::max(largest, std::abs(value));
  constexpr auto kMost = static_cast<float>((1 << (kBitPlanes - 1)) - 1);
  made.step = largest > 0 ? largest / kMost : 1.0F;
  made.planes.resize(static_cast<size_t>(kBitPlanes * words));
  int64_t sum = 0;
  for (size_t c = 0; c < made.values.size(); ++c) {
    const auto integer = static_cast<int>(std::lrint(made.values[c] / made.step));
    sum += integer;
    for (size_t p = 0; p < size_t{kBitPlanes}; ++p) {
      const auto bit = static_cast<uint64_t>(static_cast<unsigned>(integer) >> p & 1U);
      made.planes[p * static_cast<size_t>(words) + c / 64] |= bit << (c % 64);
    }
  }
  made.offset = made.step * static_cast<float>(sum);
  return made;
}

// Computes m . v for all lists.
std::vector<float> score_means(const ListIndex& index, const RotatedQuery& query, ThreadPool& pool) {
  std::vector<float> scores(static_cast<size_t>(index.lists()));
  constexpr int64_t kGrain = 512;
  // The rotated columns are a multiple of kDotLanes.
  const int64_t columns = index.means.columns();
  pool.parallel_for(index.lists(), kGrain, [&](int64_t begin, int64_t end) {
    std::vector<const float*> pointers;
    for (int64_t l = begin; l < end + kDotRowGroup; ++l) {
      pointers.push_back(index.means.data() + std::min(l, end - 1) * index.means.stride());
    }
    dot_kernels().front().run(pointers.data(), end - begin, query.values.data(), 1, columns,
                              scores.data() + begin);
  });
  return scores;
}

// Inputs of a scan through lists.
struct Scan {
  const SearchedRows& searched;
  const ListIndex& index;
  const ListChecks& checks;
  const RotatedQuery& query;
  std::span<const float> means;  // scores
  int64_t count = 0;             // candidates wanted
  bool filtered = false;         // so many rows are left out that the mask is looked at first

  [[nodiscard]] bool allows(uint32_t row) const {
    return searched.allowed.empty() || searched.allowed[row] != 0;
  }
};

// Results of a part of a scan.
struct PartOfScan {
  BestRows best;
  int64_t allowed = 0;   // rows seen that are; not counted if none are left out
  int64_t damaged = -1;  // a list with a wrong check
};

void scan_list(const Scan& scan, int64_t list, PartOfScan& part, std::vector<uint64_t>& gathered) {
  const ListIndex& index = scan.index;
  if (!scan.checks.is_whole(index, list)) {
    part.damaged = list;
    return;
  }
  const int64_t words = sign_words(index.dim);
  const BitKernel sums_of = bit_kernels().front().run;
  const float mean = scan.means[static_cast<size_t>(list)];
  const float step = 2 * scan.query.step;
  const int64_t end = index.ends[static_cast<size_t>(list)];
  std::array<int32_t, kTile> sums;
  std::array<int64_t, kTile> rows;
  std::array<float, kTile> scores;
  std::array<int64_t, kTile> places;
  for (int64_t next = index.begin_of(list); next < end;) {
    int64_t count = 0;
    if (!scan.filtered) {
      count = std::min(kTile, end - next);
      std::iota(places.begin(), places.begin() + count, next);
      sums_of(index.signs.data() + next * words, count, words, scan.query.planes.data(), sums.data());
      next += count;
    } else {
      for (; next < end && count < kTile; ++next) {
        const uint32_t row = index.rows[static_cast<size_t>(next)];
        if (row >= index.covered) {
          part.damaged = list;
          return;
        }
        if (scan.allows(row)) places[static_cast<size_t>(count++)] = next;
      }
      if (count == 0) break;
      gathered.resize(static_cast<size_t>(kTile * words));
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(index.signs.data() + places[static_cast<size_t>(i)] * words, words,
                    gathered.data() + i * words);
      }
      sums_of(gathered.data(), count, words, scan.query.planes.data(), sums.data());
    }
    part.allowed += count;
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto place = static_cast<size_t>(places[at]);
      rows[at] = index.rows[place];
      scores[at] = mean + bf16_to_float(index.factors[place]) *
                              (step * static_cast<float>(sums[at]) - scan.query.offset);
    }
    const float floor = part.best.floor();
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!(scores[at] >= floor)) continue;
      if (rows[at] >= index.covered) {
        part.damaged = list;
        return;
      }
      if (scan.filtered || scan.allows(static_cast<uint32_t>(rows[at])))
        part.best.offer(rows[at], scores[at]);
    }
  }
}

// Scans lists, in parts of about kPartRows rows.
Status scan_some(const Scan& scan, std::span<const int64_t> lists, BestRows& best, int64_t& allowed,
                 ThreadPool& pool) {
  std::vector<size_t> parts = {0};
  int64_t rows = 0;
  for (size_t l = 0; l < lists.size(); ++l) {
    rows += scan.index.size_of(lists[l]);
    if (rows < kPartRows && l + 1 < lists.size()) continue;
    parts.push_back(l + 1);
    rows = 0;
  }
  const auto count = std::ssize(parts) - 1;
  std::vector<PartOfScan> found(static_cast<size_t>(count), {BestRows(scan.count), 0, -1});
  // A score that `count` rows are known to reach; later parts keep nothing below it.
  std::atomic<float> floor = best.least();
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> gathered;
    for (int64_t p = begin; p < end && !scan.searched.stop.stop_requested(); ++p) {
      const auto at = static_cast<size_t>(p);
      found[at].best = BestRows(scan.count, floor.load());
      for (size_t l = parts[at]; l < parts[at + 1] && found[at].damaged < 0; ++l) {
        scan_list(scan, lists[l], found[at], gathered);
      }
      const float least = found[at].best.least();
      for (float known = floor.load(); known < least && !floor.compare_exchange_weak(known, least);) {
      }
    }
  });
  if (scan.searched.stop.stop_requested()) return fail(ErrorCode::kCancelled, "search: asked to stop");
  for (PartOfScan& part : found) {
    if (part.damaged >= 0) {
      return fail(ErrorCode::kBadData, "the approximate index is damaged: list {} has a wrong check",
                  part.damaged);
    }
    allowed += part.allowed;
    for (const RowScore& row : part.best.rows()) best.offer(row.row, row.score);
  }
  return {};
}

Status check_near(const SearchedRows& searched, const ListIndex& index, std::span<const float> query) {
  if (index.dim != std::ssize(query) || index.dim != searched.rows.columns()) {
    return fail(ErrorCode::kMismatch, "lists of {} columns, the rows searched have {}, the query {}",
                index.dim, searched.rows.columns(), query.size());
  }
  if (index.covered > searched.rows.rows()) {
    return fail(ErrorCode::kMismatch, "lists of {} rows, there are {}", index.covered, searched.rows.rows());
  }
  return {};
}

std::vector<int64_t> in_order(std::vector<float> means) {
  // Damage: that list comes first, so that its check is looked at.
  for (float& mean : means) {
    if (std::isnan(mean)) mean = std::numeric_limits<float>::infinity();
  }
  std::vector<int64_t> order(means.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int64_t a, int64_t b) {
    const float first = means[static_cast<size_t>(a)];
    const float second = means[static_cast<size_t>(b)];
    return first > second || (first == second && a < b);
  });
  return order;
}

}  // namespace

ListProbe probe_for(const ListProbe& probe, int64_t k) {
  const int64_t rescored = std::max(probe.rescored, 4 * k);
  return {std::max({probe.scanned, 16 * k, rescored}), rescored};
}

bool lists_pay(const ListProbe& probe, int64_t allowed, int64_t k) {
  return allowed > 4 * probe_for(probe, k).scanned;
}

std::vector<int64_t> order_lists(const ListIndex& index, std::span<const float> query, ThreadPool& pool) {
  return in_order(score_means(index, rotated_query(query), pool));
}

namespace {

// Rows of the lists that a search may find.
struct Left {
  int64_t allowed = 0;
  bool filtered = false;  // Scan::filtered
};

Left left_of(const SearchedRows& searched, const ListIndex& index) {
  if (searched.allowed.empty()) return {index.covered, false};
  const auto covered = searched.allowed.first(static_cast<size_t>(index.covered));
  const int64_t allowed = std::ranges::count_if(covered, [](uint8_t flag) { return flag != 0; });
  // Few rows left out are found when they are offered: that is cheaper than to look at the mask of each.
  return {allowed, allowed < index.covered / 16 * 15};
}

Result<std::vector<EstimatedRow>> scan(const SearchedRows& searched, const ListIndex& index,
                                       const ListChecks& checks, const Left& left, const ListProbe& effort,
                                       std::span<const float> query, ThreadPool& pool) {
  const RotatedQuery rotated = rotated_query(query);
  const std::vector<float> means = score_means(index, rotated, pool);
  const std::vector<int64_t> order = in_order(means);
  const Scan scan{searched, index, checks, rotated, means, effort.rescored, left.filtered};
  BestRows best(effort.rescored);
  // The share of allowed rows among those nearest to the query is not known: the lists are read in rounds until enough were
  // seen.
  const double share = left.filtered ? static_cast<double>(std::max<int64_t>(1, left.allowed)) /
                                           static_cast<double>(index.covered)
                                     : 1;
  int64_t seen = 0;
  for (size_t first = 0; first < order.size() && seen < effort.scanned;) {
    const double missing = static_cast<double>(effort.scanned - seen) / share;
    size_t end = first;
    for (int64_t rows = 0; end < order.size() && static_cast<double>(rows) < missing; ++end) {
      rows += index.size_of(order[end]);
    }
    SACCADE_TRY(scan_some(scan, std::span(order).subspan(first, end - first), best, seen, pool));
    first = end;
  }
  std::vector<RowScore> rows = best.rows();
  std::ranges::sort(rows, RanksBefore());
  std::vector<EstimatedRow> estimated;
  estimated.reserve(rows.size());
  for (const RowScore& row : rows) estimated.push_back({row.row, row.score});
  return estimated;
}

}  // namespace

Result<std::vector<EstimatedRow>> scan_lists(const SearchedRows& searched, const ListIndex& index,
                                             const ListChecks& checks, const ListProbe& effort,
                                             std::span<const float> query, ThreadPool& pool) {
  SACCADE_TRY(check_near(searched, index, query));
  return scan(searched, index, checks, left_of(searched, index), effort, query, pool);
}

Result<FoundRows> find_near_rows(const SearchedRows& searched, const ListIndex& index,
                                 const ListChecks& checks, const ListProbe& probe,
                                 std::span<const float> query, int64_t k, ThreadPool& pool,
                                 std::span<const int64_t> wanted) {
  SACCADE_TRY(check_near(searched, index, query));
  const MatrixView<const float> asked(query.data(), 1, std::ssize(query));
  if (!std::ranges::is_sorted(wanted) || (!wanted.empty() && wanted.front() < 0)) {
    return fail(ErrorCode::kMismatch, "rows are wanted out of order");
  }
  // Checks the other arguments, and scores what the lists do not cover.
  const int64_t rest = searched.rows.rows() - index.covered;
  const auto first_wanted = std::ranges::lower_bound(wanted, index.covered) - wanted.begin();
  std::vector<int64_t> late_wanted(wanted.begin() + first_wanted, wanted.end());
  for (int64_t& row : late_wanted) row -= index.covered;
  const std::span<const int64_t> late(late_wanted);
  SearchedRows uncovered{searched.rows.slice(index.covered, rest), {}, {}, searched.stop};
  if (!searched.allowed.empty()) {
    if (std::ssize(searched.allowed) != searched.rows.rows()) {
      return fail(ErrorCode::kMismatch, "the filter covers {} rows, there are {}", searched.allowed.size(),
                  searched.rows.rows());
    }
    uncovered.allowed = searched.allowed.subspan(static_cast<size_t>(index.covered));
  }
  SACCADE_ASSIGN(FoundRows found, find_rows(uncovered, asked, k, pool, {&late, 1}));
  if (k == 0) {
    found.wanted = {std::vector<float>(wanted.size(), std::numeric_limits<float>::quiet_NaN())};
    return found;
  }
  for (RowScore& row : found.best.front()) row.row += index.covered;

  ListProbe effort = probe_for(probe, k);
  const Left left = left_of(searched, index);
  if (left.filtered) effort = {effort.scanned * 2, effort.rescored * 2};
  SACCADE_ASSIGN(const std::vector<EstimatedRow> estimated,
                 scan(searched, index, checks, left, effort, query, pool));
  std::vector<int64_t> candidates;
  candidates.reserve(estimated.size());
  for (const EstimatedRow& row : estimated) candidates.push_back(row.row);
  // In the order of the files.
  std::ranges::sort(candidates);

  Matrix<float> padded(1, padded_dim(searched.rows.columns()));
  std::ranges::copy(query, padded.row(0).begin());
  const MatrixView<const float> one = std::as_const(padded).view();
  BestRows best(k);
  const auto offer = [&](std::span<const int64_t> rows) {
    score_listed(searched.rows, rows, 0, std::ssize(rows), one,
                 [&](int64_t i, int64_t, float score) { best.offer(rows[static_cast<size_t>(i)], score); });
  };
  const Int8Query by_codes = searched.int8.count > 0 ? make_int8_query(query) : Int8Query();
  int64_t full = std::ssize(candidates);
  if (by_codes.usable) {
    // Candidates without codes come last, and are scored in full.
    const auto coded = std::ranges::lower_bound(candidates, searched.int8.count) - candidates.begin();
    BoundedBest bounded = bounded_candidates(searched.rows, searched.int8, by_codes, one, k,
                                             std::span(candidates).first(static_cast<size_t>(coded)), pool);
    for (const RowScore& row : bounded.best.front().rows()) best.offer(row.row, row.score);
    offer(std::span(candidates).subspan(static_cast<size_t>(coded)));
    full = bounded.rescored.front() + full - coded;
  } else {
    offer(candidates);
  }
  for (const RowScore& row : found.best.front()) best.offer(row.row, row.score);
  std::vector<RowScore> rows = best.rows();

  // Wanted rows that the lists cover.
  std::unordered_set<int64_t> there;
  for (const RowScore& row : rows) there.insert(row.row);
  std::vector<float> scores(wanted.size(), std::numeric_limits<float>::quiet_NaN());
  std::ranges::copy(found.wanted.front(), scores.begin() + first_wanted);
  score_listed(searched.rows, wanted, 0, first_wanted, one, [&](int64_t i, int64_t, float score) {
    const int64_t row = wanted[static_cast<size_t>(i)];
    if (!searched.allowed.empty() && searched.allowed[static_cast<size_t>(row)] == 0) return;
    scores[static_cast<size_t>(i)] = score;
    if (!std::isnan(score) && !there.contains(row)) rows.push_back({row, score});
  });
  std::ranges::sort(rows, RanksBefore());
  if (std::ssize(rows) > k) rows.resize(static_cast<size_t>(k));
  found.best.front() = std::move(rows);
  found.wanted.front() = std::move(scores);
  found.rescored = {full};
  return found;
}

}  // namespace saccade
