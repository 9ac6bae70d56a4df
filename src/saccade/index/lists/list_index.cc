#include "saccade/index/lists/list_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "saccade/core/half.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/rotation.h"

namespace saccade {
namespace {

// Number of rows that are compared with directions together.
constexpr int64_t kTogether = 64;
// Number of rows that a thread files at a time.
constexpr int64_t kFiled = 4096;
// Sampled rows a direction, of either level. FAISS warns below 39.
constexpr int64_t kTopSample = 128;
constexpr int64_t kListSample = 40;
constexpr int kRounds = 8;
// Number of first-level directions whose lists a row is compared with. With 1, a row near a border often gets a list that
// is not its nearest.
constexpr size_t kTopLooked = 3;

struct Nearest {
  int64_t direction = 0;  // stays the first if no score is a number: those of very large values
  float score = -std::numeric_limits<float>::infinity();
};

// Rows as a kernel's queries, padded with zeros.
class Padded {
 public:
  explicit Padded(int64_t dim) : values_(kTogether, padded_dim(dim)) {}
  void set(int64_t at, std::span<const float> row) { std::ranges::copy(row, values_.row(at).begin()); }
  [[nodiscard]] const float* data() const { return values_.data(); }

 private:
  Matrix<float> values_;
};

// Computes scores[q * (end - begin) + i] of the first `count` padded rows with directions [begin, end).
void score_directions(const Padded& padded, int64_t count, MatrixView<const float> directions, int64_t begin,
                      int64_t end, std::vector<float>& scores) {
  std::vector<const float*> pointers;
  for (int64_t d = begin; d < end + kDotRowGroup; ++d) {
    pointers.push_back(directions.data() + std::min(d, end - 1) * directions.stride());
  }
  scores.resize(static_cast<size_t>(count * (end - begin)));
  dot_kernels().front().run(pointers.data(), end - begin, padded.data(), count, directions.columns(),
                            scores.data());
}

// Finds the nearest of directions [begin, end) for the padded rows, where it is nearer than what they have.
void take_nearest(const Padded& padded, MatrixView<const float> directions, int64_t begin, int64_t end,
                  std::span<Nearest> best, std::vector<float>& scores) {
  score_directions(padded, std::ssize(best), directions, begin, end, scores);
  const int64_t width = end - begin;
  for (size_t q = 0; q < best.size(); ++q) {
    for (int64_t i = 0; i < width; ++i) {
      const float score = scores[q * static_cast<size_t>(width) + static_cast<size_t>(i)];
      // The first of equal ones wins, in whatever order they are looked at.
      if (score > best[q].score || (score == best[q].score && begin + i < best[q].direction)) {
        best[q] = {begin + i, score};
      }
    }
  }
}

// Finds the nearest direction of each member.
std::vector<Nearest> nearest_of(MatrixView<const float> rows, std::span<const int64_t> members,
                                MatrixView<const float> directions, ThreadPool* pool) {
  std::vector<Nearest> best(members.size());
  const auto some = [&](int64_t begin, int64_t end) {
    Padded padded(rows.columns());
    std::vector<float> scores;
    for (int64_t first = begin; first < end; first += kTogether) {
      const int64_t count = std::min(kTogether, end - first);
      for (int64_t i = 0; i < count; ++i) padded.set(i, rows.row(members[static_cast<size_t>(first + i)]));
      take_nearest(padded, directions, 0, directions.rows(),
                   std::span(best).subspan(static_cast<size_t>(first), static_cast<size_t>(count)), scores);
    }
  };
  if (pool == nullptr) {
    some(0, std::ssize(members));
  } else {
    pool->parallel_for(std::ssize(members), kFiled, some);
  }
  return best;
}

// Adds the members up, direction by direction: [directions, dim].
Matrix<double> sums_of(MatrixView<const float> rows, std::span<const int64_t> members,
                       std::span<const Nearest> nearest, int64_t directions, std::vector<int64_t>& counts) {
  Matrix<double> sums(directions, rows.columns());
  counts.assign(static_cast<size_t>(directions), 0);
  for (size_t i = 0; i < members.size(); ++i) {
    const std::span<const float> row = rows.row(members[i]);
    const std::span<double> sum = sums.row(nearest[i].direction);
    for (size_t c = 0; c < row.size(); ++c) sum[c] += static_cast<double>(row[c]);
    ++counts[static_cast<size_t>(nearest[i].direction)];
  }
  return sums;
}

// Learns unit directions from the members by spherical k-means. means: receives the means of their members, or may be
// `nullptr`. pool: `nullptr` for a caller that is one of many.
Matrix<float> learn(MatrixView<const float> rows, std::span<const int64_t> members, int64_t count,
                    SplitMix random, ThreadPool* pool, Matrix<float>* means) {
  Matrix<float> directions(count, rows.columns());
  const auto take_member = [&](int64_t direction) {
    const int64_t row = members[random.below(static_cast<uint32_t>(members.size()))];
    std::ranges::copy(rows.row(row), directions.row(direction).begin());
  };
  for (int64_t d = 0; d < count; ++d) take_member(d);
  std::vector<int64_t> counts;
  for (int round = 0; round <= kRounds; ++round) {
    const std::vector<Nearest> nearest = nearest_of(rows, members, std::as_const(directions).view(), pool);
    const Matrix<double> sums = sums_of(rows, members, nearest, count, counts);
    if (round == kRounds) {
      if (means == nullptr) break;
      *means = directions.copy();
      for (int64_t d = 0; d < count; ++d) {
        const auto n = counts[static_cast<size_t>(d)];
        if (n == 0) continue;
        for (int64_t c = 0; c < rows.columns(); ++c) {
          (*means)(d, c) = static_cast<float>(sums(d, c) / static_cast<double>(n));
        }
      }
      break;
    }
    for (int64_t d = 0; d < count; ++d) {
      auto unit = unit_row(sums.row(d), 1e-6);
      if (unit) std::ranges::copy(*unit, directions.row(d).begin());
      if (!unit) take_member(d);
    }
  }
  return directions;
}

bool is_finite(std::span<const float> row) {
  return std::isfinite(row_length(row));
}

// Two levels of directions.
struct Directions {
  Matrix<float> top;          // [groups, dim]
  std::vector<int64_t> ends;  // [groups]: the lists of a group end there
  Matrix<float> lists;        // [lists, dim]
  Matrix<float> means;        // [lists, dim]

  [[nodiscard]] int64_t begin_of(int64_t group) const {
    return group == 0 ? 0 : ends[static_cast<size_t>(group - 1)];
  }
};

// Returns one row of each of `count` stretches of `from`.
std::vector<int64_t> spread_sample(std::span<const int64_t> from, int64_t count, SplitMix& random) {
  std::vector<int64_t> sample;
  const auto size = std::ssize(from);
  for (int64_t i = 0; i < std::min(count, size); ++i) {
    const int64_t begin = i * size / std::min(count, size);
    const int64_t end = (i + 1) * size / std::min(count, size);
    const auto at = static_cast<size_t>(begin) + random.below(static_cast<uint32_t>(end - begin));
    sample.push_back(from[at]);
  }
  return sample;
}

Result<Directions> learn_directions(MatrixView<const float> rows, std::span<const int64_t> entries,
                                    const ListOptions& options, ThreadPool& pool,
                                    const ProgressCallback& progress, const std::stop_token& stop) {
  const auto size = std::ssize(entries);
  const auto usual = static_cast<int64_t>(4 * std::sqrt(static_cast<double>(size)));
  const int64_t wanted = std::clamp<int64_t>(options.lists > 0 ? options.lists : usual, 1, size);
  const auto groups = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(wanted))));
  SplitMix random(options.seed, 0);
  const std::vector<int64_t> sample =
      spread_sample(entries, std::max(kListSample * wanted, kTopSample * groups), random);
  Directions learned;
  learned.top = learn(rows, spread_sample(sample, kTopSample * groups, random), groups,
                      SplitMix(options.seed, 1), &pool, nullptr);
  const std::vector<Nearest> nearest = nearest_of(rows, sample, std::as_const(learned.top).view(), &pool);
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(groups));
  for (size_t i = 0; i < sample.size(); ++i) {
    members[static_cast<size_t>(nearest[i].direction)].push_back(sample[i]);
  }
  std::vector<Matrix<float>> directions(static_cast<size_t>(groups));
  std::vector<Matrix<float>> means(static_cast<size_t>(groups));
  std::atomic<int64_t> done = 0;
  pool.parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const auto& own = members[static_cast<size_t>(g)];
      const double share = static_cast<double>(own.size()) / static_cast<double>(sample.size());
      const auto count = static_cast<int64_t>(std::lround(share * static_cast<double>(wanted)));
      if (!own.empty() && !stop.stop_requested()) {
        directions[static_cast<size_t>(g)] =
            learn(rows, own, std::clamp<int64_t>(count, 1, std::ssize(own)), SplitMix(options.seed, g + 2),
                  nullptr, &means[static_cast<size_t>(g)]);
      }
      ++done;
    }
  });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
  if (progress) progress({"learning lists", done, groups, {}});
  int64_t lists = 0;
  for (const Matrix<float>& of_group : directions) learned.ends.push_back(lists += of_group.rows());
  learned.lists = Matrix<float>(lists, rows.columns());
  learned.means = Matrix<float>(lists, rows.columns());
  for (int64_t g = 0; g < groups; ++g) {
    const auto at = static_cast<size_t>(g);
    for (int64_t d = 0; d < directions[at].rows(); ++d) {
      std::ranges::copy(directions[at].row(d), learned.lists.row(learned.begin_of(g) + d).begin());
      std::ranges::copy(means[at].row(d), learned.means.row(learned.begin_of(g) + d).begin());
    }
  }
  return learned;
}

// Finds the list of each of up to kFiled entries.
void find_lists(MatrixView<const float> rows, std::span<const int64_t> entries, const Directions& directions,
                std::span<uint32_t> lists) {
  std::vector<std::vector<size_t>> looked(static_cast<size_t>(directions.top.rows()));
  std::vector<float> scores;
  Padded padded(rows.columns());
  const int64_t groups = directions.top.rows();
  const size_t looked_at = std::min(kTopLooked, static_cast<size_t>(groups));
  std::vector<int64_t> order(static_cast<size_t>(groups));
  for (size_t first = 0; first < entries.size(); first += static_cast<size_t>(kTogether)) {
    const auto count = std::min(kTogether, std::ssize(entries) - static_cast<int64_t>(first));
    for (int64_t i = 0; i < count; ++i) padded.set(i, rows.row(entries[first + static_cast<size_t>(i)]));
    score_directions(padded, count, directions.top.view(), 0, groups, scores);
    for (int64_t i = 0; i < count; ++i) {
      const float* own = scores.data() + i * groups;
      std::iota(order.begin(), order.end(), 0);
      std::ranges::partial_sort(
          order, order.begin() + static_cast<std::ptrdiff_t>(looked_at),
          [own](int64_t a, int64_t b) { return own[a] > own[b] || (own[a] == own[b] && a < b); });
      for (size_t g = 0; g < looked_at; ++g) {
        looked[static_cast<size_t>(order[g])].push_back(first + static_cast<size_t>(i));
      }
    }
  }
  std::vector<Nearest> best(entries.size());
  std::array<Nearest, kTogether> some;
  for (int64_t g = 0; g < groups; ++g) {
    const std::vector<size_t>& own = looked[static_cast<size_t>(g)];
    const int64_t begin = directions.begin_of(g);
    const int64_t end = directions.ends[static_cast<size_t>(g)];
    if (begin == end) continue;
    for (size_t first = 0; first < own.size(); first += static_cast<size_t>(kTogether)) {
      const auto count = std::min(static_cast<size_t>(kTogether), own.size() - first);
      for (size_t i = 0; i < count; ++i) {
        padded.set(static_cast<int64_t>(i), rows.row(entries[own[first + i]]));
        some[i] = best[own[first + i]];
      }
      take_nearest(padded, directions.lists.view(), begin, end, std::span(some).first(count), scores);
      for (size_t i = 0; i < count; ++i) best[own[first + i]] = some[i];
    }
  }
  // A row's first groups may be without lists, if the sample has no row of them: it is in the first list then.
  for (size_t i = 0; i < best.size(); ++i) lists[i] = static_cast<uint32_t>(best[i].direction);
}

// Computes a row's signs and factor against the mean of its list, rotated.
class SignEncoder {
 public:
  explicit SignEncoder(int64_t dim)
      : signs_(column_signs<float>(64 * sign_words(dim))), values_(signs_.size()) {}
  uint16_t encode(std::span<const float> row, std::span<const float> mean, std::span<uint64_t> words) {
    rotate<float>(row, signs_, values_);
    float squares = 0;
    float sum = 0;
    std::ranges::fill(words, 0);
    for (size_t c = 0; c < values_.size(); ++c) {
      const float offset = values_[c] - mean[c];
      squares += offset * offset;
      sum += std::abs(offset);
      words[c / 64] |= static_cast<uint64_t>(offset > 0 ? 1 : 0) << (c % 64);
    }
    return float_to_bf16(sum > 0 ? squares / sum : 0);
  }

 private:
  std::vector<float> signs_;
  std::vector<float> values_;
};

// Mixes bytes into a check, eight at a time.
uint64_t mix(uint64_t check, const void* data, size_t bytes) {
  // Four sums that do not wait for each other.
  std::array<uint64_t, 4> lanes = {check, check + 1, check + 2, check + 3};
  const auto* from = static_cast<const unsigned char*>(data);
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15U;
  for (size_t i = 0, lane = 0; i < bytes; i += 8, lane = (lane + 1) % 4) {
    uint64_t word = 0;
    std::memcpy(&word, from + i, std::min<size_t>(8, bytes - i));
    lanes[lane] = std::rotl((lanes[lane] ^ word) * kFactor, 29);
  }
  uint64_t all = bytes;
  for (const uint64_t lane : lanes) all = std::rotl((all ^ lane) * kFactor, 31);
  return all;
}

}  // namespace

uint64_t list_check(const ListIndex& index, int64_t list) {
  const auto begin = static_cast<size_t>(index.begin_of(list));
  const auto size = static_cast<size_t>(index.size_of(list));
  const auto words = static_cast<size_t>(sign_words(index.dim));
  uint64_t check = static_cast<uint64_t>(list) + 1;
  check = mix(check, index.means.row(list).data(), index.means.row(list).size_bytes());
  check = mix(check, index.rows.data() + begin, size * sizeof(uint32_t));
  check = mix(check, index.factors.data() + begin, size * sizeof(uint16_t));
  return mix(check, index.signs.data() + begin * words, size * words * sizeof(uint64_t));
}

bool ListChecks::is_whole(const ListIndex& index, int64_t list) const {
  std::atomic<uint8_t>& known = whole_[static_cast<size_t>(list)];
  if (known.load(std::memory_order_relaxed) != 0) return true;
  if (list_check(index, list) != index.checks[static_cast<size_t>(list)]) return false;
  known.store(1, std::memory_order_relaxed);
  return true;
}

Result<BuiltLists> build_lists(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                               const ListOptions& options, ThreadPool& pool, const ProgressCallback& progress,
                               const std::stop_token& stop) {
  if (rows.rows() >= std::numeric_limits<uint32_t>::max()) {
    return fail(ErrorCode::kUsage, "{} rows, an approximate index takes up to {}", rows.rows(),
                std::numeric_limits<uint32_t>::max() - 1);
  }
  std::vector<uint8_t> wanted(static_cast<size_t>(rows.rows()));
  pool.parallel_for(rows.rows(), kFiled, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto at = static_cast<size_t>(r);
      wanted[at] = (allowed.empty() || allowed[at] != 0) && is_finite(rows.row(r)) ? 1 : 0;
    }
  });
  std::vector<int64_t> entries;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    if (wanted[static_cast<size_t>(r)] != 0) entries.push_back(r);
  }
  if (entries.empty()) return fail(ErrorCode::kUsage, "there are no rows to index");
  SACCADE_ASSIGN(const Directions directions, learn_directions(rows, entries, options, pool, progress, stop));

  const int64_t words = sign_words(rows.columns());
  const int64_t lists = directions.lists.rows();
  BuiltLists built;
  built.dim = rows.columns();
  built.covered = rows.rows();
  built.means = Matrix<float>(lists, 64 * words);
  const std::vector<float> column_sign = column_signs<float>(64 * words);
  for (int64_t l = 0; l < lists; ++l) {
    rotate<float>(directions.means.row(l), column_sign, built.means.row(l));
  }

  // In the order of the rows, then of the lists.
  const size_t size = entries.size();
  std::vector<uint32_t> list_of(size);
  std::vector<uint16_t> factors(size);
  std::vector<uint64_t> signs(size * static_cast<size_t>(words));
  // In stretches, so that progress is reported on this thread.
  constexpr int64_t kStretch = 64 * kFiled;
  for (int64_t first = 0; first < std::ssize(entries); first += kStretch) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
    const int64_t count = std::min(kStretch, std::ssize(entries) - first);
    pool.parallel_for(count, kFiled, [&](int64_t begin, int64_t end) {
      const auto from = static_cast<size_t>(first + begin);
      const auto some = std::span<const int64_t>(entries).subspan(from, static_cast<size_t>(end - begin));
      find_lists(rows, some, directions, std::span(list_of).subspan(from, some.size()));
      SignEncoder encoder(rows.columns());
      for (size_t i = 0; i < some.size(); ++i) {
        factors[from + i] = encoder.encode(
            rows.row(some[i]), std::as_const(built.means).row(list_of[from + i]),
            std::span(signs).subspan((from + i) * static_cast<size_t>(words), static_cast<size_t>(words)));
      }
    });
    if (progress) progress({"filing rows", first + count, std::ssize(entries), {}});
  }
  built.ends.assign(static_cast<size_t>(lists), 0);
  for (const uint32_t list : list_of) ++built.ends[list];
  std::partial_sum(built.ends.begin(), built.ends.end(), built.ends.begin());
  std::vector<int64_t> next(static_cast<size_t>(lists), 0);
  std::copy(built.ends.begin(), built.ends.end() - 1, next.begin() + 1);
  built.rows.resize(size);
  built.factors.resize(size);
  built.signs.resize(signs.size());
  for (size_t i = 0; i < size; ++i) {
    const auto to = static_cast<size_t>(next[list_of[i]]++);
    built.rows[to] = static_cast<uint32_t>(entries[i]);
    built.factors[to] = factors[i];
    std::copy_n(signs.begin() + static_cast<std::ptrdiff_t>(i) * words, words,
                built.signs.begin() + static_cast<std::ptrdiff_t>(to) * words);
  }
  for (int64_t l = 0; l < lists; ++l) built.checks.push_back(list_check(built.view(), l));
  return built;
}

}  // namespace saccade
