// Benchmark of an answer's match probabilities: judge_hits over rows of ordinary widths. Hits are those of a
// plain search (`hits` 160: near-duplicates leave room for copies) and of one with a cut-off (1,000).
#include <cstdint>
#include <random>

#include <benchmark/benchmark.h>

#include "saccade/core/rows.h"
#include "saccade/core/threads.h"
#include "saccade/index/exact_search.h"
#include "saccade/index/likelihood.h"

namespace saccade {
namespace {

Matrix<float> random_rows(int64_t count, int64_t dim, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> rows(count, dim);
  for (int64_t r = 0; r < count; ++r) {
    for (float& value : rows.row(r)) value = normal(random);
    normalize_row(rows.row(r));
  }
  return rows;
}

void judge(benchmark::State& state) {
  const int64_t dim = state.range(0);
  const int64_t hits = state.range(1);
  constexpr int64_t kRows = 20'000;
  constexpr int64_t kQueries = 256;
  ThreadPool pool(1);
  const Matrix<float> rows = random_rows(kRows, dim, 1);
  LabelledQueries queries;
  queries.rows = random_rows(kQueries, dim, 2);
  for (int64_t q = 0; q < kQueries; ++q) {
    // Queries are near their relevant row, so that there is something to calibrate.
    const int64_t right = q * (kRows / kQueries);
    for (int64_t i = 0; i < dim; ++i) queries.rows.row(q)[static_cast<size_t>(i)] += 0.5F * rows(right, i);
    normalize_row(queries.rows.row(q));
    queries.right.push_back({right});
    queries.itself.push_back(-1);
    queries.words.push_back(1);
  }
  const Surroundings surroundings = surroundings_of(rows.view(), {}, queries.rows.view(), 20);
  const auto model = fit_matches(rows.view(), {}, surroundings, queries, pool);
  const auto found = exact_search(rows.view(), queries.rows.view(), hits, pool);
  if (!model || !found) {
    state.SkipWithError("no model");
    return;
  }
  int64_t query = 0;
  for (auto _ : state) {
    const auto at = static_cast<size_t>(query);
    benchmark::DoNotOptimize(judge_hits(*model, surroundings, rows.view(), queries.rows.row(query),
                                        (*found)[at], kRows, queries.words[at]));
    query = (query + 1) % kQueries;
  }
}

BENCHMARK(judge)
    ->Name("likelihood/judge")
    ->ArgNames({"columns", "hits"})
    ->ArgsProduct({{192, 512, 1024}, {160, 1000}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace saccade

BENCHMARK_MAIN();
