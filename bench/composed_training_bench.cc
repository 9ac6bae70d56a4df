// Benchmark of training adaptive token fusion over a frozen encoder, from token states in a mapped file: a
// 192-wide shared space, batches of 256 triplets, four heads. Texts are the starter's. States are random, so
// that nothing is learned and everything is computed.
//
//   composed/step/TOKENS/TRIPLETS   whole steps as in the loop, with the next batch prepared in parallel
//   composed/pool/TOKENS            merging, places, norm and pooling, forward and backward, in one pass
//   composed/plain/TOKENS           the same operation by operation: the baseline
//
// TOKENS: of an image (17: the starter's, 50: of a ViT-B/32). Counters: triplets per second, and the
// process's peak memory. The target of steps is 2,000 triplets per second on two cores.
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "lab/train/math/adamw.h"
#include "lab/train/math/atf_operations.h"
#include "lab/train/tasks/composed_training_task.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/composers/token_states.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

using namespace saccade::lab;  // everything here measures saccade-lab

namespace fs = std::filesystem;

constexpr int64_t kDim = 192;
constexpr int64_t kPictures = 4096;
constexpr int64_t kBatch = 256;
constexpr int64_t kInGroup = 12;

uint64_t drawn(uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33;
}

// Makes items of random half-precision numbers around 1.
Result<ItemFile> random_items(const fs::path& path, const std::vector<int64_t>& begin) {
  SACCADE_ASSIGN(ItemFileWriter writer, ItemFileWriter::create(path));
  uint64_t state = 5;
  for (size_t i = 0; i + 1 < begin.size(); ++i) {
    std::vector<uint16_t> item(static_cast<size_t>(begin[i + 1] - begin[i]) / 2);
    for (uint16_t& value : item)
      value = static_cast<uint16_t>(drawn(state) % 0x4000U | (drawn(state) % 2U) << 15U);
    SACCADE_TRY(writer.add(std::as_bytes(std::span(item))));
  }
  SACCADE_TRY(writer.finish());
  return ItemFile::open(path, begin);
}

struct Training {
  std::unique_ptr<ScratchFolder> scratch;
  ComposedTrainingOptions options;
  LoadedEncoder loaded;
  ComposedData data;
  std::vector<TokenizedText> texts;
  StoredTokens pictures;
  StoredTokens words;
  ThreadPool pool{0};
  std::unique_ptr<ComposedTrainingTask> task;
};

Result<std::unique_ptr<Training>> make_training(int64_t picture_tokens, int64_t triplets) {
  auto made = std::make_unique<Training>();
  SACCADE_ASSIGN(ScratchFolder scratch, ScratchFolder::make());
  made->scratch = std::make_unique<ScratchFolder>(std::move(scratch));
  made->options.batch = kBatch;
  SACCADE_ASSIGN(made->loaded, load_checkpoint((fs::path(test::kSourceDir) / "models/starter").string()));
  const EncoderBackend& encoder = *made->loaded.encoder;
  ComposedData& data = made->data;
  data.pictures.resize(kPictures);
  std::vector<int64_t> begin = {0};
  for (const char* what :
       {"in red", "crossed out", "with a medium skin tone", "turned to the left and smaller"}) {
    for (const char* how : {"", ", please", " instead", " and nothing else"}) {
      data.texts.push_back(std::string(what) + how);
      made->texts.push_back(encoder.tokenizer()->encode(data.texts.back(), encoder.info().context));
      made->words.tokens.push_back(std::ssize(made->texts.back().ids));
      begin.push_back(begin.back() + made->words.tokens.back() * kDim * 2);
    }
  }
  uint64_t state = 9;
  for (int64_t i = 0; i <= triplets; ++i) {
    data.triplets.push_back({.reference = static_cast<int32_t>(drawn(state) % kPictures),
                             .group = static_cast<int32_t>(i / kInGroup),
                             .targets_begin = static_cast<int32_t>(i),
                             .texts_begin = static_cast<int32_t>(2 * i)});
    data.targets.push_back(static_cast<int32_t>(drawn(state) % kPictures));
    for (int k = 0; k < 2; ++k)
      data.wordings.push_back(static_cast<int32_t>(drawn(state) % data.texts.size()));
  }
  const fs::path& folder = made->scratch->path();
  made->words.dim = made->pictures.dim = kDim;
  SACCADE_ASSIGN(made->words.file, random_items(folder / "texts", begin));
  begin.assign(1, 0);
  for (int64_t i = 0; i < kPictures; ++i) begin.push_back(begin.back() + picture_tokens * kDim * 2);
  SACCADE_ASSIGN(made->pictures.file, random_items(folder / "pictures", begin));
  made->pictures.tokens.assign(kPictures, picture_tokens);
  made->options.atf = attention_atf_options();
  made->options.atf.picture_tokens = picture_tokens;
  made->options.atf.text_places = encoder.info().context;
  ComposedStage stage;
  stage.composer.kind = "atf";
  stage.composer.dim = kDim;
  stage.composer.options = atf_options_json(made->options.atf);
  stage.loaded = &made->loaded;
  stage.data = &made->data;
  stage.picture_tokens = &made->pictures;
  stage.text_tokens = &made->words;
  stage.texts = made->texts;
  SACCADE_ASSIGN(made->task, ComposedTrainingTask::make(made->options, stage, made->pool));
  return made;
}

void count(benchmark::State& state) {
  state.counters["triplets/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kBatch), benchmark::Counter::kIsRate);
  state.counters["peak_MB"] = static_cast<double>(peak_memory()) / 1e6;
}

void step(benchmark::State& state) {
  reset_peak_memory();
  const auto training = make_training(state.range(0), state.range(1));
  if (!training) {
    state.SkipWithError(training.error().message.c_str());
    return;
  }
  ComposedTrainingTask& task = *(*training)->task;
  AdamW optimizer(task.parameters(), {});
  const auto prepare = [&](int64_t number) {
    return std::async(std::launch::async, [&task, number] { return task.prepare(number).value(); });
  };
  std::future<StepLosses> next = prepare(0);
  int64_t number = 0;
  for (auto _ : state) {
    const StepLosses losses = next.get();
    next = prepare(++number);
    for (const StepLoss& loss : losses) loss().backward();
    optimizer.clip_gradients(1);
    optimizer.step(1e-4);
    const torch::NoGradGuard no_grad;
    task.after_update();
  }
  next.wait();
  count(state);
}

void pool(benchmark::State& state, Variable (*pooled)(const MergedPoolOf<Variable>&)) {
  torch::manual_seed(1);
  const int64_t tokens = state.range(0);
  const auto leaf = [](const std::vector<int64_t>& shape) {
    return torch::randn(shape).requires_grad_(true);
  };
  const torch::Tensor pictures = torch::randn({kBatch, tokens, kDim});
  const torch::Tensor texts = torch::randn({kBatch, 12, kDim});
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < kBatch; ++i) lengths.push_back(4 + i % 9);
  const TokenMerge merge = plan_token_merge(borrow_torch(pictures), borrow_torch(texts), lengths, {.tau = 2});
  const MergedPoolOf<Variable> parts{.picture_tokens = Variable(pictures),
                                     .text_tokens = Variable(texts),
                                     .merge = &merge,
                                     .share = {},
                                     .picture_places = Variable(leaf({tokens + 1, kDim})),
                                     .text_places = Variable(leaf({33, kDim})),
                                     .gain = Variable(leaf({kDim})),
                                     .bias = Variable(leaf({kDim})),
                                     .query = Variable(leaf({kBatch, 4 * kDim})),
                                     .heads = 4};
  const torch::Tensor mixed = torch::randn({kBatch, 4 * kDim});
  for (auto _ : state) (pooled(parts).tensor() * mixed).sum().backward();
  count(state);
}

BENCHMARK(step)
    ->Name("composed/step")
    ->Args({17, 100'000})
    ->Args({50, 100'000})
    ->Args({50, 1'000'000})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pool, one_pass, pool_merged)
    ->Name("composed/pool")
    ->Arg(17)
    ->Arg(50)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pool, plain, pool_merged_plainly)
    ->Name("composed/plain")
    ->Arg(17)
    ->Arg(50)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace saccade::bench

BENCHMARK_MAIN();
