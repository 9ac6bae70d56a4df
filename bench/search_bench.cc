// One query over a million rows of 512 floats, beside the
// speed at which the same threads read the same bytes.
//
// The two are measured in turn within one run, so that "of_memory_speed" compares the machine with itself:
// 1.0 means that scoring costs nothing beyond reading the rows.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/index/dot_kernels.h"
#include "saccade/index/exact_search.h"

namespace saccade {
namespace {

constexpr int64_t kRows = 1'000'000;
constexpr int64_t kDim = 512;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Rows of ordinary size: never denormal, never constant. One generator a block, so that filling is quick.
const Matrix<float>& million_rows(ThreadPool& pool) {
  static const Matrix<float> rows = [&pool] {
    Matrix<float> result(kRows, kDim);
    pool.parallel_for(kRows, 10'000, [&](int64_t begin, int64_t end) {
      std::minstd_rand random(static_cast<uint32_t>(begin + 1));
      std::uniform_real_distribution<float> uniform(-0.08F, 0.08F);
      for (int64_t r = begin; r < end; ++r) {
        for (float& value : result.row(r)) value = uniform(random);
      }
    });
    return result;
  }();
  return rows;
}

// The plainest way to read memory: whole numbers summed, eight at a time.
uint64_t sum_of_bytes(const Matrix<float>& rows, ThreadPool& pool) {
  constexpr int64_t kGrain = 20'000;
  std::vector<uint64_t> sums(static_cast<size_t>(kRows / kGrain + 1));
  pool.parallel_for(rows.rows(), kGrain, [&](int64_t begin, int64_t end) {
    const auto* words = reinterpret_cast<const uint32_t*>(rows.data());
    uint32_t sum = 0;
    for (int64_t i = begin * kDim; i < end * kDim; ++i) sum += words[i];
    sums[static_cast<size_t>(begin / kGrain)] = sum;
  });
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

void one_query_over_a_million_rows(benchmark::State& state) {
  // The thread that calls works along, so that a pool of n - 1 makes n.
  const int threads = available_processors();
  ThreadPool pool(threads > 1 ? threads - 1 : 1);
  const Matrix<float>& rows = million_rows(pool);
  Matrix<float> query(1, kDim);
  for (int64_t c = 0; c < kDim; ++c) query(0, c) = rows(kRows / 2, c);

  double reading = std::numeric_limits<double>::infinity();
  double searching = std::numeric_limits<double>::infinity();
  for (auto unused : state) {
    state.PauseTiming();
    auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(sum_of_bytes(rows, pool));
    reading = std::min(reading, seconds_since(start));
    state.ResumeTiming();

    start = std::chrono::steady_clock::now();
    const auto answer = exact_search(rows.view(), query.view(), state.range(0), pool);
    searching = std::min(searching, seconds_since(start));
    if (!answer || answer->front().front().row != kRows / 2) {
      state.SkipWithError("the query's own row is not the best");
      break;
    }
  }
  const double bytes = double{kRows} * kDim * sizeof(float);
  state.SetLabel(std::string(dot_kernels().front().name) + ", " + std::to_string(threads) + " threads");
  state.counters["read_GB/s"] = bytes / reading / 1e9;
  state.counters["search_GB/s"] = bytes / searching / 1e9;
  state.counters["of_memory_speed"] = reading / searching;
}
BENCHMARK(one_query_over_a_million_rows)->Arg(10)->Arg(1000)->UseRealTime()->Unit(benchmark::kMillisecond);

void queries_over_rows_in_cache(benchmark::State& state) {
  ThreadPool pool(1);
  ThreadPool filling;
  const auto rows = million_rows(filling).view().slice(0, 5'000);
  const auto queries = million_rows(filling).view().slice(500'000, state.range(0));
  for (auto unused : state) {
    benchmark::DoNotOptimize(exact_search(rows, queries, 10, pool));
  }
  state.counters["queries/s"] =
      benchmark::Counter(static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * 5'000 * kDim * static_cast<double>(state.range(0)),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(queries_over_rows_in_cache)
    ->Arg(1)
    ->Arg(64)
    ->Arg(1000)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace saccade

BENCHMARK_MAIN();
