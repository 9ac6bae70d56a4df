// Benchmark of queries over a million rows of 512 floats, and over the same rows in eight bits. They are
// compared with the time in which the same threads read the same bytes, and with all products as one bare
// oneDNN product.
//
// All are measured alternately within one run, the minimum of each counting. So "of_memory_speed" and
// "of_product" compare the machine with itself: 1.0 means that searching costs nothing beyond reading the
// rows, or beyond the products. On a busy machine wall time says little: "..._cpu_ms" is the minimum
// processor time instead, divided by the threads.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/core/seconds_since.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/exact_search.h"
#include "saccade/index/int8_row_kernels.h"
#include "saccade/index/int8_rows.h"

#include <dnnl.hpp>

namespace saccade {
namespace {

constexpr int64_t kRows = 1'000'000;
constexpr int64_t kDim = 512;

// Returns rows of ordinary values: never denormal, never constant. One generator per block makes filling
// quick.
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

// Reads memory in the plainest way: sums integers, eight at a time. row_bytes: a multiple of 4.
uint64_t sum_of_bytes(const void* data, int64_t row_bytes, ThreadPool& pool) {
  constexpr int64_t kGrain = 20'000;
  std::vector<uint64_t> sums(static_cast<size_t>(kRows / kGrain + 1));
  pool.parallel_for(kRows, kGrain, [&](int64_t begin, int64_t end) {
    const auto* words = static_cast<const uint32_t*>(data);
    uint32_t sum = 0;
    for (int64_t i = begin * row_bytes / 4; i < end * row_bytes / 4; ++i) sum += words[i];
    sums[static_cast<size_t>(begin / kGrain)] = sum;
  });
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

// The same rows in eight bits too.
struct CodedRows {
  std::vector<std::byte> bytes;
  [[nodiscard]] Int8Rows view() const { return {bytes.data(), kRows, kDim}; }
};
const CodedRows& million_coded_rows(ThreadPool& pool) {
  static const CodedRows coded = [&pool] {
    const Matrix<float>& rows = million_rows(pool);
    const Int8Encoder encoder(kDim);
    const int64_t width = int8_row_bytes(kDim);
    CodedRows result{std::vector<std::byte>(static_cast<size_t>(kRows * width))};
    pool.parallel_for(kRows, 10'000, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        encoder.encode(
            rows.row(r), r,
            std::span(result.bytes).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width)));
      }
    });
    return result;
  }();
  return coded;
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The minimum of the times so far, in seconds.
class Best {
 public:
  template <typename Work>
  auto time(const Work& work) {
    const double processors = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    auto result = work();
    seconds_ = std::min(seconds_, seconds_since(start));
    processors_ = std::min(processors_, processor_seconds() - processors);
    return result;
  }
  [[nodiscard]] double seconds() const { return seconds_; }
  // Processor time per thread.
  [[nodiscard]] double processors() const { return processors_ / available_processors(); }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
  double processors_ = std::numeric_limits<double>::infinity();
};

// Returns true if both found the same, and the query's own row first.
bool agree(const Result<FoundRows>& found, const Result<FoundRows>& expected, int64_t first_row) {
  if (!found || !expected || found->best.size() != expected->best.size()) return false;
  for (size_t q = 0; q < found->best.size(); ++q) {
    if (found->best[q].front().row != first_row + static_cast<int64_t>(q)) return false;
    if (!std::ranges::equal(found->best[q], expected->best[q], [](const RowScore& a, const RowScore& b) {
          return a.row == b.row && a.score == b.score;
        })) {
      return false;
    }
  }
  return true;
}

void one_query_over_a_million_rows(benchmark::State& state) {
  ThreadPool pool;
  const Matrix<float>& rows = million_rows(pool);
  const CodedRows& coded = million_coded_rows(pool);
  const auto query = rows.view().slice(kRows / 2, 1);
  Best reading;
  Best searching;
  Best reading_codes;
  Best searching_codes;
  double rescored = 0;
  for (auto unused : state) {
    benchmark::DoNotOptimize(reading.time([&] { return sum_of_bytes(rows.data(), kDim * 4, pool); }));
    const auto expected =
        searching.time([&] { return find_rows({rows.view()}, query, state.range(0), pool); });
    benchmark::DoNotOptimize(
        reading_codes.time([&] { return sum_of_bytes(coded.bytes.data(), int8_row_bytes(kDim), pool); }));
    const auto found = searching_codes.time([&] {
      return find_rows({rows.view(), {}, coded.view()}, query, state.range(0), pool);
    });
    if (!agree(found, expected, kRows / 2)) {
      state.SkipWithError("the answers differ, or the query's own row is not the best");
      break;
    }
    rescored = static_cast<double>(found->rescored.front());
  }
  state.SetLabel(std::string(dot_kernels().front().name) + ", " + std::string(int8_kernels().front().name) +
                 ", " + std::to_string(available_processors()) + " threads");
  state.counters["fp32_ms"] = 1e3 * searching.seconds();
  state.counters["fp32_cpu_ms"] = 1e3 * searching.processors();
  state.counters["int8_cpu_ms"] = 1e3 * searching_codes.processors();
  state.counters["read_fp32_ms"] = 1e3 * reading.seconds();
  state.counters["fp32_of_memory_speed"] = reading.seconds() / searching.seconds();
  state.counters["int8_ms"] = 1e3 * searching_codes.seconds();
  state.counters["read_int8_ms"] = 1e3 * reading_codes.seconds();
  state.counters["int8_of_memory_speed"] = reading_codes.seconds() / searching_codes.seconds();
  state.counters["rescored"] = rescored;
}
BENCHMARK(one_query_over_a_million_rows)
    ->Arg(10)
    ->Arg(1000)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20);

// All products of the rows with `queries` queries as one bare oneDNN product.
class Product {
 public:
  Product(const Matrix<float>& rows, MatrixView<const float> queries) {
    using dnnl::memory;
    const memory::desc source({kRows, kDim}, memory::data_type::f32, memory::format_tag::ab);
    const memory::desc weights({kDim, queries.rows()}, memory::data_type::f32, memory::format_tag::ba);
    const memory::desc packed({kDim, queries.rows()}, memory::data_type::f32, memory::format_tag::any);
    const memory::desc destination({kRows, queries.rows()}, memory::data_type::f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine_, source, packed, destination);
#else
    const dnnl::matmul::primitive_desc description({source, packed, destination}, engine_);
#endif
    product_ = dnnl::matmul(description);
    memory given(weights, engine_, const_cast<float*>(queries.data()));
    memory taken(description.weights_desc(), engine_);
    dnnl::reorder(given, taken).execute(stream_, given, taken);
    stream_.wait();
    arguments_ = {{DNNL_ARG_SRC, memory(source, engine_, const_cast<float*>(rows.data()))},
                  {DNNL_ARG_WEIGHTS, taken},
                  {DNNL_ARG_DST, memory(destination, engine_)}};
  }
  int run() {
    product_.execute(stream_, arguments_);
    stream_.wait();
    return 0;
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

// range: the number of queries, and of the best rows.
void queries_over_a_million_rows(benchmark::State& state) {
  const int64_t k = state.range(1);
  ThreadPool pool;
  const Matrix<float>& rows = million_rows(pool);
  const CodedRows& coded = million_coded_rows(pool);
  const auto queries = rows.view().slice(kRows / 2, state.range(0));
  Product product(rows, queries);
  product.run();  // touches its memory
  Best multiplying;
  Best searching;
  Best searching_codes;
  for (auto unused : state) {
    multiplying.time([&] { return product.run(); });
    const auto expected = searching.time([&] { return find_rows({rows.view()}, queries, k, pool); });
    const auto found = searching_codes.time([&] {
      return find_rows({rows.view(), {}, coded.view()}, queries, k, pool);
    });
    if (!agree(found, expected, kRows / 2)) {
      state.SkipWithError("the answers differ, or a query's own row is not the best");
      break;
    }
  }
  const double operations = 2e-9 * kRows * kDim * static_cast<double>(state.range(0));
  state.counters["product_ms"] = 1e3 * multiplying.seconds();
  state.counters["product_GFLOP/s"] = operations / multiplying.seconds();
  state.counters["fp32_ms"] = 1e3 * searching.seconds();
  state.counters["int8_cpu_ms"] = 1e3 * searching_codes.processors();
  state.counters["product_cpu_ms"] = 1e3 * multiplying.processors();
  state.counters["fp32_cpu_ms"] = 1e3 * searching.processors();
  state.counters["fp32_GFLOP/s"] = operations / searching.seconds();
  state.counters["fp32_of_product"] = multiplying.seconds() / searching.seconds();
  state.counters["int8_ms"] = 1e3 * searching_codes.seconds();
}
BENCHMARK(queries_over_a_million_rows)
    ->Args({3, 10})
    ->Args({4, 10})
    ->Args({6, 10})
    ->Args({8, 10})
    ->Args({12, 10})
    ->Args({16, 10})
    ->Args({32, 10})
    ->Args({64, 10})
    ->Args({32, 1000})
    ->Args({64, 1000})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

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
