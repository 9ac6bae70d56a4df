// Pictures and texts a second of a whole encoder, beside what bare matrix products of the same shapes reach.
//
// The encoder is a CLIP of published shape with random weights, opened from a folder as a user's would be.
// Each iteration runs it once, then every product [m, k] x [k, n] that the linear layers of a full forward
// pass are made of as a bare oneDNN matmul: weights packed in the same dtype, each layer's its own, no bias,
// no activation. Both figures come from one run, so that "of_bare" (the products' time over the encoder's)
// compares the machine with itself. The encoder may do better than 1 by leaving out products whose results
// nobody reads.
//
// SACCADE_BENCH_LARGE=1 adds ViT-L/14. The processors used are those of the process's affinity mask.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/core/threads.h"
#include "saccade/model/encoder.h"

#include "random_checkpoint.h"
#include <dnnl.hpp>

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;
using dnnl::memory;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<float> normal_values(int64_t count) {
  std::minstd_rand random(static_cast<uint32_t>(count % 1'000'003 + 1));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// --- the products of a forward pass ---------------------------------------------------------------------

struct Product {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t times = 0;  // with other weights each
};

void add_tower(std::vector<Product>& products, const TowerShape& shape, int64_t rows) {
  products.push_back({rows, shape.width, 3 * shape.width, shape.layers});
  products.push_back({rows, shape.width, shape.width, shape.layers});
  products.push_back({rows, shape.width, kMlpRatio * shape.width, shape.layers});
  products.push_back({rows, kMlpRatio * shape.width, shape.width, shape.layers});
}

std::vector<Product> image_products(const ClipShape& shape, int64_t batch) {
  const int64_t patches = (kPictureSide / shape.patch) * (kPictureSide / shape.patch);
  std::vector<Product> products = {{batch * patches, 3 * shape.patch * shape.patch, shape.vision.width, 1},
                                   {batch, shape.vision.width, shape.projection, 1}};
  add_tower(products, shape.vision, batch * (patches + 1));
  return products;
}

std::vector<Product> text_products(const ClipShape& shape, int64_t batch, int64_t tokens) {
  std::vector<Product> products = {{batch, shape.text.width, shape.projection, 1}};
  add_tower(products, shape.text, batch * tokens);
  return products;
}

double operations(const std::vector<Product>& products) {
  double sum = 0;
  for (const Product& p : products) {
    sum += 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.in) * static_cast<double>(p.out) *
           static_cast<double>(p.times);
  }
  return sum;
}

// The products as bare oneDNN matmuls, ready to run.
class BareProducts {
 public:
  BareProducts(const std::vector<Product>& products, memory::data_type dtype) {
    for (const Product& p : products) {
      const memory::desc source({p.rows, p.in}, dtype, memory::format_tag::ab);
      const memory::desc weights({p.in, p.out}, dtype, memory::format_tag::any);
      const memory::desc destination({p.rows, p.out}, dtype, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::matmul::primitive_desc description(engine_, source, weights, destination);
#else
      const dnnl::matmul::primitive_desc description({source, weights, destination}, engine_);
#endif
      Kernel kernel{dnnl::matmul(description), filled(source), memory(destination, engine_), {}};
      for (int64_t i = 0; i < p.times; ++i) kernel.weights.push_back(filled(description.weights_desc()));
      kernels_.push_back(std::move(kernel));
    }
  }

  // Runs all of them once; seconds.
  double run() {
    const auto start = std::chrono::steady_clock::now();
    for (const Kernel& kernel : kernels_) {
      for (const memory& weights : kernel.weights) {
        kernel.product.execute(
            stream_,
            {{DNNL_ARG_SRC, kernel.source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, kernel.destination}});
      }
    }
    stream_.wait();
    return seconds_since(start);
  }

 private:
  struct Kernel {
    dnnl::matmul product;
    memory source;
    memory destination;
    std::vector<memory> weights;
  };

  memory filled(const memory::desc& description) {
    const auto dims = description.dims();
#if DNNL_VERSION_MAJOR >= 3
    const auto sizes = dims;
#else
    const std::vector<int64_t> sizes(dims.begin(), dims.end());
#endif
    std::vector<float>& values = values_[sizes];
    if (values.empty()) values = normal_values(sizes[0] * sizes[1]);
    memory plain({{sizes[0], sizes[1]}, memory::data_type::f32, memory::format_tag::ab}, engine_,
                 values.data());
    memory result(description, engine_);
    dnnl::reorder(plain, result).execute(stream_, plain, result);
    stream_.wait();
    return result;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::vector<int64_t>, std::vector<float>> values_;
  std::vector<Kernel> kernels_;
};

// --- encoders -------------------------------------------------------------------------------------------

// Checkpoints written so far, and the encoder opened last: one at a time, as each takes its share of memory.
class Encoders {
 public:
  explicit Encoders(ScratchFolder scratch) : scratch_(std::move(scratch)) {}

  Result<fs::path> checkpoint(const ClipShape& shape) {
    std::string name = shape.name;
    std::replace(name.begin(), name.end(), '/', '-');
    const fs::path folder = scratch_.path() / name;
    std::error_code error;
    if (fs::exists(folder, error)) return folder;
    if (!fs::create_directory(folder, error))
      return fail_errno(error.value(), "make folder " + folder.string());
    SACCADE_TRY(write_random_clip(folder, shape));
    return folder;
  }

  Result<Encoder*> get(const ClipShape& shape, Precision precision) {
    if (encoder_ && name_ == shape.name && precision_ == precision) return encoder_.get();
    encoder_.reset();
    SACCADE_ASSIGN(const fs::path folder, checkpoint(shape));
    SACCADE_ASSIGN(encoder_, load_encoder(folder, {.precision = precision, .threads = 0}));
    name_ = shape.name;
    precision_ = precision;
    return encoder_.get();
  }

  void close() { encoder_.reset(); }

 private:
  ScratchFolder scratch_;
  std::unique_ptr<Encoder> encoder_;
  std::string name_;
  Precision precision_ = Precision::kFp32;
};

std::string threads_label() {
  return std::to_string(available_processors()) + " threads";
}

// Runs `encode` (returning whether it worked) and the bare products in turn, and reports both.
template <typename Encode>
void compare(benchmark::State& state, const std::vector<Product>& products, Precision precision,
             int64_t items, const char* rate_name, const Encode& encode) {
  BareProducts bare(products,
                    precision == Precision::kBf16 ? memory::data_type::bf16 : memory::data_type::f32);
  std::vector<double> encoding, multiplying;
  if (!encode()) return state.SkipWithError("encoding failed");
  bare.run();
  for (auto unused : state) {
    const auto start = std::chrono::steady_clock::now();
    if (!encode()) return state.SkipWithError("encoding failed");
    encoding.push_back(seconds_since(start));
    state.SetIterationTime(encoding.back());
    multiplying.push_back(bare.run());
  }
  const double gigaflop = operations(products) / 1e9;
  state.counters[rate_name] = static_cast<double>(items) / median(encoding);
  state.counters["GFLOP/s"] = gigaflop / median(encoding);
  state.counters["bare_GFLOP/s"] = gigaflop / median(multiplying);
  state.counters["of_bare"] = median(multiplying) / median(encoding);
  state.SetLabel(threads_label());
}

void encode_images(benchmark::State& state, Encoders& encoders, const ClipShape& shape, Precision precision,
                   int64_t batch) {
  const auto encoder = encoders.get(shape, precision);
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  Matrix<float> pixels(batch, 3 * kPictureSide * kPictureSide);
  const std::vector<float> values = normal_values(pixels.rows() * pixels.columns());
  std::copy(values.begin(), values.end(), pixels.data());
  compare(state, image_products(shape, batch), precision, batch, "images/s",
          [&] { return (*encoder)->encode_images(pixels.view()).has_value(); });
}

void encode_texts(benchmark::State& state, Encoders& encoders, const ClipShape& shape, Precision precision,
                  int64_t batch, int64_t tokens) {
  const auto encoder = encoders.get(shape, precision);
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  std::minstd_rand random(1);
  std::vector<TokenizedText> texts(static_cast<size_t>(batch));
  for (TokenizedText& text : texts) {
    text.ids.push_back(kVocabulary - 2);
    while (static_cast<int64_t>(text.ids.size()) < tokens - 1) {
      text.ids.push_back(static_cast<int32_t>(random() % (kVocabulary - 2)));
    }
    text.ids.push_back(kVocabulary - 1);
  }
  compare(state, text_products(shape, batch, tokens), precision, batch, "texts/s",
          [&] { return (*encoder)->encode_texts(texts).has_value(); });
}

// From a folder in the page cache to an encoder that is ready: maps, hashes, packs.
void load(benchmark::State& state, Encoders& encoders, const ClipShape& shape, Precision precision) {
  encoders.close();
  const auto folder = encoders.checkpoint(shape);
  if (!folder) return state.SkipWithError(folder.error().message.c_str());
  reset_peak_memory();
  std::vector<double> seconds;
  for (auto unused : state) {
    const auto start = std::chrono::steady_clock::now();
    const auto encoder = load_encoder(*folder, {.precision = precision, .threads = 0});
    if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
    seconds.push_back(seconds_since(start));
    state.SetIterationTime(seconds.back());
  }
  state.counters["seconds"] = median(seconds);
  state.counters["peak_RSS_MB"] = static_cast<double>(peak_memory()) / 1e6;  // mapped weights included
  state.SetLabel(threads_label());
}

void register_shape(Encoders& encoders, const ClipShape& shape) {
  const auto add = [&](const std::string& name, int64_t iterations, auto body) {
    benchmark::RegisterBenchmark((std::string(shape.name) + "/" + name).c_str(), body)
        ->Iterations(iterations)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const auto& [precision, dtype] :
       {std::pair{Precision::kFp32, "fp32"}, std::pair{Precision::kBf16, "bf16"}}) {
    const std::string name = dtype;
    add("load/" + name, 3, [&encoders, shape, precision = precision](benchmark::State& state) {
      load(state, encoders, shape, precision);
    });
    for (const int64_t batch : {1, 32}) {
      add("images/" + name + "/batch:" + std::to_string(batch), batch == 1 ? 20 : 5,
          [&encoders, shape, batch, precision = precision](benchmark::State& state) {
            encode_images(state, encoders, shape, precision, batch);
          });
    }
    for (const int64_t tokens : {int64_t{12}, kPositions}) {
      add("texts/" + name + "/batch:32/tokens:" + std::to_string(tokens), 7,
          [&encoders, shape, tokens, precision = precision](benchmark::State& state) {
            encode_texts(state, encoders, shape, precision, 32, tokens);
          });
    }
  }
}

int run(int argc, char** argv) {
  auto scratch = ScratchFolder::make();
  if (!scratch) {
    std::fprintf(stderr, "encoder_bench: %s\n", scratch.error().message.c_str());
    return exit_code(scratch.error().code);
  }
  Encoders encoders(*std::move(scratch));
  register_shape(encoders, kVitB32);
  const char* large = std::getenv("SACCADE_BENCH_LARGE");
  if (large != nullptr && std::strcmp(large, "1") == 0) register_shape(encoders, kVitL14);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace saccade::bench

int main(int argc, char** argv) {
  return saccade::bench::run(argc, argv);
}
