// Benchmark of `saccade index` end to end: from image files on disk to a collection on disk.
//
//   indexing/<pictures>/<encoder>    images per second, and shares of the work
//   rates/<photographs>/<encoder>    indexing JPEGs of 1024 x 768 exactly, or those of 12 megapixels as the program does;
//                                    the stages before the encoder alone (read and hash, decode, resize); and the encoder
//                                    alone on prepared images; alternating. Medians of images per second, of each stage
//                                    too as if it had all threads, and of milliseconds of processor time per image. Medians
//                                    of ratios: indexing to the encoder, by the clock (share) and by processor time
//                                    (share_cpu), to the slower of the two (of_slower), and to both one after the other
//                                    (of_sum), as both use all threads
//   processes/<JPEGs>/<encoder>      indexing with decoder processes, as the program does, and
//                                    without, alternating: medians of milliseconds of processor and of
//                                    wall time per image, and the median over the turns of the
//                                    processes' cost, as a share of the whole
//   large/<photographs>/<encoder>    indexing photographs of 12 megapixels (SACCADE_BENCH_MEGAPIXELS), or those of
//                                    SACCADE_BENCH_PICTURES,
//                                    decoded exactly and at a smaller size, as the program does, alternating:
//                                    medians of images per second, of milliseconds of processor time per
//                                    image, of the share of the processors' time that was used, and of the
//                                    stages' milliseconds per image; and the median ratio of the two rates
//   cosines/<pictures>/<encoder>     cosines between the embeddings of both ways of decoding, least and mean,
//                                    of the pictures that differ. SACCADE_BENCH_KEEP names a folder that keeps
//                                    the two collections.
//   memory/10000_images/<encoder>    the peak resident memory while the process indexed 10,000 of them
//
// Images: a folder named by SACCADE_BENCH_PICTURES; the sample collection in build/sample, if it has been
// made; and 500 made here, JPEG and PNG of mixed sizes. Encoders: a folder named by SACCADE_BENCH_CHECKPOINT;
// the starter checkpoint, if it exists; a CLIP of toy size from tests/golden, which measures the rest of the
// pipeline alone; and ViT-B/32 with random weights, in bf16 and fp32.
//
// All others decode exactly, as --exact-decode, but rates of large photographs.
//
// Shares are of all seconds of work: reading, decoding and preprocessing summed over their threads, walking,
// encoding and writing on the calling thread (see IngestReport).
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/picture.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/threads.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/encoder_backend.h"

#include "random_checkpoint.h"

namespace saccade::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kMemoryLimit = 1.5e9;  // for indexing 10,000 images

// --- pictures -------------------------------------------------------------------------------------------

// Makes an image of soft colours with some grain, which determines the size of its JPEG.
Image made_picture(int seed, int width, int height, int grain = 16) {
  std::minstd_rand random(static_cast<uint32_t>(seed + 1));
  std::array<float, 6> wave{};
  for (float& value : wave) value = 0.002F + 0.02F * static_cast<float>(random() % 1000) / 1000;
  Image image{width, height, 3, PixelMode::kRgb, {}};
  image.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  std::vector<float> across(static_cast<size_t>(width) * 3);
  for (size_t i = 0; i < across.size(); ++i)
    across[i] = 50 * std::sin(wave[i % 3] * static_cast<float>(i / 3));
  size_t at = 0;
  for (int y = 0; y < height; ++y) {
    std::array<float, 3> down{};
    for (size_t c = 0; c < 3; ++c) down[c] = 120 + 50 * std::cos(wave[3 + c] * static_cast<float>(y));
    for (size_t i = 0; i < across.size(); ++i) {
      image.pixels[at++] =
          static_cast<uint8_t>(across[i] + down[i % 3] + static_cast<float>(random() % grain));
    }
  }
  return image;
}

Status write_picture(const fs::path& folder, int number) {
  static constexpr std::pair<int, int> kSizes[] = {{200, 200}, {320, 240},  {512, 512},
                                                   {640, 480}, {1024, 768}, {1600, 1200}};
  const auto [width, height] = kSizes[number % 6];
  const Image image = made_picture(number, width, height);
  const bool png = number % 5 < 2 && width <= 640;
  SACCADE_ASSIGN(const std::string bytes, png ? encode_png(image) : encode_jpeg(image));
  return write_file_atomic(folder / fmt::format("{:05}.{}", number, png ? "png" : "jpg"), bytes);
}

Status make_pictures(const fs::path& folder, int count) {
  ThreadPool pool;
  std::vector<Status> done(static_cast<size_t>(count));
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      done[static_cast<size_t>(i)] = write_picture(folder, static_cast<int>(i));
    }
  });
  for (const Status& status : done) SACCADE_TRY(status);
  return {};
}

// Makes photographs. At 1024 x 768 they have 250 KB each, typical of cameras and photo sites.
Status make_photographs(const fs::path& folder, int count, int width = 1024, int height = 768) {
  constexpr int kGrain = 48;
  ThreadPool pool;
  std::vector<Status> done(static_cast<size_t>(count));
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto bytes = encode_jpeg(made_picture(static_cast<int>(i), width, height, kGrain));
      done[static_cast<size_t>(i)] =
          bytes ? write_file_atomic(folder / fmt::format("{:05}.jpg", i), *bytes) : fail(bytes.error());
    }
  });
  for (const Status& status : done) SACCADE_TRY(status);
  return {};
}

// Makes many small JPEGs quickly: few images, each file with its own comment behind the start-of-image
// marker, so that no two files are equal.
Status make_small_jpegs(const fs::path& folder, int count) {
  constexpr int kDifferent = 100;
  std::vector<std::string> pictures;
  for (int i = 0; i < kDifferent; ++i) {
    SACCADE_ASSIGN(pictures.emplace_back(), encode_jpeg(made_picture(i, 256 + 4 * i, 240)));
  }
  for (int i = 0; i < count; ++i) {
    std::string bytes = pictures[static_cast<size_t>(i % kDifferent)];
    const std::string comment = fmt::format("{:010}", i);
    std::string segment = "\xff\xfe";
    segment += '\0';
    segment += static_cast<char>(comment.size() + 2);
    bytes.insert(2, segment + comment);
    const fs::path path = folder / fmt::format("{:02}", i / 1000) / fmt::format("{:05}.jpg", i);
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return fail_errno(error.value(), "make folder " + path.parent_path().string());
    std::FILE* file = std::fopen(path.c_str(), "wb");  // no need to survive a crash
    if (file == nullptr) return fail_errno(errno, "write " + path.string());
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    if (std::fclose(file) != 0 || !written) return fail_errno(errno, "write " + path.string());
  }
  return {};
}

// Folders of images and checkpoints, made at first use.
class Inputs {
 public:
  explicit Inputs(ScratchFolder scratch) : scratch_(std::move(scratch)) {}

  template <typename Make>
  Result<fs::path> folder(const std::string& name, const Make& make) {
    const fs::path path = scratch_.path() / name;
    std::error_code error;
    if (fs::exists(path, error)) return path;
    if (!fs::create_directory(path, error)) return fail_errno(error.value(), "make folder " + path.string());
    SACCADE_TRY(make(path));
    return path;
  }

  // Returns the path of a folder that does not exist yet.
  fs::path fresh() { return scratch_.path() / fmt::format("collection-{}", ++collections_); }

 private:
  ScratchFolder scratch_;
  int collections_ = 0;
};

using FolderSource = std::function<Result<fs::path>(Inputs&)>;

struct NamedSource {
  std::string name;
  FolderSource folder;
  Precision precision = Precision::kFp32;  // of a checkpoint
};

FolderSource existing(const fs::path& path) {
  return [path](Inputs&) -> Result<fs::path> { return path; };
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// --- benchmarks -----------------------------------------------------------------------------------------

// Returns the processor time of this process, and of the children that it has waited for.
double processor_seconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

struct Indexed {
  IngestReport report;
  // Time from before the decoder processes are started until they have ended.
  double seconds = 0;
  double processor = 0;
};

Result<Indexed> index_into(const fs::path& folder, const fs::path& pictures, const std::string& name,
                           const fs::path& checkpoint, EncoderBackend& encoder, bool processes = true,
                           IngestSettings settings = {}) {
  settings.precision = encoder.info().precision;
  const auto start = std::chrono::steady_clock::now();
  const double before = processor_seconds();
  Indexed indexed;
  {
    const CheckpointId id{name, checkpoint.string(), encoder.info().fingerprint, encoder.info().dim};
    SACCADE_ASSIGN(CollectionWriter writer, CollectionWriter::open_or_create(folder, id, settings));
    std::unique_ptr<DecoderPool> decoders;
    if (processes) {
      SACCADE_ASSIGN(decoders, DecoderPool::start({SACCADE_DECODER}));
    }
    ThreadPool pool;
    IngestOptions options;
    options.limits.processes = decoders.get();
    SACCADE_ASSIGN(indexed.report, ingest(writer, encoder, std::vector<fs::path>{pictures}, options, pool));
  }
  indexed.seconds = seconds_since(start);
  indexed.processor = processor_seconds() - before;
  return indexed;
}

void index_pictures(benchmark::State& state, Inputs& inputs, const NamedSource& pictures,
                    const NamedSource& checkpoint, bool check_memory) {
  const auto picture_folder = pictures.folder(inputs);
  if (!picture_folder) return state.SkipWithError(picture_folder.error().message.c_str());
  const auto checkpoint_folder = checkpoint.folder(inputs);
  if (!checkpoint_folder) return state.SkipWithError(checkpoint_folder.error().message.c_str());
  reset_peak_memory();
  const auto encoder = load_encoder(*checkpoint_folder, {.precision = checkpoint.precision, .threads = 0});
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());

  int64_t added = 0;
  int64_t failed = 0;
  int64_t bytes = 0;
  IngestReport::Seconds sum;
  for (auto unused : state) {
    const fs::path folder = inputs.fresh();
    const auto indexed = index_into(folder, *picture_folder, checkpoint.name, *checkpoint_folder, **encoder);
    if (!indexed) return state.SkipWithError(indexed.error().message.c_str());
    const IngestReport* report = &indexed->report;
    state.SetIterationTime(report->seconds.total);
    added += report->added;
    failed += static_cast<int64_t>(report->failed.size());
    bytes += report->bytes_read;
    sum.total += report->seconds.total;
    sum.walk += report->seconds.walk;
    sum.read += report->seconds.read;
    sum.decode += report->seconds.decode;
    sum.preprocess += report->seconds.preprocess;
    sum.encode += report->seconds.encode;
    sum.write += report->seconds.write;
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  const double memory = static_cast<double>(peak_memory());
  const double work = sum.walk + sum.read + sum.decode + sum.preprocess + sum.encode + sum.write;
  if (added == 0) return state.SkipWithError("no image was added");
  state.counters["images"] = static_cast<double>(added) / static_cast<double>(state.iterations());
  state.counters["failed"] = static_cast<double>(failed) / static_cast<double>(state.iterations());
  state.counters["images/s"] = static_cast<double>(added) / sum.total;
  state.counters["MB/s"] = static_cast<double>(bytes) / 1e6 / sum.total;
  state.counters["read"] = sum.read / work;
  state.counters["decode"] = sum.decode / work;
  state.counters["preprocess"] = sum.preprocess / work;
  state.counters["encode"] = sum.encode / work;
  state.counters["write"] = sum.write / work;
  state.counters["peak_RSS_MB"] = memory / 1e6;
  state.SetLabel(fmt::format("{} threads", available_processors()));
  if (check_memory && memory > kMemoryLimit) state.SkipWithError("more than 1.5 GB of memory");
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Returns images per second of the encoder alone, in the batches of ingest.
Result<double> encoder_rate(EncoderBackend& encoder, int64_t pictures) {
  const int batch = IngestOptions{}.batch;
  const Preprocessing& preprocessing = encoder.preprocessing();
  Matrix<float> pixels(batch, int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
  std::minstd_rand random(1);
  for (float& value : pixels.values()) value = static_cast<float>(random() % 4096) / 1024 - 2;
  const auto start = std::chrono::steady_clock::now();
  int64_t done = 0;
  for (; done < pictures; done += batch) SACCADE_TRY(encoder.encode_images(pixels.view()));
  return static_cast<double>(done) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Images per second of the stages before the encoder, without it.
struct PreparationRates {
  double all = 0;  // by the clock
  // As if the stage alone had all threads.
  double read = 0;
  double decode = 0;
  double resize = 0;
};

Result<PreparationRates> preparation_rates(const fs::path& folder, EncoderBackend& encoder,
                                           const IngestSettings& settings) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  SACCADE_ASSIGN(const std::unique_ptr<DecoderPool> decoders, DecoderPool::start({SACCADE_DECODER}));
  DecodeOptions limits;
  limits.processes = decoders.get();
  const PixelOptions options = pixel_options(
      encoder.preprocessing(), picture_decode_options(settings, encoder.preprocessing(), limits));
  ThreadPool pool;
  std::atomic<int64_t> reading = 0;  // nanoseconds
  const auto start = std::chrono::steady_clock::now();
  const auto read = [&](int64_t number) -> Result<std::string> {
    const auto begun = std::chrono::steady_clock::now();
    SACCADE_ASSIGN(std::string bytes, read_file(files[static_cast<size_t>(number)], limits.max_bytes));
    benchmark::DoNotOptimize(sha256_hex(bytes));
    reading += static_cast<int64_t>(1e9 * seconds_since(begun));
    return bytes;
  };
  const PixelBatch batch = read_pixels(std::ssize(files), read, options, pool);
  const auto count = static_cast<double>(batch.which.size());
  const double seconds = seconds_since(start);
  const double with_all = count * available_processors();
  return PreparationRates{.all = count / seconds,
                          .read = with_all * 1e9 / static_cast<double>(reading.load()),
                          .decode = with_all / batch.seconds.decode,
                          .resize = with_all / batch.seconds.use};
}

void compare_rates(benchmark::State& state, Inputs& inputs, const NamedSource& pictures,
                   const NamedSource& checkpoint, const IngestSettings& settings) {
  constexpr int kRounds = 5;
  const auto photographs = pictures.folder(inputs);
  if (!photographs) return state.SkipWithError(photographs.error().message.c_str());
  const auto folder = checkpoint.folder(inputs);
  if (!folder) return state.SkipWithError(folder.error().message.c_str());
  const auto encoder = load_encoder(*folder, {.precision = checkpoint.precision, .threads = 0});
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  for (auto unused : state) {
    std::map<std::string, std::vector<double>> figures;
    double count = 0;
    if (auto warm = encoder_rate(**encoder, 32); !warm)
      return state.SkipWithError(warm.error().message.c_str());
    for (int round = 0; round < kRounds; ++round) {
      const fs::path collection = inputs.fresh();
      const auto indexed =
          index_into(collection, *photographs, checkpoint.name, *folder, **encoder, true, settings);
      if (!indexed) return state.SkipWithError(indexed.error().message.c_str());
      std::error_code ignored;
      fs::remove_all(collection, ignored);
      const IngestReport::Seconds& seconds = indexed->report.seconds;
      count = static_cast<double>(indexed->report.added);
      const double before = processor_seconds();
      const auto alone = encoder_rate(**encoder, indexed->report.added);
      if (!alone) return state.SkipWithError(alone.error().message.c_str());
      const int64_t batch = IngestOptions{}.batch;
      const int64_t encoded = (indexed->report.added + batch - 1) / batch * batch;  // whole batches
      const double cpu_alone = 1e3 * (processor_seconds() - before) / static_cast<double>(encoded);
      const auto prepared = preparation_rates(*photographs, **encoder, settings);
      if (!prepared) return state.SkipWithError(prepared.error().message.c_str());
      const double rate = count / seconds.total;
      const double cpu = 1e3 * indexed->processor / count;
      const std::pair<const char*, double> measured[] = {
          {"encoder/s", *alone},
          {"prepare/s", prepared->all},
          {"read/s", prepared->read},
          {"decode/s", prepared->decode},
          {"resize/s", prepared->resize},
          {"indexed/s", rate},
          {"share", rate / *alone},
          {"of_slower", rate / std::min(*alone, prepared->all)},
          {"of_sum", rate * (1 / *alone + 1 / prepared->all)},
          {"encoder_cpu_ms", cpu_alone},
          {"indexed_cpu_ms", cpu},
          {"share_cpu", cpu_alone / cpu},
          {"read_ms", 1e3 * seconds.read / count},
          {"decode_ms", 1e3 * seconds.decode / count},
          {"preprocess_ms", 1e3 * seconds.preprocess / count},
          {"prepare_ms", 1e3 * seconds.waiting / count},
          {"encode_ms", 1e3 * seconds.encode / count},
          {"write_ms", 1e3 * seconds.write / count}};
      for (const auto& [name, value] : measured) figures[name].push_back(value);
    }
    for (const auto& [name, values] : figures) state.counters[name] = median(values);
    state.SetIterationTime(count / median(figures["indexed/s"]));
  }
  state.SetLabel(fmt::format("{} threads", available_processors()));
}

void compare_embeddings(benchmark::State& state, Inputs& inputs, const NamedSource& pictures,
                        const NamedSource& checkpoint) {
  const auto files = pictures.folder(inputs);
  if (!files) return state.SkipWithError(files.error().message.c_str());
  const auto folder = checkpoint.folder(inputs);
  if (!folder) return state.SkipWithError(folder.error().message.c_str());
  const auto encoder = load_encoder(*folder, {.precision = checkpoint.precision, .threads = 0});
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  const std::string keep = environment("SACCADE_BENCH_KEEP");
  for (auto unused : state) {
    std::vector<CollectionReader> collections;
    for (const bool fast : {false, true}) {
      IngestSettings settings;
      settings.fast_decode = fast;
      const fs::path made = keep.empty()
                                ? inputs.fresh()
                                : fs::path(keep) / fmt::format("{}-{}-{}", pictures.name, checkpoint.name,
                                                               fast ? "fast" : "exact");
      const auto indexed = index_into(made, *files, checkpoint.name, *folder, **encoder, true, settings);
      if (!indexed) return state.SkipWithError(indexed.error().message.c_str());
      auto opened = CollectionReader::open(made);
      if (!opened) return state.SkipWithError(opened.error().message.c_str());
      collections.push_back(*std::move(opened));
    }
    // Both have the same files in the same order.
    const auto exact = collections[0].rows();
    const auto fast = collections[1].rows();
    if (exact.rows() != fast.rows()) return state.SkipWithError("the collections have different items");
    int64_t different = 0;
    double least = 1;
    double sum = 0;
    for (int64_t row = 0; row < exact.rows(); ++row) {
      if (std::ranges::equal(exact.row(row), fast.row(row))) continue;
      double cosine = 0;
      for (int64_t c = 0; c < exact.columns(); ++c) cosine += double{exact(row, c)} * fast(row, c);
      ++different;
      least = std::min(least, cosine);
      sum += cosine;
    }
    state.counters["images"] = static_cast<double>(exact.rows());
    state.counters["different"] = static_cast<double>(different);
    state.counters["least"] = least;
    state.counters["mean"] = different > 0 ? sum / static_cast<double>(different) : 1;
    state.SetIterationTime(1);
  }
}

// JPEGs of one size, enough for a run to take some seconds.
struct Jpegs {
  const char* name;
  int width;
  int height;
  int count;         // for the smallest encoder
  int count_of_b32;  // for ViT-B/32
};
constexpr Jpegs kJpegs[] = {
    {"256x256", 256, 256, 2'000, 160}, {"1024x768", 1024, 768, 192, 160}, {"1632x1224", 1632, 1224, 80, 80}};

void compare_processes(benchmark::State& state, Inputs& inputs, const Jpegs& jpegs,
                       const NamedSource& checkpoint) {
  constexpr int kRounds = 5;
  const int count = checkpoint.name.starts_with("random_ViT-B32") ? jpegs.count_of_b32 : jpegs.count;
  const auto pictures = inputs.folder(fmt::format("{}-{}", jpegs.name, count), [&](const fs::path& path) {
    return make_photographs(path, count, jpegs.width, jpegs.height);
  });
  if (!pictures) return state.SkipWithError(pictures.error().message.c_str());
  const auto folder = checkpoint.folder(inputs);
  if (!folder) return state.SkipWithError(folder.error().message.c_str());
  const auto encoder = load_encoder(*folder, {.precision = checkpoint.precision, .threads = 0});
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  for (auto unused : state) {
    std::map<std::string, std::vector<double>> figures;
    for (int round = 0; round < kRounds; ++round) {
      std::array<double, 2> processor{};
      std::array<double, 2> clock{};
      // The order of the two alternates too.
      for (int turn = 0; turn < 2; ++turn) {
        const bool processes = (round + turn) % 2 == 0;
        const fs::path collection = inputs.fresh();
        const auto indexed =
            index_into(collection, *pictures, checkpoint.name, *folder, **encoder, processes);
        if (!indexed) return state.SkipWithError(indexed.error().message.c_str());
        processor[processes ? 1 : 0] = 1e3 * indexed->processor / count;
        clock[processes ? 1 : 0] = 1e3 * indexed->seconds / count;
        std::error_code ignored;
        fs::remove_all(collection, ignored);
      }
      if (round == 0) continue;  // memory and files come into the caches
      figures["without_cpu_ms"].push_back(processor[0]);
      figures["with_cpu_ms"].push_back(processor[1]);
      figures["cost_cpu"].push_back(processor[1] / processor[0] - 1);
      figures["without_ms"].push_back(clock[0]);
      figures["with_ms"].push_back(clock[1]);
      figures["cost"].push_back(clock[1] / clock[0] - 1);
    }
    for (const auto& [name, values] : figures) state.counters[name] = median(values);
    state.SetIterationTime(median(figures["with_ms"]) * count / 1e3);
  }
  state.SetLabel(fmt::format("{} threads", available_processors()));
}

void compare_large(benchmark::State& state, Inputs& inputs, const NamedSource& pictures,
                   const NamedSource& checkpoint) {
  constexpr int kRounds = 3;
  const auto photographs = pictures.folder(inputs);
  if (!photographs) return state.SkipWithError(photographs.error().message.c_str());
  const auto folder = checkpoint.folder(inputs);
  if (!folder) return state.SkipWithError(folder.error().message.c_str());
  const auto encoder = load_encoder(*folder, {.precision = checkpoint.precision, .threads = 0});
  if (!encoder) return state.SkipWithError(encoder.error().message.c_str());
  for (auto unused : state) {
    std::map<std::string, std::vector<double>> figures;
    double total = 0;
    for (int round = 0; round <= kRounds; ++round) {
      std::array<double, 2> rate{};
      for (int turn = 0; turn < 2; ++turn) {
        IngestSettings settings;
        settings.fast_decode = (round + turn) % 2 == 0;  // the order alternates too
        const fs::path collection = inputs.fresh();
        const auto indexed =
            index_into(collection, *photographs, checkpoint.name, *folder, **encoder, true, settings);
        if (!indexed) return state.SkipWithError(indexed.error().message.c_str());
        std::error_code ignored;
        fs::remove_all(collection, ignored);
        if (round == 0) continue;  // memory and files come into the caches
        const IngestReport::Seconds& seconds = indexed->report.seconds;
        const auto count = static_cast<double>(indexed->report.added);
        const std::string name = settings.fast_decode ? "fast_" : "exact_";
        rate[settings.fast_decode ? 1 : 0] = count / seconds.total;
        total += seconds.total;
        figures[name + "per_s"].push_back(count / seconds.total);
        figures[name + "cpu_ms"].push_back(1e3 * indexed->processor / count);
        figures[name + "busy"].push_back(indexed->processor / indexed->seconds / available_processors());
        figures[name + "read_ms"].push_back(1e3 * seconds.read / count);
        figures[name + "decode_ms"].push_back(1e3 * seconds.decode / count);
        figures[name + "resize_ms"].push_back(1e3 * seconds.preprocess / count);
        figures[name + "encode_ms"].push_back(1e3 * seconds.encode / count);
        figures[name + "wait_ms"].push_back(1e3 * seconds.waiting / count);
      }
      if (round > 0) figures["times"].push_back(rate[1] / rate[0]);
    }
    for (const auto& [name, values] : figures) state.counters[name] = median(values);
    state.SetIterationTime(total);
  }
  state.SetLabel(fmt::format("{} threads", available_processors()));
}

std::vector<NamedSource> checkpoints() {
  const fs::path root = test::kSourceDir;
  std::vector<NamedSource> found;
  if (const std::string own = environment("SACCADE_BENCH_CHECKPOINT"); !own.empty()) {
    found.push_back({"own", existing(own), Precision::kBf16});
  }
  std::error_code ignored;
  if (fs::exists(root / "models/starter/model.safetensors", ignored)) {
    found.push_back({"starter", existing(root / "models/starter"), Precision::kFp32});
  }
  found.push_back({"toy", existing(root / "tests/golden/clip-gelu"), Precision::kFp32});
  const FolderSource random_b32 = [](Inputs& inputs) {
    return inputs.folder("b32", [](const fs::path& path) { return write_random_clip(path, kVitB32); });
  };
  found.push_back({"random_ViT-B32", random_b32, Precision::kBf16});
  found.push_back({"random_ViT-B32_fp32", random_b32, Precision::kFp32});
  found.push_back({"random_ViT-B32_int8", random_b32, Precision::kInt8});
  return found;
}

std::vector<NamedSource> picture_folders() {
  std::vector<NamedSource> found;
  if (const std::string own = environment("SACCADE_BENCH_PICTURES"); !own.empty()) {
    found.push_back({"own", existing(own)});
  }
  const fs::path sample = fs::path(test::kSourceDir) / "build/sample";
  std::error_code ignored;
  if (fs::exists(sample, ignored)) found.push_back({"sample", existing(sample)});
  found.push_back({"500_made", [](Inputs& inputs) {
                     return inputs.folder("500",
                                          [](const fs::path& path) { return make_pictures(path, 500); });
                   }});
  return found;
}

// Returns width and height, four to three, of the large photographs: SACCADE_BENCH_MEGAPIXELS, from 1 to 100, or 12.
Result<std::pair<int, int>> large_sides() {
  const std::string wanted = environment("SACCADE_BENCH_MEGAPIXELS");
  char* end = nullptr;
  const double megapixels = wanted.empty() ? 12 : std::strtod(wanted.c_str(), &end);
  if ((end != nullptr && *end != 0) || !(megapixels >= 1 && megapixels <= 100)) {
    return fail(ErrorCode::kUsage, "SACCADE_BENCH_MEGAPIXELS is \"{}\", expected a number from 1 to 100",
                wanted);
  }
  const double height = std::sqrt(megapixels * 1e6 * 3 / 4);
  return std::pair(static_cast<int>(std::lround(height * 4 / 3)), static_cast<int>(std::lround(height)));
}

int run(int argc, char** argv) {
  auto scratch = ScratchFolder::make();
  if (!scratch) {
    std::fprintf(stderr, "index_bench: %s\n", scratch.error().message.c_str());
    return exit_code(scratch.error().code);
  }
  Inputs inputs(*std::move(scratch));
  const auto add = [&](const std::string& name, const NamedSource& pictures, const NamedSource& checkpoint,
                       bool check_memory) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&inputs, pictures, checkpoint, check_memory](benchmark::State& state) {
                                   index_pictures(state, inputs, pictures, checkpoint, check_memory);
                                 })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kSecond);
  };
  for (const NamedSource& pictures : picture_folders()) {
    for (const NamedSource& checkpoint : checkpoints()) {
      add("indexing/" + pictures.name + "/" + checkpoint.name, pictures, checkpoint, false);
    }
  }
  for (const Jpegs& jpegs : kJpegs) {
    for (const NamedSource& checkpoint : checkpoints()) {
      if (checkpoint.name != "starter" && checkpoint.name != "random_ViT-B32_fp32") continue;
      benchmark::RegisterBenchmark(fmt::format("processes/{}/{}", jpegs.name, checkpoint.name).c_str(),
                                   [&inputs, &jpegs, checkpoint](benchmark::State& state) {
                                     compare_processes(state, inputs, jpegs, checkpoint);
                                   })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kSecond);
    }
  }
  const auto sides = large_sides();
  if (!sides) {
    std::fprintf(stderr, "index_bench: %s\n", sides.error().message.c_str());
    return exit_code(sides.error().code);
  }
  const auto [width, height] = *sides;
  NamedSource large{fmt::format("{}x{}", width, height), [width = width, height = height](Inputs& made) {
                      return made.folder("large", [&](const fs::path& path) {
                        return make_photographs(path, 48, width, height);
                      });
                    }};
  if (const std::string own = environment("SACCADE_BENCH_PICTURES"); !own.empty())
    large = {"own", existing(own)};
  const NamedSource photographs{
      "photographs", [](Inputs& made) {
        return made.folder("photographs", [](const fs::path& path) { return make_photographs(path, 192); });
      }};
  for (const NamedSource& pictures : {photographs, large}) {
    IngestSettings settings;
    settings.fast_decode = pictures.name != photographs.name;
    for (const NamedSource& checkpoint : checkpoints()) {
      if (checkpoint.name == "toy") continue;  // the encoder's share is negligible
      benchmark::RegisterBenchmark(fmt::format("rates/{}/{}", pictures.name, checkpoint.name).c_str(),
                                   [&inputs, pictures, checkpoint, settings](benchmark::State& state) {
                                     compare_rates(state, inputs, pictures, checkpoint, settings);
                                   })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kSecond);
    }
  }
  const std::pair<const char*, decltype(&compare_large)> comparisons[] = {{"large", &compare_large},
                                                                          {"cosines", &compare_embeddings}};
  for (const auto& [name, compare] : comparisons) {
    for (const NamedSource& checkpoint : checkpoints()) {
      if (checkpoint.name == "toy") continue;
      benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", name, large.name, checkpoint.name).c_str(),
                                   [&inputs, large, checkpoint, compare = compare](benchmark::State& state) {
                                     compare(state, inputs, large, checkpoint);
                                   })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kSecond);
    }
  }
  const NamedSource many{"10000", [](Inputs& made) {
                           return made.folder(
                               "10000", [](const fs::path& path) { return make_small_jpegs(path, 10'000); });
                         }};
  for (const NamedSource& checkpoint : checkpoints()) {
    if (!checkpoint.name.starts_with("random_ViT-B32"))
      add("memory/10000_images/" + checkpoint.name, many, checkpoint, true);
  }
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
