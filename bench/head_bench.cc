// Benchmark of training heads on existing features: 768-wide images and texts, batches of 128, evaluation on
// 1,000 held-out pairs with 1,000 resamples after every epoch.
//
//   head/mlp/PAIRS/EPOCHS     an MLP per side, 768 wide
//   head/linear/PAIRS/EPOCHS  a linear layer per side
//
// Counters: training pairs per second, and the process's peak memory. Texts are their images' features with
// noise. A million pairs take 6.1 GB in the folder of temporary files.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "lab/train/recipes/train_head.h"
#include "saccade/core/files/files.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

using namespace saccade::lab;  // everything here measures saccade-lab

namespace fs = std::filesystem;

constexpr int64_t kWidth = 768;

float uniform(uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<float>(state >> 40) * 0x1p-23F - 1;
}

// Writes row by row, since a million rows are too many to hold in memory.
Status write_features(const fs::path& path, int64_t pairs, uint64_t seed) {
  const int64_t rows = pairs * kWidth * 4;
  std::string header =
      fmt::format(R"({{"image_features":{{"dtype":"F32","shape":[{0},{1}],"data_offsets":[0,{2}]}},)"
                  R"("text_features":{{"dtype":"F32","shape":[{0},{1}],"data_offsets":[{2},{3}]}},)"
                  R"("text_image":{{"dtype":"I64","shape":[{0}],"data_offsets":[{3},{4}]}}}})",
                  pairs, kWidth, rows, 2 * rows, 2 * rows + 8 * pairs);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  const uint64_t length = header.size();
  SACCADE_TRY(file.write(std::as_bytes(std::span(&length, 1))));
  SACCADE_TRY(file.write(header));
  std::vector<float> row(kWidth);
  for (const bool text : {false, true}) {
    for (int64_t i = 0; i < pairs; ++i) {
      uint64_t picture = seed * 1'000'003 + static_cast<uint64_t>(i) * 7919;
      uint64_t noise = picture ^ 0x9e3779b97f4a7c15U;
      for (float& value : row) {
        value = uniform(picture);
        if (text) value = 0.3F * value + uniform(noise);
      }
      SACCADE_TRY(file.write(std::as_bytes(std::span(row))));
    }
  }
  std::vector<int64_t> relation(static_cast<size_t>(pairs));
  for (int64_t i = 0; i < pairs; ++i) relation[static_cast<size_t>(i)] = i;
  SACCADE_TRY(file.write(std::as_bytes(std::span(relation))));
  return file.commit();
}

void train(benchmark::State& state, HeadKind kind) {
  const auto scratch = ScratchFolder::make();
  if (!scratch) {
    state.SkipWithError(scratch.error().message.c_str());
    return;
  }
  const fs::path& folder = scratch->path();
  const int64_t pairs = state.range(0);
  HeadTrainingOptions options;
  options.features = folder / "train.safetensors";
  options.held_out = {(folder / "held-out.safetensors").string()};
  options.run = folder / "run";
  options.kind = kind;
  options.pairs = 0;
  options.epochs = static_cast<double>(state.range(1));
  options.patience = 0;
  options.checkpoint_every = 1'000'000;
  for (const auto& [path, count, seed] :
       {std::tuple{options.features, pairs, 1}, {fs::path(options.held_out.front()), int64_t{1000}, 2}}) {
    const Status written = write_features(path, count, static_cast<uint64_t>(seed));
    if (!written) {
      state.SkipWithError(written.error().message.c_str());
      return;
    }
  }
  reset_peak_memory();
  double seconds = 0;
  for (auto _ : state) {
    const auto report = train_head(options, {}, {});
    if (!report) {
      state.SkipWithError(report.error().message.c_str());
      return;
    }
    seconds += report->seconds;
    state.PauseTiming();
    fs::remove_all(options.run);
    state.ResumeTiming();
  }
  state.counters["training_s"] = seconds / static_cast<double>(state.iterations());
  state.counters["pairs/s"] = static_cast<double>(state.iterations() * pairs) * options.epochs / seconds;
  state.counters["peak_MB"] = static_cast<double>(peak_memory()) / 1e6;
}

BENCHMARK_CAPTURE(train, linear, HeadKind::kLinear)
    ->Name("head/linear")
    ->Args({5'000, 5})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(train, mlp, HeadKind::kMlp)
    ->Name("head/mlp")
    ->Args({5'000, 8})
    ->Args({20'000, 8})
    ->Args({1'000'000, 1})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace saccade::bench

BENCHMARK_MAIN();
