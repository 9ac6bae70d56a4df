// Metrics of the server, in the text format of Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saccade::serve {

// Thread-safe.
class Metrics {
 public:
  // A request that was answered, by the route that answered it ("other" where none did).
  void answered(std::string_view route, int status, double seconds);
  // A request that was refused before any handler saw it: for want of room, too long, broken, too slow.
  void refused(int status);
  // Seconds of work in a stage: "queue", "fetch", "decode", "preprocess", "encode", "score", "write".
  void spent(std::string_view stage, double seconds);
  // Counts an event: "thumbnail hit".
  void happened(std::string_view event);

  // Current value to append to the counts, of a gauge or a counter.
  struct Value {
    std::string name;              // "saccade_models_bytes"; a counter's ends with "_total"
    std::string label = {};        // "model"; empty: none
    std::string label_value = {};  // any text
    double value = 0;
  };
  // Histogram of sizes: counts up to each of `bounds`, and the total.
  struct Sizes {
    std::string name;   // "saccade_encoder_batch_size"
    std::string label;  // "model"
    std::string label_value;
    std::span<const double> bounds;  // rising
    std::vector<int64_t> within;     // a bound
    int64_t count = 0;
    double sum = 0;
  };
  [[nodiscard]] std::string text(std::span<const Value> values, std::span<const Sizes> sizes = {}) const;

 private:
  static constexpr std::array<double, 12> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                     0.1,   0.25,   0.5,   1,    2.5,   10};
  struct Histogram {
    std::array<int64_t, kBounds.size()> within = {};
    int64_t count = 0;
    double sum = 0;
    void add(double value);
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  std::map<int, int64_t> refused_;
  std::map<std::string, int64_t, std::less<>> events_;
  std::map<std::string, Histogram, std::less<>> seconds_;  // by route
  std::map<std::string, Histogram, std::less<>> stages_;
};

}  // namespace saccade::serve
