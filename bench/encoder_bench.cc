// Benchmark of whole encoders: images and texts per second, compared with bare matrix products of the same
// shapes.
//
// The encoders have published shapes and random weights, and are opened from a folder as a user's would be.
// Each iteration runs one once, then every product [m, k] x [k, n] of the linear layers of a full forward
// pass as a bare oneDNN matmul. Weights are packed in the same dtype (int8: u8 by s8), each layer has its own
// up to 256 MB per shape, and there is no bias or activation. Both figures come from one run, so that
// "of_bare" (the products' time over the encoder's) compares the machine with itself.
//
// int8's "times_fp32" is fp32's time over int8's, measured alternately as well. The encoder may exceed 1 by
// skipping products whose results are not used. "beside_another" has a second process keep one of the
// processors busy, alternating with none ("of_alone"). Memory is the process's peak resident memory, mapped
// weights included: of loading, and of a batch with the encoder loaded. Every shape runs in a separate
// process.
//
// SACCADE_BENCH_SHAPES lists shapes by name, or "all" (gigabytes on disk and in memory); the default is
// ViT-B/32. The processors used are those of the process's affinity mask.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/explain/relevance_map.h"

#include "random_checkpoint.h"
#include <dnnl.hpp>

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;
using dnnl::memory;

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
  products.push_back({rows, shape.width, shape.mlp, shape.layers});
  products.push_back({rows, shape.mlp, shape.width, shape.layers});
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
  BareProducts(const std::vector<Product>& products, Precision precision) {
    using Type = memory::data_type;
    const bool integers =
        precision == Precision::kInt8;  // u8 by s8, whose results an encoder needs in float32
    const Type dtype = integers ? Type::u8 : precision == Precision::kBf16 ? Type::bf16 : Type::f32;
    for (const Product& p : products) {
      const memory::desc source({p.rows, p.in}, dtype, memory::format_tag::ab);
      const memory::desc weights({p.in, p.out}, integers ? Type::s8 : dtype, memory::format_tag::any);
      const memory::desc destination({p.rows, p.out}, integers ? Type::f32 : dtype, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::matmul::primitive_desc description(engine_, source, weights, destination);
#else
      const dnnl::matmul::primitive_desc description({source, weights, destination}, engine_);
#endif
      Kernel kernel{dnnl::matmul(description), filled(source), memory(destination, engine_), {}, 0};
      constexpr size_t kMostBytes = size_t{256} << 20;  // weights then come from memory, as an encoder's do
      const size_t bytes = description.weights_desc().get_size();
      const auto own = std::clamp<int64_t>(static_cast<int64_t>(kMostBytes / bytes), 1, p.times);
      for (int64_t i = 0; i < own; ++i) kernel.weights.push_back(filled(description.weights_desc()));
      kernel.times = p.times;
      kernels_.push_back(std::move(kernel));
    }
  }

  // Runs all of them once; returns seconds.
  double run() {
    const auto start = std::chrono::steady_clock::now();
    for (const Kernel& kernel : kernels_) {
      for (int64_t i = 0; i < kernel.times; ++i) {
        const memory& weights = kernel.weights[static_cast<size_t>(i) % kernel.weights.size()];
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
    int64_t times = 0;
  };

  memory filled(const memory::desc& description) {
#if DNNL_VERSION_MAJOR >= 3
    const std::vector<int64_t> sizes = description.get_dims();
#else
    const std::vector<int64_t> sizes = description.dims();
#endif
    std::vector<float>& values = values_[sizes];
    if (values.empty()) {
      values = normal_values(sizes[0] * sizes[1]);
      for (float& value : values) value *= 40;  // a range for integers; of no matter to the others
    }
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

// --- shapes ---------------------------------------------------------------------------------------------

struct Subject {
  std::string name;
  std::function<Status(const fs::path& folder)> write;
  int64_t side = 0;
  int64_t vocabulary = 0;
  std::function<std::vector<Product>(int64_t batch)> image_products;
  std::function<std::vector<Product>(int64_t batch, int64_t tokens)> text_products;
  std::vector<int64_t> image_batches = {1, 32};
  std::vector<int64_t> text_tokens;
  bool fp32 = true;
  int64_t rounds = 5;  // of a batch
};

Subject clip(const ClipShape& shape, int64_t rounds) {
  Subject subject;
  subject.name = shape.name;
  subject.write = [shape](const fs::path& folder) { return write_random_clip(folder, shape); };
  subject.side = shape.side;
  subject.vocabulary = kVocabulary;
  subject.image_products = [shape](int64_t batch) {
    std::vector<Product> products = {
        {batch * shape.patches(), 3 * shape.patch * shape.patch, shape.vision.width, 1},
        {batch, shape.vision.width, shape.projection, 1}};
    add_tower(products, shape.vision, batch * (shape.patches() + 1));
    return products;
  };
  subject.text_products = [shape](int64_t batch, int64_t tokens) {
    std::vector<Product> products = {{batch, shape.text.width, shape.projection, 1}};
    add_tower(products, shape.text, batch * tokens);
    return products;
  };
  subject.text_tokens = {12, kPositions};
  subject.rounds = rounds;
  return subject;
}

Subject siglip(const SiglipShape& shape) {
  Subject subject;
  subject.name = shape.name;
  subject.write = [shape](const fs::path& folder) { return write_random_siglip(folder, shape); };
  subject.side = shape.side;
  subject.vocabulary = shape.vocabulary;
  subject.image_products = [shape](int64_t batch) {
    const int64_t width = shape.tower.width;
    std::vector<Product> products = {
        {batch * shape.patches(), 3 * shape.patch * shape.patch, width, 1},
        {batch * shape.patches(), width, 2 * width, 1}};  // the pool's keys and values
    add_tower(products, shape.tower, batch * shape.patches());
    return products;
  };
  subject.text_products = [shape](int64_t batch, int64_t /*tokens*/) {  // all are padded to the context
    std::vector<Product> products = {{batch, shape.tower.width, shape.tower.width, 1}};
    add_tower(products, shape.tower, batch * shape.positions);
    return products;
  };
  subject.text_tokens = {12};
  subject.rounds = 2;
  return subject;
}

void add_gemma(std::vector<Product>& products, const ColPaliShape& shape, int64_t rows) {
  const TowerShape& language = shape.language;
  const int64_t inner = language.heads * shape.head_width;
  products.push_back({rows, language.width, inner, language.layers});
  products.push_back({rows, language.width, 2 * shape.head_width, language.layers});
  products.push_back({rows, inner, language.width, language.layers});
  products.push_back({rows, language.width, language.mlp, 2 * language.layers});
  products.push_back({rows, language.mlp, language.width, language.layers});
}

Subject colpali(const ColPaliShape& shape) {
  Subject subject;
  subject.name = shape.name;
  subject.write = [shape](const fs::path& folder) { return write_random_colpali(folder, shape); };
  subject.side = shape.side;
  subject.vocabulary = shape.vocabulary;
  subject.image_products = [shape](int64_t batch) {
    std::vector<Product> products = {
        {batch * shape.patches(), 3 * shape.patch * shape.patch, shape.vision.width, 1},
        {batch * shape.patches(), shape.vision.width, shape.language.width, 1}};
    add_tower(products, shape.vision, batch * shape.patches());
    add_gemma(products, shape, batch * (shape.patches() + kColPaliPrompt));
    return products;
  };
  subject.text_products = [shape](int64_t batch, int64_t tokens) {
    std::vector<Product> products;
    add_gemma(products, shape, batch * tokens);
    return products;
  };
  subject.image_batches = {1, 4};
  subject.text_tokens = {24};  // twelve, and what is put around a query
  subject.fp32 = false;        // 12 GB
  subject.rounds = 1;
  return subject;
}

std::vector<Subject> subjects() {
  return {clip(kVitB32, 5),      clip(kVitL14, 3), clip(kVitL14At336, 2), clip(kVitH14, 2),
          clip(kVitH14At378, 2), siglip(kSo400m),  colpali(kColPali)};
}

// --- encoders -------------------------------------------------------------------------------------------

// The checkpoint of one shape, and its encoder in one precision at a time.
class Bench {
 public:
  Bench(Subject subject, ScratchFolder scratch)
      : subject_(std::move(subject)), scratch_(std::move(scratch)) {}

  [[nodiscard]] const Subject& subject() const { return subject_; }

  Result<fs::path> checkpoint() {
    if (!written_) {
      SACCADE_TRY(subject_.write(scratch_.path()));
      written_ = true;
    }
    return scratch_.path();
  }

  Result<EncoderBackend*> get(Precision precision) {
    if (encoder_ && precision_ == precision) return encoder_.get();
    close();
    SACCADE_ASSIGN(const fs::path folder, checkpoint());
    SACCADE_ASSIGN(encoder_, load_encoder(folder, {.precision = precision, .threads = 0}));
    precision_ = precision;
    return encoder_.get();
  }
  // Returns the encoder in fp32 for comparison with int8; `nullptr` for other precisions.
  Result<EncoderBackend*> reference() {
    if (precision_ != Precision::kInt8 || !subject_.fp32) return nullptr;
    if (!reference_) {
      SACCADE_ASSIGN(reference_,
                     load_encoder(scratch_.path(), {.precision = Precision::kFp32, .threads = 0}));
    }
    return reference_.get();
  }

  void close() {
    encoder_.reset();
    reference_.reset();
  }

 private:
  Subject subject_;
  ScratchFolder scratch_;
  bool written_ = false;
  std::unique_ptr<EncoderBackend> encoder_, reference_;
  Precision precision_ = Precision::kFp32;
};

std::string threads_label() {
  return std::to_string(available_processors()) + " threads";
}

// Runs `encode` (of an encoder; it returns true on success), the bare products and, for int8, the same
// encoder in fp32, alternating, and reports all.
template <typename Encode>
void compare(benchmark::State& state, Bench& bench, EncoderBackend& encoder,
             const std::vector<Product>& products, Precision precision, int64_t items, const char* rate_name,
             const Encode& encode_by) {
  const auto encode = [&] { return encode_by(encoder); };
  reset_peak_memory();
  if (!encode()) return state.SkipWithError("encoding failed");
  state.counters["peak_RSS_MB"] = static_cast<double>(peak_memory()) / 1e6;  // before the products' weights
  BareProducts bare(products, precision);
  std::vector<double> encoding, multiplying, exact;
  // Idle threads of one spin for some milliseconds before they sleep, which would slow the other down.
  const auto rest = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  const auto reference = bench.reference();
  if (!reference) return state.SkipWithError(reference.error().message.c_str());
  bare.run();
  for (auto unused : state) {
    rest();
    const auto start = std::chrono::steady_clock::now();
    if (!encode()) return state.SkipWithError("encoding failed");
    encoding.push_back(seconds_since(start));
    state.SetIterationTime(encoding.back());
    rest();
    multiplying.push_back(bare.run());
    if (*reference == nullptr) continue;
    rest();
    const auto begin = std::chrono::steady_clock::now();
    if (!encode_by(**reference)) return state.SkipWithError("encoding in fp32 failed");
    exact.push_back(seconds_since(begin));
  }
  if (!exact.empty()) state.counters["times_fp32"] = median(exact) / median(encoding);
  const double gigaflop = operations(products) / 1e9;
  state.counters[rate_name] = static_cast<double>(items) / median(encoding);
  state.counters["GFLOP/s"] = gigaflop / median(encoding);
  state.counters["bare_GFLOP/s"] = gigaflop / median(multiplying);
  state.counters["of_bare"] = median(multiplying) / median(encoding);
  state.SetLabel(threads_label());
}

void encode_images(benchmark::State& state, Bench& bench, Precision precision, int64_t batch) {
  const auto encoder = bench.get(precision);
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  const Subject& subject = bench.subject();
  Matrix<float> pixels(batch, 3 * subject.side * subject.side);
  const std::vector<float> values = normal_values(pixels.rows() * pixels.columns());
  std::copy(values.begin(), values.end(), pixels.data());
  compare(state, bench, **encoder, subject.image_products(batch), precision, batch, "images/s",
          [&](EncoderBackend& by) { return by.encode_images(pixels.view()).has_value(); });
}

// A process that only keeps the last of this one's processors busy, while it lives.
class Spinner {
 public:
  Spinner() : process_(::fork()) {
    if (process_ != 0) return;
    cpu_set_t all;
    CPU_ZERO(&all);
    ::sched_getaffinity(0, sizeof all, &all);
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &all)) --last;
    CPU_ZERO(&all);
    CPU_SET(last, &all);
    ::sched_setaffinity(0, sizeof all, &all);
    for (std::atomic<int64_t> turns = 0;; turns.fetch_add(1, std::memory_order_relaxed)) {
    }
  }
  ~Spinner() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

 private:
  pid_t process_;
};

// Encodes single images, alternating with and without another process on one processor.
void encode_beside_another(benchmark::State& state, Bench& bench, Precision precision) {
  const auto encoder = bench.get(precision);
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  const Subject& subject = bench.subject();
  const std::vector<float> values = normal_values(3 * subject.side * subject.side);
  const MatrixView<const float> pixels(values.data(), 1, static_cast<int64_t>(values.size()));
  const auto encode = [&](std::vector<double>& seconds) {
    for (int time = 0; time < 5; ++time) {
      const auto start = std::chrono::steady_clock::now();
      if (!(*encoder)->encode_images(pixels)) return false;
      seconds.push_back(seconds_since(start));
    }
    return true;
  };
  std::vector<double> alone, beside;
  if (!encode(alone)) return state.SkipWithError("encoding failed");
  alone.clear();
  for (auto unused : state) {
    if (!encode(alone)) return state.SkipWithError("encoding failed");
    const Spinner spinner;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!encode(beside)) return state.SkipWithError("encoding failed");
    state.SetIterationTime(beside.back());
  }
  state.counters["images/s"] = 1 / median(beside);
  state.counters["alone_images/s"] = 1 / median(alone);
  state.counters["of_alone"] = median(alone) / median(beside);
  state.SetLabel(threads_label());
}

// Computes relevance maps of ten images, alternating with encoding them.
void map_pictures(benchmark::State& state, Bench& bench, MapMethod method) {
  const auto encoder = bench.get(Precision::kFp32);
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  PictureMapper* mapper = (*encoder)->picture_mapper();
  if (mapper == nullptr) return state.SkipWithError("no maps of this shape");
  const Subject& subject = bench.subject();
  Matrix<float> pixels(10, 3 * subject.side * subject.side);
  const std::vector<float> values = normal_values(pixels.rows() * pixels.columns());
  std::copy(values.begin(), values.end(), pixels.data());
  const std::vector<float> target(static_cast<size_t>((*encoder)->info().dim),
                                  1 / std::sqrt(static_cast<float>((*encoder)->info().dim)));
  const auto encode = [&] { return (*encoder)->encode_images(pixels.view()).has_value(); };
  const auto map = [&] { return mapper->map_pictures(pixels.view(), target, method).has_value(); };
  if (!encode() || !map()) return state.SkipWithError("encoding or mapping failed");
  std::vector<double> encoding, mapping;
  for (auto unused : state) {
    auto start = std::chrono::steady_clock::now();
    (void)encode();
    encoding.push_back(seconds_since(start));
    start = std::chrono::steady_clock::now();
    (void)map();
    mapping.push_back(seconds_since(start));
    state.SetIterationTime(mapping.back());
  }
  state.counters["maps/s"] = static_cast<double>(pixels.rows()) / median(mapping);
  state.counters["times_encoding"] = median(mapping) / median(encoding);
  state.SetLabel(threads_label());
}

void encode_texts(benchmark::State& state, Bench& bench, Precision precision, int64_t batch, int64_t tokens) {
  const auto encoder = bench.get(precision);
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  const auto end = static_cast<int32_t>(bench.subject().vocabulary - 1);  // CLIP's end of text
  std::minstd_rand random(1);
  std::vector<TokenizedText> texts(static_cast<size_t>(batch));
  for (TokenizedText& text : texts) {
    text.ids.push_back(end - 1);
    while (static_cast<int64_t>(text.ids.size()) < tokens - 1) {
      text.ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(end - 1)));
    }
    text.ids.push_back(end);
  }
  compare(state, bench, **encoder, bench.subject().text_products(batch, tokens), precision, batch, "texts/s",
          [&](EncoderBackend& by) { return by.encode_texts(texts).has_value(); });
}

// Loads from a folder in the page cache to a ready encoder: maps and hashes. Weights are packed in its first
// batch.
void load(benchmark::State& state, Bench& bench, Precision precision) {
  bench.close();
  const auto folder = bench.checkpoint();
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
  state.counters["peak_RSS_MB"] = static_cast<double>(peak_memory()) / 1e6;
  state.SetLabel(threads_label());
}

void register_all(Bench& bench) {
  const Subject& subject = bench.subject();
  const auto add = [&](const std::string& name, int64_t iterations, auto body) {
    benchmark::RegisterBenchmark((subject.name + "/" + name).c_str(), body)
        ->Iterations(iterations)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const auto& [precision, dtype] :
       {std::pair{Precision::kFp32, "fp32"}, std::pair{Precision::kBf16, "bf16"},
        std::pair{Precision::kInt8, "int8"}}) {
    if (precision == Precision::kFp32 && !subject.fp32) continue;
    const std::string name = dtype;
    add("load/" + name, std::min<int64_t>(subject.rounds, 3),
        [&bench, precision = precision](benchmark::State& state) { load(state, bench, precision); });
    for (const int64_t batch : subject.image_batches) {
      add("images/" + name + "/batch:" + std::to_string(batch),
          batch == 1 ? subject.rounds * subject.rounds : subject.rounds,
          [&bench, batch, precision = precision](benchmark::State& state) {
            encode_images(state, bench, precision, batch);
          });
    }
    add("images/" + name + "/beside_another", subject.rounds + 2,
        [&bench, precision = precision](benchmark::State& state) {
          encode_beside_another(state, bench, precision);
        });
    for (const int64_t tokens : subject.text_tokens) {
      add("texts/" + name + "/batch:32/tokens:" + std::to_string(tokens), subject.rounds + 2,
          [&bench, tokens, precision = precision](benchmark::State& state) {
            encode_texts(state, bench, precision, 32, tokens);
          });
    }
  }
  if (!subject.fp32) return;
  for (const EnumName<MapMethod>& of : kMapMethodNames) {
    add("maps/" + std::string(of.name), subject.rounds + 2,
        [&bench, method = of.value](benchmark::State& state) { map_pictures(state, bench, method); });
  }
}

// Runs one shape in this process.
int run_shape(const Subject& subject, int argc, char** argv) {
  auto scratch = ScratchFolder::make();
  if (!scratch) {
    std::fprintf(stderr, "encoder_bench: %s\n", scratch.error().message.c_str());
    return exit_code(scratch.error().code);
  }
  Bench bench(subject, *std::move(scratch));
  register_all(bench);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

// Runs every shape in a child, forked before this process has threads.
int run(int argc, char** argv) {
  int worst = 0;
  bool any = false;
  for (const Subject& subject : subjects()) {
    if (!is_wanted_shape(subject.name)) continue;
    any = true;
    const pid_t child = ::fork();
    if (child == 0) {
      const int code = run_shape(subject, argc, argv);
      std::fflush(nullptr);
      ::_exit(code);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return 1;
    worst = std::max(worst, WEXITSTATUS(status));
  }
  if (any) return worst;
  std::fprintf(stderr, "encoder_bench: SACCADE_BENCH_SHAPES names none of:");
  for (const Subject& subject : subjects()) std::fprintf(stderr, " %s", subject.name.c_str());
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace saccade::bench

int main(int argc, char** argv) {
  return saccade::bench::run(argc, argv);
}
