// Benchmark of MaxSim of one query over many pages, compared with a bare oneDNN matrix product of the same
// size.
//
// There are 1,000 pages of 1,030 rows of 128 values (ColPali's output for a page) and a query of 16 or 32
// rows. The product [1,030,000 x 128] x [128 x 16] computes every dot product, without the maxima and sums.
// It is measured alternately with the code, in fp32 and in the stored type's own precision, so that
// "of_product" (the product's time over MaxSim's) compares the machine with itself. The processors used are
// those of the process's affinity mask.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/core/threads.h"
#include "saccade/index/max_sim.h"

#include <dnnl.hpp>

namespace saccade::bench {
namespace {

using dnnl::memory;

constexpr int64_t kPages = 1'000;
constexpr int64_t kPageRows = 1'030;
constexpr int64_t kDim = 128;

// Returns the time. On one processor, it is this process's processor time, which excludes other work on a
// busy machine. On several, it is wall time, as threads that wait for each other count processor time too.
double now() {
  timespec time{};
  ::clock_gettime(available_processors() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Fills rows with values like those of normalized rows, with one generator per block.
Matrix<float> random_rows(int64_t rows, int64_t seed) {
  std::minstd_rand random(static_cast<uint32_t>(seed + 1));
  std::uniform_real_distribution<float> uniform(-0.15F, 0.15F);
  Matrix<float> result(rows, kDim);
  for (float& value : result.values()) value = uniform(random);
  return result;
}

std::vector<std::byte> stored_pages(RowPrecision precision, ThreadPool& pool) {
  const int64_t page_bytes = kPageRows * stored_row_bytes({precision, kDim});
  std::vector<std::byte> bytes(static_cast<size_t>(kPages * page_bytes));
  pool.parallel_for(kPages, 1, [&](int64_t begin, int64_t end) {
    for (int64_t page = begin; page < end; ++page) {
      store_rows(
          random_rows(kPageRows, page).view(), precision,
          std::span(bytes).subspan(static_cast<size_t>(page * page_bytes), static_cast<size_t>(page_bytes)));
    }
  });
  return bytes;
}

// All dot products as one matrix product.
class Product {
 public:
  Product(memory::data_type type, memory::data_type result, int64_t query_rows) : type_(type) {
    const memory::desc source({kPages * kPageRows, kDim}, type, memory::format_tag::ab);
    const memory::desc weights({kDim, query_rows}, type, memory::format_tag::any);
    const memory::desc destination({kPages * kPageRows, query_rows}, result, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine_, source, weights, destination);
#else
    const dnnl::matmul::primitive_desc description({source, weights, destination}, engine_);
#endif
    product_ = dnnl::matmul(description);
    arguments_ = {{DNNL_ARG_SRC, filled(source)},
                  {DNNL_ARG_WEIGHTS, filled(description.weights_desc())},
                  {DNNL_ARG_DST, memory(destination, engine_)}};
  }
  double run() {
    const auto start = now();
    product_.execute(stream_, arguments_);
    stream_.wait();
    return now() - start;
  }

 private:
  memory filled(const memory::desc& description) {
    memory result(description, engine_);
    const auto size = description.get_size();
    std::minstd_rand random(7);
    std::uniform_real_distribution<float> uniform(-0.15F, 0.15F);
    if (type_ == memory::data_type::f32) {
      auto* values = static_cast<float*>(result.get_data_handle());
      for (size_t i = 0; i < size / sizeof(float); ++i) values[i] = uniform(random);
    } else {
      auto* values = static_cast<int8_t*>(result.get_data_handle());
      for (size_t i = 0; i < size; ++i) values[i] = static_cast<int8_t>(uniform(random) * 800);
    }
    return result;
  }

  memory::data_type type_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  std::unordered_map<int, memory> arguments_;
};

void max_sim_over_pages(benchmark::State& state, RowPrecision precision) {
  // The calling thread also works, so that a pool of n - 1 gives n.
  const int threads = available_processors();
  ThreadPool pool(threads > 1 ? threads - 1 : 1);
  const int64_t query_rows = state.range(0);
  const std::vector<std::byte> bytes = stored_pages(precision, pool);
  const RowLayout layout{precision, kDim};
  std::vector<StoredRows> pages;
  for (int64_t page = 0; page < kPages; ++page) {
    pages.push_back({layout, bytes.data() + page * kPageRows * stored_row_bytes(layout), kPageRows});
  }
  const auto query = pack_query(random_rows(query_rows, 1'000'000).view(), precision);
  Product fp32(memory::data_type::f32, memory::data_type::f32, query_rows);
  Product int8(memory::data_type::s8, memory::data_type::s32, query_rows);

  double scoring = 1e9;
  double fp32_product = 1e9;
  double int8_product = 1e9;
  for (auto unused : state) {
    state.PauseTiming();
    fp32_product = std::min(fp32_product, fp32.run());
    int8_product = std::min(int8_product, int8.run());
    state.ResumeTiming();
    const auto start = now();
    benchmark::DoNotOptimize(max_sim(pages, *query, pool));
    scoring = std::min(scoring, now() - start);
  }
  state.SetLabel(std::string(max_sim_kernels(precision).front().name) + ", " + std::to_string(threads) +
                 " threads");
  state.counters["ms"] = scoring * 1e3;
  state.counters["fp32_product_ms"] = fp32_product * 1e3;
  state.counters["int8_product_ms"] = int8_product * 1e3;
  state.counters["of_fp32_product"] = fp32_product / scoring;
  state.counters["of_int8_product"] = int8_product / scoring;
  state.counters["GB/s"] = static_cast<double>(bytes.size()) / scoring / 1e9;
}
BENCHMARK_CAPTURE(max_sim_over_pages, fp16, RowPrecision::kFp16)
    ->Arg(16)
    ->Arg(32)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(max_sim_over_pages, int8, RowPrecision::kInt8)
    ->Arg(16)
    ->Arg(32)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace saccade::bench

BENCHMARK_MAIN();
