// Benchmark of the evaluation of retrieval at the size of COCO's test split, from embeddings in memory to
// figures with intervals.
//
//   coco/one_model    5,000 images, 25,010 texts, 512 wide, random: ranks in both directions, all figures,
//                     and 1,000 resamples with percentile and BCa intervals
//   coco/two_models   the same twice, and the paired differences
//   coco/ranks_only   the ranks alone
//
// A peak memory above 1.5 GB is an error. Texts are the embeddings of their images with noise, so that ranks
// are spread as a model's are.
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/threads.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

using namespace saccade::lab;  // everything here measures saccade-lab

constexpr int64_t kImages = 5'000;
constexpr int64_t kTexts = 25'010;
constexpr int64_t kDim = 512;
constexpr double kMemoryLimit = 1.5e9;
constexpr std::array<int64_t, 3> kDepths = {1, 5, 10};

struct Rows {
  Matrix<float> images{kImages, kDim};
  Matrix<float> texts{kTexts, kDim};
  std::vector<int64_t> text_image;
};

Rows make_rows(uint32_t seed) {
  Rows rows;
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> uniform(-0.076F, 0.076F);  // rows of about length 1
  for (float& value : rows.images.values()) value = uniform(random);
  for (int64_t t = 0; t < kTexts; ++t) {
    const int64_t image = t % kImages;
    rows.text_image.push_back(image);
    for (int64_t c = 0; c < kDim; ++c) rows.texts(t, c) = 0.15F * rows.images(image, c) + uniform(random);
  }
  return rows;
}

struct Seconds {
  double ranking = 0;
  double resampling = 0;
};

class Clock {
 public:
  // Returns the seconds since the last call, or the start.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> seconds = now - start_;
    start_ = now;
    return seconds.count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Computes the estimates of both directions; adds to `seconds`.
Result<std::vector<Estimates>> evaluate(const Rows& rows, int64_t resamples, ThreadPool& pool,
                                        Seconds& seconds) {
  std::vector<int64_t> every_image(static_cast<size_t>(kImages));
  for (int64_t i = 0; i < kImages; ++i) every_image[static_cast<size_t>(i)] = i;
  SACCADE_ASSIGN(const Relevance relevance, Relevance::from_text_image(rows.text_image, kImages));
  SACCADE_ASSIGN(const auto scores, dot_scores(rows.texts.view(), rows.images.view()));
  std::vector<Estimates> estimates;
  for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
    Clock clock;
    SACCADE_ASSIGN(const QueryRanks ranks, rank_right_answers(*scores, relevance, direction, {}, pool));
    seconds.ranking += clock.lap();
    const auto& owner = direction == Direction::kTextToImage ? rows.text_image : every_image;
    const ClusteredSample sample = retrieval_sample(ranks, kDepths, owner, kImages);
    estimates.push_back(estimate(sample, {.resamples = resamples}, pool));
    benchmark::DoNotOptimize(figures_of(estimates.back(), 0.95));
    seconds.resampling += clock.lap();
  }
  return estimates;
}

void coco(benchmark::State& state, int64_t models, int64_t resamples) {
  // The calling thread also works, so that a pool of n - 1 gives n.
  const int threads = available_processors();
  ThreadPool pool(threads > 1 ? threads - 1 : 1);
  const Rows first = make_rows(1);
  const Rows second = make_rows(2);
  reset_peak_memory();
  Seconds seconds;
  for (auto unused : state) {
    const auto one = evaluate(first, resamples, pool, seconds);
    if (!one) return state.SkipWithError(one.error().message.c_str());
    if (models == 1) continue;
    const auto other = evaluate(second, resamples, pool, seconds);
    if (!other) return state.SkipWithError(other.error().message.c_str());
    for (size_t d = 0; d < one->size(); ++d) {
      benchmark::DoNotOptimize(paired_differences((*one)[d], (*other)[d], 0.95));
    }
  }
  const double memory = static_cast<double>(peak_memory());
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["ranking_s"] = seconds.ranking / rounds;
  state.counters["resampling_s"] = seconds.resampling / rounds;
  state.counters["GFLOP/s"] =
      4e-9 * kImages * kTexts * kDim * static_cast<double>(models) * rounds / seconds.ranking;
  state.counters["peak_RSS_MB"] = memory / 1e6;
  state.SetLabel(std::to_string(threads) + " threads");
  if (memory > kMemoryLimit) state.SkipWithError("more than 1.5 GB of memory");
}

BENCHMARK_CAPTURE(coco, ranks_only, 1, 0)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(coco, one_model, 1, 1000)->UseRealTime()->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(coco, two_models, 2, 1000)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace
}  // namespace saccade::bench

BENCHMARK_MAIN();
