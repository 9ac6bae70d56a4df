// Speed of an encoder: throughput, time per stage, and latency of one query.
//
// Stages run strictly one after the other and are timed separately, so that they add up to the total. Images
// are read, decoded, preprocessed and encoded one batch at a time. This is slower than `saccade index`, which
// decodes a batch while the one before is encoded. Every figure is measured several times, after warm-up
// passes that do not count. Throughputs are medians over the passes, latencies percentiles over all queries
// of all passes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/rows/embed.h"
#include "lab/eval/run/run.h"
#include "lab/eval/speed_metrics.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/progress.h"

namespace saccade::lab {

// Returns seconds since an arbitrary moment; monotonic.
using SpeedClock = std::function<double()>;
SpeedClock monotonic_clock();

struct SpeedOptions {
  Transparency transparency = Transparency::kWhite;
  int64_t batch = 32;      // batch size of the encoder for throughputs: images, texts or queries
  int64_t repeats = 5;     // passes that count
  int64_t warm_up = 1;     // passes in front of them that do not
  int64_t queries = 100;   // number of texts, and of images, measured one at a time in every pass
  int64_t gallery = 5000;  // size of the gallery
  int64_t answers = 10;    // number of answers per query
  // Number of candidates with late interaction. The best by the cosine with their rows' mean are rescored by
  // all their rows, as in search.
  int64_t candidates = 1000;
  bool benchmark = false;            // true to time a BenchmarkPass as well
  uint64_t seed = 0;                 // seed of the gallery's random embeddings
  DecoderPool* processes = nullptr;  // decoder processes; nullptr: threads decode (DecodeOptions)
  ProgressCallback progress = {};
  std::string progress_detail = {};
  std::stop_token stop = {};
};

Spread spread_of(std::vector<double> values);

struct StageTime {
  std::string name;
  Spread seconds;  // an item
};

struct Throughput {
  int64_t items = 0;  // a pass
  Spread per_second;  // by all stages together
  std::vector<StageTime> stages;
};

// Stopwatch for the stages of some work. begin() starts the time. end_stage(s) adds the time since the
// previous mark to stage s. Time between the last end_stage and the next begin() does not count.
class StageWatch {
 public:
  StageWatch(const SpeedClock& clock, size_t stages) : clock_(clock), seconds_(stages) {}
  void begin() { mark_ = clock_(); }
  void end_stage(size_t stage) {
    const double now = clock_();
    seconds_[stage] += now - mark_;
    mark_ = now;
  }
  [[nodiscard]] std::span<const double> seconds() const { return seconds_; }
  [[nodiscard]] double total() const;

 private:
  const SpeedClock& clock_;
  std::vector<double> seconds_;
  double mark_ = 0;
};

// Calls `pass` warm_up + repeats times; each call processes all `items`. The first error stops it.
Result<Throughput> measure_throughput(std::span<const std::string_view> stages, int64_t items,
                                      const SpeedOptions& options, const SpeedClock& clock,
                                      const std::function<Status(StageWatch&)>& pass);
// Calls `one` for items 0 to items - 1, warm_up + repeats times over.
Result<Latency> measure_latency(std::span<const std::string_view> stages, int64_t items,
                                const SpeedOptions& options, const SpeedClock& clock,
                                const std::function<Status(int64_t, StageWatch&)>& one);

// Inputs of the measurement: images and texts.
struct SpeedInputs {
  std::vector<ImageRef> images;
  std::vector<std::string> texts;
  std::vector<std::string> captions =
      {};  // the first kBenchmarkCaptions of each image: texts of a BenchmarkPass
};
inline constexpr int64_t kBenchmarkCaptions = 5;
// Returns the first `limit` images of a dataset (0: all), the first caption of each that has one, and its first captions; for
// a test of composition, each item's images and captions. Duplicate images are kept.
SpeedInputs speed_inputs(const Dataset& dataset, int64_t limit);

struct SpeedResult {
  int64_t batch = 0;
  Throughput images;      // read, decode, preprocess, encode; empty for encoders without images
  Throughput texts;       // tokenize, encode; empty without a tokenizer or texts
  Throughput queries;     // texts: tokenize, encode, score
  Latency text_latency;   // the same, one at a time
  Latency image_latency;  // read, decode, preprocess, encode, score
  std::optional<BenchmarkPass> benchmark;
  double mean_tokens = std::numeric_limits<double>::quiet_NaN();  // ids a text, start and end included
  int64_t texts_cut = 0;                                          // texts longer than the context
  int64_t gallery = 0;
  int64_t random_rows = 0;  // number of the gallery's images that are random embeddings
  bool late = false;        // scored by MaxSim
  double rows_per_image = 1;
  std::string images_sha256;  // as run.json has it; empty without images
};

// Measures throughputs and latencies of an encoder. `clock` is read only at the borders of stages. Errors: an
// unreadable image is an error that names it, since leaving it out would time something else; kUsage for
// options out of range; kLimit for a gallery of more than 32 GiB; kCancelled when asked to stop; the
// encoder's errors.
Result<SpeedResult> measure_speed(EncoderBackend& encoder, const SpeedInputs& inputs,
                                  const SpeedOptions& options, ThreadPool& pool, const SpeedClock& clock);

// Memory of this process, pages of mapped files included; 0 if the system does not tell.
struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_bytes = 0;  // since it began
};
ProcessMemory process_memory();

// Returns the result as runs hold it, without names, loading and memory.
SpeedRecord speed_record(const SpeedResult& result);
// Returns the measurement's protocol as sentences.
std::string speed_words(const SpeedOptions& options, int64_t limit);

}  // namespace saccade::lab
