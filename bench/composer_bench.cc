// Benchmark of composed queries over the starter: the cost of encoding image and text, and of composing.
//
//   compose/rows/N     encode_images and encode_texts of N queries: the cost of a plain sum
//   compose/tokens/N   their token states: the inputs of adaptive token fusion
//   compose/atf/N      adaptive token fusion of N queries from existing tokens, with
//                      random weights and no matches
//   compose/merged/N   the same with every image token merged with its nearest text token (tau -1)
//
// One thread. Counter: queries per second. Composing should cost at most 5% of compose/rows.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/model/composers/atf.h"
#include "saccade/model/composers/token_states.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

float uniform(uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<float>(state >> 40) * 0x1p-23F - 1;
}

// Random parameters of a composer.
class RandomSource : public nn::ParameterSource {
 public:
  Result<nn::Tensor> take(const std::string& name, const std::vector<int64_t>& shape,
                          nn::Init init) override {
    nn::Tensor tensor = nn::Tensor::empty(shape);
    for (float& value : tensor.floats()) value = static_cast<float>(init.mean) + 0.05F * uniform(state_);
    parameters[name] = tensor.clone();
    return tensor;
  }
  nn::TensorMap parameters;

 private:
  uint64_t state_ = 1;
};

struct Queries {
  std::unique_ptr<ScratchFolder> scratch;
  std::unique_ptr<EncoderBackend> encoder;
  std::unique_ptr<Composer> composer;
  Matrix<float> pixels;
  std::vector<std::string> words;
  std::vector<TokenizedText> texts;
};

Result<Queries> queries(int64_t n, double tau) {
  Queries made;
  BackendOptions options;
  options.threads = 1;
  SACCADE_ASSIGN(made.encoder, load_encoder(fs::path(test::kSourceDir) / "models/starter", options));
  const EncoderInfo& info = made.encoder->info();
  made.pixels = Matrix<float>(n, int64_t{3} * info.image_height * info.image_width);
  uint64_t state = 7;
  for (float& value : made.pixels.values()) value = uniform(state);
  const char* const kWords[] = {"crossed out", "in red", "turned to the left and smaller",
                                "with a medium skin tone"};
  for (int64_t i = 0; i < n; ++i) {
    made.words.emplace_back(kWords[i % 4]);
    made.texts.push_back(made.encoder->tokenizer()->encode(made.words.back(), info.context));
  }
  AtfOptions atf = attention_atf_options();
  atf.merge.tau = tau;
  atf.merge.matching = MergeMatching::kBest;
  atf.picture_tokens = made.encoder->token_states()->picture_tokens();
  atf.text_places = info.context;
  ComposerConfig config;
  config.kind = "atf";
  config.dim = info.dim;
  config.options = atf_options_json(atf);
  config.encoder = {"starter", info.family, info.fingerprint, "starter"};
  SACCADE_ASSIGN(ScratchFolder scratch, ScratchFolder::make());
  made.scratch = std::make_unique<ScratchFolder>(std::move(scratch));
  RandomSource source;
  SACCADE_TRY(AtfOf<nn::Tensor>::make(atf, config.dim, source));
  SACCADE_TRY(source.take("logit_scale", {}, {}));
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : source.parameters) named.push_back({name, nn::view_of(tensor)});
  const fs::path& folder = made.scratch->path();
  SACCADE_TRY(write_safetensors(folder / "model.safetensors", named));
  SACCADE_TRY(write_file_atomic(folder / "config.json", dump_json(composer_config_json(config))));
  SACCADE_ASSIGN(made.composer, Composer::open(folder, options));
  return made;
}

// Calls body(queries) once per iteration.
template <typename Body>
void run(benchmark::State& state, double tau, const Body& body) {
  const auto made = queries(state.range(0), tau);
  if (!made) {
    state.SkipWithError(made.error().message.c_str());
    return;
  }
  for (auto _ : state) {
    if (const Status done = body(*made); !done) {
      state.SkipWithError(done.error().message.c_str());
      return;
    }
  }
  state.counters["queries/s"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)),
                                                   benchmark::Counter::kIsRate);
}

void rows(benchmark::State& state) {
  run(state, 2, [](const Queries& queries) -> Status {
    SACCADE_ASSIGN(const Matrix<float> pictures, queries.encoder->encode_images(queries.pixels.view()));
    SACCADE_ASSIGN(const Matrix<float> texts, queries.encoder->encode_texts(queries.texts));
    benchmark::DoNotOptimize(pictures.data());
    benchmark::DoNotOptimize(texts.data());
    return {};
  });
}

void tokens(benchmark::State& state) {
  run(state, 2, [](const Queries& queries) -> Status {
    SACCADE_ASSIGN(const ComposerInput input,
                   composer_input(*queries.encoder, *queries.encoder, queries.composer->kind().needs,
                                  queries.pixels.view(), queries.words));
    benchmark::DoNotOptimize(input.picture_rows.data());
    return {};
  });
}

void compose(benchmark::State& state, double tau) {
  std::unique_ptr<ComposerInput> input;
  run(state, tau, [&input](const Queries& queries) -> Status {
    if (!input) {
      SACCADE_ASSIGN(ComposerInput made,
                     composer_input(*queries.encoder, *queries.encoder, queries.composer->kind().needs,
                                    queries.pixels.view(), queries.words));
      input = std::make_unique<ComposerInput>(std::move(made));
    }
    SACCADE_ASSIGN(const Composed composed, queries.composer->compose(*queries.encoder, *input));
    benchmark::DoNotOptimize(composed.rows.data());
    return {};
  });
}

BENCHMARK(rows)->Name("compose/rows")->Arg(1)->Arg(64)->Unit(benchmark::kMicrosecond);
BENCHMARK(tokens)->Name("compose/tokens")->Arg(1)->Arg(64)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(compose, atf, 2.0)->Name("compose/atf")->Arg(1)->Arg(64)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(compose, merged, -1.0)
    ->Name("compose/merged")
    ->Arg(1)
    ->Arg(64)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace saccade::bench

BENCHMARK_MAIN();
