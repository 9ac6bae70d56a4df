// How fast an encoder is, what of it takes how long, and how long one query waits.
//
// Stages run strictly one after the other and are timed apart, so that they add up to the
// whole: pictures are read, decoded, preprocessed and encoded a batch at a time, which is
// slower than `saccade index`, where a batch is decoded while the one before is encoded.
// Every figure is measured several times, after passes that are left out; throughputs are
// medians over the passes, latencies percentiles over all queries of all passes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "lab/data/dataset.h"
#include "lab/eval/rows/embed.h"
#include "lab/eval/run/run.h"
#include "saccade/model/encoder.h"
#include "saccade/image/image.h"

namespace saccade::lab {

// Seconds since some moment; never goes back.
using SpeedClock = std::function<double()>;
SpeedClock monotonic_clock();

struct SpeedOptions {
  Transparency transparency = Transparency::kWhite;
  int64_t batch = 32;      // pictures, texts or queries the encoder takes at a time, for throughputs
  int64_t repeats = 5;     // passes that count
  int64_t warm_up = 1;     // passes in front of them that do not
  int64_t queries = 100;   // texts, and pictures, that are asked one at a time in every pass
  int64_t gallery = 5000;  // pictures a query is scored against
  int64_t answers = 10;    // that are found for it
  // Late interaction: the best by the cosine with their
  // rows' mean are scored by all their rows, as in search.
  int64_t candidates = 1000;
  uint64_t seed = 0;                 // of the gallery's random rows
  DecoderPool* processes = nullptr;  // that decode the pictures; nullptr: the threads do (DecodeOptions)
  ProgressCallback progress = {};
  std::string progress_detail = {};
  std::stop_token stop = {};
};

// The median over passes, and the smallest and largest; NaN of none.
struct Spread {
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
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

// Of single items, in milliseconds. Percentiles with linear interpolation; NaN where fewer than one sample is
// expected beyond (p95 of fewer than 20, p99 of fewer than 100).
struct Latency {
  int64_t samples = 0;
  double p50 = std::numeric_limits<double>::quiet_NaN();
  double p95 = std::numeric_limits<double>::quiet_NaN();
  double p99 = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::pair<std::string, double>> stages;  // each stage's own median
};

// Times of the stages of a stretch of work. begin() starts the time, end_stage(s) adds what has passed since
// the mark before to stage s; what lies between the last end_stage and the next begin() does not count.
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

// Calls `pass` warm_up + repeats times; each works through all `items`. The first error ends it.
Result<Throughput> measure_throughput(std::span<const std::string_view> stages, int64_t items,
                                      const SpeedOptions& options, const SpeedClock& clock,
                                      const std::function<Status(StageWatch&)>& pass);
// Calls `one` for items 0 to items - 1, warm_up + repeats times over.
Result<Latency> measure_latency(std::span<const std::string_view> stages, int64_t items,
                                const SpeedOptions& options, const SpeedClock& clock,
                                const std::function<Status(int64_t, StageWatch&)>& one);

// What is measured with: pictures, and texts as they are.
struct SpeedInputs {
  std::vector<ImageRef> images;
  std::vector<std::string> texts;
};
// The first `limit` pictures of a dataset (0: all) and the first caption of each that has one; of a test of
// composition each item's pictures and captions. Pictures that occur twice are taken twice.
SpeedInputs speed_inputs(const Dataset& dataset, int64_t limit);

struct SpeedResult {
  int64_t batch = 0;
  Throughput images;   // read, decode, preprocess, encode; without items where the encoder reads no pictures
  Throughput texts;    // tokenize, encode; without items where there is no tokenizer, or no text
  Throughput queries;  // texts: tokenize, encode, score
  Latency text_latency;                                           // the same, one at a time
  Latency image_latency;                                          // read, decode, preprocess, encode, score
  double mean_tokens = std::numeric_limits<double>::quiet_NaN();  // ids a text, start and end included
  int64_t texts_cut = 0;                                          // texts longer than the context
  int64_t gallery = 0;
  int64_t random_rows = 0;  // pictures of the gallery that are random rows
  bool late = false;        // scored by MaxSim
  double rows_per_image = 1;
  std::string pictures_sha256;  // as run.json has it; empty without pictures
};

// Throughputs and latencies of an encoder. A picture that cannot be read is an error, which names it: without
// it something else would be timed. kUsage for options out of range, kLimit for a gallery of more than 32
// GiB, kCancelled when asked to stop; else the encoder's errors. `clock` is read at the stages' borders only.
Result<SpeedResult> measure_speed(EncoderBackend& encoder, const SpeedInputs& inputs, const SpeedOptions& options,
                                  ThreadPool& pool, const SpeedClock& clock);

// What this process has in memory, pages of mapped files included; 0 where the system does not say.
struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t peak_bytes = 0;  // since it began
};
ProcessMemory process_memory();

// The parts of a line of metrics.json that speak of speed (docs/runs.md).
Json speed_json(const SpeedResult& result);
// How all of it was measured, in sentences.
std::string speed_words(const SpeedOptions& options, int64_t limit);

}  // namespace saccade::lab
