// Benchmark of an editor's sampling: 64 x 64 pixels, random weights of the default shape, over the starter's
// texts.
//
//   editor/draw/PRECISION/STEPS/GUIDED   16 images at a time
//
// Counter: images per second, on the threads of SACCADE_BENCH_THREADS (default 1).
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "lab/editor/editor.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/random.h"
#include "saccade/core/source_dir.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

using namespace saccade::lab;  // everything here measures saccade-lab

namespace fs = std::filesystem;

// Normal values, kept for writing.
class RandomWeights : public nn::ParameterSource {
 public:
  Result<nn::Tensor> take(const std::string& name, const std::vector<int64_t>& shape,
                          nn::Init init) override {
    const nn::Tensor tensor = nn::Tensor::empty(shape);
    editor_noise(++seed_, tensor.floats());
    for (float& value : tensor.floats()) {
      value = static_cast<float>(init.mean) + value * static_cast<float>(init.std > 0 ? init.std : 0.02);
    }
    tensors_.emplace(name, tensor);
    return tensor;
  }
  [[nodiscard]] const nn::TensorMap& tensors() const { return tensors_; }

 private:
  uint64_t seed_ = 0;
  nn::TensorMap tensors_;
};

Status write_editor(const fs::path& folder) {
  const fs::path starter = fs::path(test::kSourceDir) / "models/starter";
  EditorConfig config;
  config.text_width = 192;
  config.frozen = {.name = "starter", .family = "clip", .fingerprint = "", .path = starter.string()};
  SACCADE_ASSIGN(config.frozen.fingerprint, checkpoint_fingerprint(starter));
  RandomWeights source;
  SACCADE_TRY(EditorOf<nn::Tensor>::make(config, source));
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : source.tensors()) named.push_back({name, nn::view_of(tensor)});
  SACCADE_TRY(write_safetensors(folder / "model.safetensors", named));
  SACCADE_TRY(write_file_atomic(folder / "config.json", dump_json(editor_config_json(config))));
  return write_file_atomic(folder / "frozen.json", dump_json({{"path", config.frozen.path}}));
}

void draw(benchmark::State& state, Precision precision) {
  const auto scratch = ScratchFolder::make();
  Status ready = scratch ? write_editor(scratch->path()) : Status(fail(scratch.error()));
  const char* threads = std::getenv("SACCADE_BENCH_THREADS");
  BackendOptions options;
  options.precision = precision;
  options.threads = threads == nullptr ? 1 : std::atoi(threads);
  auto editor =
      ready ? Editor::open(scratch->path(), options) : Result<std::unique_ptr<Editor>>(fail(ready.error()));
  if (!editor) {
    state.SkipWithError(editor.error().message.c_str());
    return;
  }
  constexpr size_t kPictures = 16;
  Image reference{.width = 64, .height = 64, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  SplitMix random(3);
  for (int i = 0; i < 64 * 64 * 3; ++i) reference.pixels.push_back(static_cast<uint8_t>(random.next() >> 56));
  const std::vector<Image> references(kPictures, reference);
  const std::vector<std::string> texts(kPictures, "turned to the left and in red");
  std::vector<uint64_t> seeds;
  for (size_t i = 0; i < kPictures; ++i) seeds.push_back(i);
  const EditSettings settings{.steps = state.range(0), .guidance = state.range(1) == 0 ? 1.0 : 2.0};
  int64_t cut = 0;
  for (auto _ : state) {
    const auto drawn = (*editor)->draw(references, texts, seeds, settings, {}, cut);
    if (!drawn) {
      state.SkipWithError(drawn.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(drawn->data());
  }
  state.counters["images"] =
      benchmark::Counter(static_cast<double>(kPictures), benchmark::Counter::kIsIterationInvariantRate);
}

void fp32(benchmark::State& state) {
  draw(state, Precision::kFp32);
}
void bf16(benchmark::State& state) {
  draw(state, Precision::kBf16);
}

BENCHMARK(fp32)
    ->Name("editor/draw/fp32")
    ->Args({8, 1})
    ->Args({8, 0})
    ->Args({4, 1})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(bf16)
    ->Name("editor/draw/bf16")
    ->Args({8, 1})
    ->Args({8, 0})
    ->Args({4, 1})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace saccade::bench

BENCHMARK_MAIN();
