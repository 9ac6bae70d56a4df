// Tests of the approximate index: what it finds is scored as by exact search, and as much of that is found as it promises.
#include "saccade/index/lists/list_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "saccade/core/half.h"
#include "saccade/core/rows.h"
#include "saccade/index/lists/bit_kernels.h"
#include "saccade/index/lists/list_search.h"
#include "saccade/index/lists/list_tuning.h"
#include "saccade/index/rotation.h"

namespace saccade {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Unit rows around centers, and queries around the same centers in another place of the space, as texts are beside images.
struct Mixture {
  Matrix<float> rows;
  Matrix<float> images;
  Matrix<float> texts;
  std::vector<int> center;  // of each row
};

Mixture mixture(int64_t rows, int64_t dim, int64_t queries, uint32_t seed = 1) {
  constexpr int kCenters = 60;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> centers(kCenters, dim);
  for (float& value : centers.values()) value = normal(random);
  std::vector<float> gap(static_cast<size_t>(dim));
  for (float& value : gap) value = 1.5F * normal(random);
  Mixture made{Matrix<float>(rows, dim), Matrix<float>(queries, dim), Matrix<float>(queries, dim), {}};
  const auto fill = [&](std::span<float> row, float content, float noise, float shift) {
    const auto center = static_cast<int>(random() % kCenters);
    for (size_t c = 0; c < row.size(); ++c) {
      row[c] = content * centers(center, static_cast<int64_t>(c)) + noise * normal(random) + shift * gap[c];
    }
    normalize_row(row);
    return center;
  };
  for (int64_t r = 0; r < rows; ++r) made.center.push_back(fill(made.rows.row(r), 0.8F, 0.7F, 0.0F));
  for (int64_t q = 0; q < queries; ++q) {
    fill(made.images.row(q), 0.8F, 0.7F, 0.0F);
    fill(made.texts.row(q), 0.4F, 0.4F, 1.0F);
  }
  return made;
}

BuiltLists built(MatrixView<const float> rows, std::span<const uint8_t> allowed = {}, int threads = 2) {
  ThreadPool pool(threads);
  auto lists = build_lists(rows, allowed, {}, pool);
  EXPECT_TRUE(lists.has_value()) << lists.error().message;
  return lists ? *std::move(lists) : BuiltLists();
}

// 8-bit rows beside full ones.
struct Coded {
  std::vector<std::byte> bytes;
  Int8Rows view;
};
Coded coded(MatrixView<const float> rows, int64_t count) {
  Coded made;
  const int64_t width = int8_row_bytes(rows.columns());
  made.bytes.resize(static_cast<size_t>(count * width));
  const Int8Encoder encoder(rows.columns());
  for (int64_t r = 0; r < count; ++r) {
    encoder.encode(rows.row(r), r,
                   std::span(made.bytes).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width)));
  }
  made.view = {made.bytes.data(), count, rows.columns()};
  return made;
}

void expect_same(const std::vector<RowScore>& found, const std::vector<RowScore>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].row, expected[i].row) << "rank " << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i].score), std::bit_cast<uint32_t>(expected[i].score));
  }
}

std::vector<RowScore> exact(const SearchedRows& searched, std::span<const float> query, int64_t k) {
  ThreadPool pool(1);
  auto found =
      find_rows({searched.rows, searched.allowed, {}}, {query.data(), 1, std::ssize(query)}, k, pool);
  EXPECT_TRUE(found.has_value());
  return found ? found->best.front() : std::vector<RowScore>();
}

// Returns the share of the exact 10 best that a search finds, as a program searches: through the lists if that pays.
double recall_of(const SearchedRows& searched, const ListIndex& index, const ListProbe& probe,
                 MatrixView<const float> queries) {
  ThreadPool pool(2);
  const ListChecks checks(index.lists());
  const auto allowed = searched.allowed.empty()
                           ? searched.rows.rows()
                           : std::ranges::count_if(searched.allowed, [](uint8_t flag) { return flag != 0; });
  int64_t there = 0;
  int64_t all = 0;
  for (int64_t q = 0; q < queries.rows(); ++q) {
    const std::vector<RowScore> expected = exact(searched, queries.row(q), 10);
    std::vector<RowScore> found = expected;
    if (lists_pay(probe, allowed, 10)) {
      auto near = find_near_rows(searched, index, checks, probe, queries.row(q), 10, pool);
      EXPECT_TRUE(near.has_value()) << near.error().message;
      if (!near) return 0;
      found = near->best.front();
    }
    std::set<int64_t> rows;
    for (const RowScore& row : found) rows.insert(row.row);
    for (const RowScore& row : found) {
      EXPECT_TRUE(searched.allowed.empty() || searched.allowed[static_cast<size_t>(row.row)] != 0);
    }
    all += std::ssize(expected);
    for (const RowScore& row : expected) there += rows.contains(row.row) ? 1 : 0;
  }
  return static_cast<double>(there) / static_cast<double>(std::max<int64_t>(1, all));
}

TEST(BitKernels, AllGiveTheSumsOfTheQuerysIntegers) {
  EXPECT_EQ(bit_kernels().back().name, "portable");
  std::mt19937_64 random(1);
  for (const int64_t words : {1, 2, 3, 4, 5, 8, 9, 12, 16, 17}) {
    constexpr int64_t kRows = 7;
    std::vector<uint64_t> rows(static_cast<size_t>(kRows * words));
    for (uint64_t& word : rows) word = random();
    std::vector<int> integers(static_cast<size_t>(64 * words));
    for (int& value : integers) value = static_cast<int>(random() % 64) - 32;
    std::vector<uint64_t> planes(static_cast<size_t>(kBitPlanes * words));
    for (size_t c = 0; c < integers.size(); ++c) {
      for (size_t p = 0; p < size_t{kBitPlanes}; ++p) {
        const auto bit = static_cast<uint64_t>(static_cast<unsigned>(integers[c]) >> p & 1U);
        planes[p * static_cast<size_t>(words) + c / 64] |= bit << (c % 64);
      }
    }
    for (const NamedBitKernel& kernel : bit_kernels()) {
      std::vector<int32_t> sums(kRows, -1);
      kernel.run(rows.data(), kRows, words, planes.data(), sums.data());
      for (size_t r = 0; r < size_t{kRows}; ++r) {
        int32_t sum = 0;
        for (size_t c = 0; c < integers.size(); ++c) {
          if ((rows[r * static_cast<size_t>(words) + c / 64] >> (c % 64) & 1) != 0) sum += integers[c];
        }
        ASSERT_EQ(sums[r], sum) << kernel.name << ", " << words << " words";
      }
    }
  }
}

TEST(ListIndex, HasEveryAllowedRowOnceAndTheSameForAnyNumberOfThreads) {
  Mixture data = mixture(3000, 48, 0);
  data.rows(17, 3) = kNan;
  std::vector<uint8_t> allowed(3000, 1);
  for (size_t r = 0; r < allowed.size(); r += 7) allowed[r] = 0;
  const BuiltLists one = built(data.rows.view(), allowed, 1);
  const BuiltLists three = built(data.rows.view(), allowed, 3);
  EXPECT_EQ(one.ends, three.ends);
  EXPECT_EQ(one.rows, three.rows);
  EXPECT_EQ(one.signs, three.signs);
  EXPECT_EQ(one.factors, three.factors);
  EXPECT_EQ(one.checks, three.checks);
  std::vector<uint32_t> rows = one.rows;
  std::ranges::sort(rows);
  std::vector<uint32_t> expected;
  for (uint32_t r = 0; r < 3000; ++r) {
    if (allowed[r] != 0 && r != 17) expected.push_back(r);
  }
  EXPECT_EQ(rows, expected);
  EXPECT_GT(std::ssize(one.ends), 150);
}

TEST(ListIndex, EstimatesHaveTheErrorThatIsSaidOfThem) {
  const Mixture data = mixture(2000, 128, 20);
  const BuiltLists lists = built(data.rows.view());
  const ListIndex index = lists.view();
  ThreadPool pool(1);
  double sum = 0;
  double squares = 0;
  int64_t count = 0;
  const std::vector<float> signs = column_signs<float>(128);
  std::vector<float> rotated(128);
  for (int64_t q = 0; q < 20; ++q) {
    const auto estimated = scan_lists({data.rows.view()}, index, ListChecks(index.lists()), {2000, 2000},
                                      data.texts.row(q), pool);
    ASSERT_TRUE(estimated.has_value());
    ASSERT_EQ(estimated->size(), 2000U);
    for (const EstimatedRow& row : *estimated) {
      // The length of o is at most that of the row beside its mean; by the list of the row.
      const auto at = std::ranges::find(index.rows, static_cast<uint32_t>(row.row)) - index.rows.begin();
      const auto list = std::ranges::upper_bound(index.ends, at) - index.ends.begin();
      rotate<float>(data.rows.row(row.row), signs, rotated);
      double length = 0;
      double score = 0;
      for (int64_t c = 0; c < 128; ++c) {
        const double offset = double{rotated[static_cast<size_t>(c)]} - double{index.means(list, c)};
        length += offset * offset;
        score += double{data.rows(row.row, c)} * double{data.texts(q, c)};
      }
      if (length < 1e-6) continue;  // alone in its list
      const double error = (double{row.estimate} - score) / std::sqrt(length / 128);
      sum += error;
      squares += error * error;
      ++count;
    }
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.05);
  EXPECT_GT(std::sqrt(squares / static_cast<double>(count)), 0.3);  // bits are not the rows themselves
  EXPECT_LT(std::sqrt(squares / static_cast<double>(count)), 0.85);
}

TEST(ListSearch, OverAllListsAndCandidatesIsExactSearch) {
  Mixture data = mixture(3000, 96, 6);
  for (int64_t r = 40; r < 60; ++r) std::ranges::copy(data.rows.row(39), data.rows.row(r).begin());  // ties
  const Coded int8 = coded(data.rows.view(), 2500);
  std::vector<uint8_t> half(3000, 1);
  for (size_t r = 0; r < half.size(); r += 2) half[r] = 0;
  // The last rows were added after the lists were built.
  const BuiltLists lists = built(data.rows.view().slice(0, 2700));
  const ListIndex index = lists.view();
  const ListChecks checks(index.lists());
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const bool with_codes : {false, true}) {
      for (const bool filtered : {false, true}) {
        const std::vector<uint8_t> everything(3000, 1);
        const SearchedRows rows{
            data.rows.view(),
            filtered ? std::span<const uint8_t>(half) : std::span<const uint8_t>(everything),
            with_codes ? int8.view : Int8Rows()};
        for (int64_t q = 0; q < 6; ++q) {
          for (const int64_t k : {1, 10, 33}) {
            const auto found = find_near_rows(rows, index, checks, {3000, 3000}, data.texts.row(q), k, pool);
            ASSERT_TRUE(found.has_value()) << found.error().message;
            expect_same(found->best.front(), exact(rows, data.texts.row(q), k));
          }
        }
        const auto tied = find_near_rows(rows, index, checks, {3000, 3000}, data.rows.row(39), 7, pool);
        ASSERT_TRUE(tied.has_value());
        expect_same(tied->best.front(), exact(rows, data.rows.row(39), 7));
      }
    }
  }
}

TEST(ListSearch, IsTheSameForAnyNumberOfThreads) {
  const Mixture data = mixture(20'000, 64, 10);
  const BuiltLists lists = built(data.rows.view());
  const ListIndex index = lists.view();
  const ListChecks checks(index.lists());
  ThreadPool one(1);
  ThreadPool four(4);
  for (int64_t q = 0; q < 10; ++q) {
    const SearchedRows rows{data.rows.view()};
    const auto first = find_near_rows(rows, index, checks, {18'000, 70}, data.texts.row(q), 10, one);
    const auto second = find_near_rows(rows, index, checks, {18'000, 70}, data.texts.row(q), 10, four);
    ASSERT_TRUE(first.has_value() && second.has_value());
    expect_same(first->best.front(), second->best.front());
  }
}

TEST(ListSearch, FindsWantedRowsWhereverTheyLie) {
  const Mixture data = mixture(4000, 64, 3);
  const BuiltLists lists = built(data.rows.view().slice(0, 3800));
  const ListIndex index = lists.view();
  std::vector<uint8_t> allowed(4000, 1);
  ThreadPool pool(2);
  for (int64_t q = 0; q < 3; ++q) {
    const std::vector<RowScore> best = exact({data.rows.view()}, data.texts.row(q), 40);
    // A scan of one list misses most of them.
    std::vector<int64_t> wanted;
    for (const RowScore& row : best) wanted.push_back(row.row);
    wanted.push_back(3999);
    std::ranges::sort(wanted);
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    allowed[static_cast<size_t>(best[1].row)] = 0;
    const SearchedRows rows{data.rows.view(), allowed};
    const auto found =
        find_near_rows(rows, index, ListChecks(index.lists()), {1, 1}, data.texts.row(q), 10, pool, wanted);
    ASSERT_TRUE(found.has_value());
    expect_same(found->best.front(), exact(rows, data.texts.row(q), 10));
    const std::span<const int64_t> asked(wanted);
    const auto scored = find_rows(rows, data.texts.view().slice(q, 1), 10, pool, {&asked, 1});
    ASSERT_TRUE(scored.has_value());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(found->wanted.front()[i]),
                std::bit_cast<uint32_t>(scored->wanted.front()[i]));
    }
    allowed[static_cast<size_t>(best[1].row)] = 1;
  }
}

TEST(ListSearch, FindsAddedRowsAndNeverRemovedOnes) {
  Mixture data = mixture(6000, 64, 20);
  const BuiltLists lists = built(data.rows.view().slice(0, 5900));
  const ListIndex index = lists.view();
  const ListChecks checks(index.lists());
  ThreadPool pool(2);
  std::vector<uint8_t> allowed(6000, 1);
  for (int64_t q = 0; q < 20; ++q) {
    std::ranges::copy(data.texts.row(q), data.rows.row(5900 + q).begin());
    const SearchedRows rows{data.rows.view(), allowed};
    const auto found = find_near_rows(rows, index, checks, {600, 64}, data.texts.row(q), 1, pool);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->best.front().front().row, 5900 + q);
    const auto removed = exact(rows, data.texts.row(q), 5);
    for (const RowScore& row : removed) allowed[static_cast<size_t>(row.row)] = 0;
    const auto after = find_near_rows(rows, index, checks, {6000, 6000}, data.texts.row(q), 5, pool);
    ASSERT_TRUE(after.has_value());
    expect_same(after->best.front(), exact(rows, data.texts.row(q), 5));
  }
}

TEST(ListTuning, FindsTheEffortForAWantedRecall) {
  const Mixture data = mixture(30'000, 64, 240);
  const BuiltLists lists = built(data.rows.view());
  const ListIndex index = lists.view();
  const ListChecks checks(index.lists());
  ThreadPool pool(2);
  const SearchedRows rows{data.rows.view()};
  ListProbe easier;
  for (const double wanted : {0.8, 0.95}) {
    const auto texts = tune_lists(rows, index, checks, {data.texts.view()}, {.recall = wanted}, pool);
    ASSERT_TRUE(texts.has_value()) << texts.error().message;
    EXPECT_EQ(texts->tuned_with, 80);
    EXPECT_EQ(texts->queries, 160);
    EXPECT_GE(texts->measured, wanted);
    EXPECT_LT(texts->probe.scanned, 25'000);  // less than everything
    EXPECT_GT(texts->probe.scanned, easier.scanned / 2);
    // The slow way to measure agrees.
    EXPECT_NEAR(recall_of(rows, index, texts->probe, data.texts.view().slice(80, 160)), texts->measured,
                1e-9);
    easier = texts->probe;
  }
  // Rows of the collection as queries: a row is no neighbor of itself.
  std::vector<int64_t> itself;
  Matrix<float> own(90, 64);
  for (int64_t q = 0; q < 90; ++q) {
    itself.push_back(q * 300);
    std::ranges::copy(data.rows.row(q * 300), own.row(q).begin());
  }
  const auto images = tune_lists(rows, index, checks, {own.view(), itself}, {.recall = 0.95}, pool);
  ASSERT_TRUE(images.has_value());
  EXPECT_GE(images->measured, 0.95);
  EXPECT_LT(images->probe.scanned, easier.scanned);  // texts lie elsewhere, and need more
  const auto few = tune_lists(rows, index, checks, {own.view().slice(0, 20)}, {}, pool);
  ASSERT_TRUE(few.has_value());
  EXPECT_FALSE(few->known());
}

// Queries that tune may be easier than those that come.
TEST(ListTuning, RaisesTheEffortWhereOtherQueriesNeedMore) {
  const Mixture data = mixture(20'000, 64, 240);
  const BuiltLists lists = built(data.rows.view());
  const ListIndex index = lists.view();
  ThreadPool pool(2);
  Matrix<float> queries(240, 64);
  for (int64_t q = 0; q < 240; ++q) {
    std::ranges::copy(q < 80 ? data.images.row(q) : data.texts.row(q), queries.row(q).begin());
  }
  const auto tuned = tune_lists({data.rows.view()}, index, ListChecks(index.lists()), {queries.view()},
                                {.recall = 0.95}, pool);
  ASSERT_TRUE(tuned.has_value());
  EXPECT_EQ(tuned->tuned_with, 80);
  EXPECT_TRUE(tuned->reached()) << tuned->measured;
}

// Filters that leave rows anywhere, and ones that leave rows far from the query, of all sizes.
TEST(ListSearch, FiltersLoseNoHits) {
  constexpr int64_t kRows = 40'000;
  const Mixture data = mixture(kRows, 64, 200);
  const BuiltLists lists = built(data.rows.view());
  const ListIndex index = lists.view();
  ThreadPool pool(2);
  const auto tuned =
      tune_lists({data.rows.view()}, index, ListChecks(index.lists()), {data.texts.view()}, {}, pool);
  ASSERT_TRUE(tuned.has_value());
  std::mt19937 random(7);
  int searched_by_lists = 0;
  for (const double share : {0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.7, 0.9, 1.0}) {
    for (const bool clustered : {false, true}) {
      std::vector<uint8_t> allowed(kRows);
      for (size_t r = 0; r < allowed.size(); ++r) {
        const bool in = clustered ? data.center[r] < static_cast<int>(std::ceil(60 * share))
                                  : std::generate_canonical<double, 32>(random) < share;
        allowed[r] = in ? 1 : 0;
      }
      const SearchedRows rows{data.rows.view(), allowed};
      const auto left = std::ranges::count_if(allowed, [](uint8_t flag) { return flag != 0; });
      searched_by_lists += lists_pay(tuned->probe, left, 10) ? 1 : 0;
      EXPECT_GE(recall_of(rows, index, tuned->probe, data.texts.view().slice(80, 100)), 0.95)
          << share << (clustered ? " clustered" : "");
    }
  }
  EXPECT_GE(searched_by_lists, 4);
}

TEST(ListSearch, DamagedListsAreAnError) {
  const Mixture data = mixture(2000, 64, 2);
  const BuiltLists lists = built(data.rows.view());
  std::vector<uint64_t> signs = lists.signs;
  std::vector<uint32_t> numbers = lists.rows;
  std::vector<uint16_t> factors = lists.factors;
  ListIndex index = lists.view();
  index.signs = signs;
  index.rows = numbers;
  index.factors = factors;
  ThreadPool pool(2);
  const auto code = [&] {
    const auto found = find_near_rows({data.rows.view()}, index, ListChecks(index.lists()), {2000, 2000},
                                      data.texts.row(0), 5, pool);
    return found ? std::optional<ErrorCode>() : std::optional(found.error().code);
  };
  EXPECT_EQ(code(), std::nullopt);
  std::mt19937 random(3);
  for (int i = 0; i < 64; ++i) {
    const size_t at = random() % numbers.size();
    const unsigned bit = 1U << (random() % 16);
    numbers[at] ^= bit;
    EXPECT_EQ(code(), ErrorCode::kBadData);
    numbers[at] ^= bit;
    factors[at] = static_cast<uint16_t>(factors[at] ^ bit);
    EXPECT_EQ(code(), ErrorCode::kBadData);
    factors[at] = static_cast<uint16_t>(factors[at] ^ bit);
    signs[at] ^= bit;
    EXPECT_EQ(code(), ErrorCode::kBadData);
    signs[at] ^= bit;
  }
  // Right checks over a row that is not there.
  numbers[5] = 2000;
  std::vector<uint64_t> checks;
  for (int64_t l = 0; l < index.lists(); ++l) checks.push_back(list_check(index, l));
  index.checks = checks;
  EXPECT_EQ(code(), ErrorCode::kBadData);
  // A mean that is no number: its list is the first to be looked at, however far it was.
  index = lists.view();
  const int64_t last = order_lists(index, data.texts.row(0), pool).back();
  Matrix<float> means = lists.means.copy();
  means(last, 3) = kNan;
  index.means = std::as_const(means).view();
  EXPECT_EQ(order_lists(index, data.texts.row(0), pool).front(), last);
  EXPECT_FALSE(find_near_rows({data.rows.view()}, index, ListChecks(index.lists()), {1, 1}, data.texts.row(0),
                              1, pool));
  // Lists that do not fit.
  index = lists.view();
  index.covered = 2001;
  EXPECT_EQ(code(), ErrorCode::kMismatch);
}

TEST(ListIndex, OddCollections) {
  ThreadPool pool(2);
  Matrix<float> same(500, 32);
  for (int64_t r = 0; r < 500; ++r) same(r, 3) = 1;
  const BuiltLists lists = built(same.view());
  const auto found = find_near_rows({same.view()}, lists.view(), ListChecks(std::ssize(lists.ends)),
                                    {500, 500}, same.row(0), 3, pool);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  expect_same(found->best.front(), exact({same.view()}, same.row(0), 3));
  const std::vector<int64_t> wanted = {3, 7};
  const auto no_best = find_near_rows({same.view()}, lists.view(), ListChecks(std::ssize(lists.ends)),
                                      {500, 500}, same.row(0), 0, pool, wanted);
  ASSERT_TRUE(no_best.has_value()) << no_best.error().message;
  EXPECT_EQ(no_best->wanted.front().size(), 2U);
  // Values whose products are infinite, and whose sums are no numbers.
  Matrix<float> large(500, 32);
  std::mt19937 random(1);
  for (float& value : large.values()) value = random() % 2 == 0 ? 1e20F : -1e20F;
  EXPECT_EQ(built(large.view()).rows.size(), 500U);
  Matrix<float> one(1, 8);
  one(0, 0) = 1;
  EXPECT_EQ(built(one.view()).rows, (std::vector<uint32_t>{0}));
  Matrix<float> none(3, 8);
  for (float& value : none.values()) value = kNan;
  const auto empty = build_lists(none.view(), {}, {}, pool);
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace saccade
