// metrics.json of runs of speed (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

// Median, minimum and maximum over passes; NaN without passes.
struct Spread {
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(value, low, high); }
};

// Stages of some work, each with its time.
using StageTimes = std::vector<std::pair<std::string, double>>;

// Latencies of single items, in milliseconds. Percentiles use linear interpolation. They are NaN if fewer
// than one sample is expected beyond (p95 of fewer than 20, p99 of fewer than 100).
struct Latency {
  int64_t samples = 0;
  double p50 = std::numeric_limits<double>::quiet_NaN();
  double p95 = std::numeric_limits<double>::quiet_NaN();
  double p99 = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  StageTimes stages;  // each stage's own median
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(p50, p95, p99, max, samples, stages); }
};

// One pass over everything, as the benchmark of seven models times it. Its QPS is the number of first captions divided by one
// time: preprocessing and encoding of all images, encoding of the first captions and of all captions, and all scores of both
// directions. Reading and decoding are timed, but not in the rate.
struct BenchmarkPass {
  int64_t images = 0;
  int64_t queries = 0;  // first captions
  int64_t texts = 0;    // the first five captions of each image
  double queries_per_s = std::numeric_limits<double>::quiet_NaN();
  StageTimes seconds;  // of the whole pass
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(images, queries, texts, queries_per_s, seconds);
  }
};

// A checkpoint in one precision. A figure that was not measured is nullopt or NaN.
struct SpeedRecord {
  std::string dataset;
  std::string model;
  std::string precision;
  int64_t batch = 0;
  int64_t images = 0;  // a pass
  int64_t texts = 0;
  std::optional<Spread> images_per_s;
  std::optional<Spread> texts_per_s;
  std::optional<Spread> queries_per_s;
  std::optional<StageTimes> stages;  // of images, seconds each
  std::optional<StageTimes> text_stages;
  std::optional<StageTimes> query_stages;
  std::optional<Latency> text_latency;
  std::optional<Latency> image_latency;
  std::optional<BenchmarkPass> benchmark;
  double mean_tokens = std::numeric_limits<double>::quiet_NaN();
  int64_t texts_cut = 0;
  std::string scored_by;  // "cosine" or "maxsim"
  double rows_per_image = 1;
  int64_t gallery = 0;
  int64_t random_rows = 0;
  double load_s = 0;
  int64_t before_load_bytes = 0;  // resident memory
  int64_t after_load_bytes = 0;
  int64_t peak_load_bytes = 0;
  int64_t peak_bytes = 0;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, precision, batch, images, texts, images_per_s, texts_per_s, queries_per_s,
                   stages, text_stages, query_stages);
    field.object("latency_ms", [&](auto& in) {
      in("text", self.text_latency);
      in("image", self.image_latency);
    });
    field.if_set("benchmark", self.benchmark);
    SACCADE_FIELDS(mean_tokens, texts_cut, scored_by, rows_per_image, gallery, random_rows, load_s);
    field.object("memory", [&](auto& in) {
      in.added("before_load_bytes", self.before_load_bytes);
      in.added("after_load_bytes", self.after_load_bytes);
      in.added("peak_load_bytes", self.peak_load_bytes);
      in.added("peak_bytes", self.peak_bytes);
    });
  }
};

struct SpeedMetrics {
  static constexpr std::string_view kKind = "speed";
  std::vector<SpeedRecord> results;
  static void fields(auto& self, auto& field) { field("results", self.results); }
};

}  // namespace saccade::lab
