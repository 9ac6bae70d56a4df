#include "saccade/serve/metrics.h"

#include <fmt/format.h>

namespace saccade::serve {
namespace {

// A label's value, as the format wants it.
std::string escaped(std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') value += '\\';
    value += c;
  }
  return value;
}

}  // namespace

void Metrics::Histogram::add(double value) {
  for (size_t i = 0; i < kBounds.size(); ++i) {
    if (value <= kBounds[i]) ++within[i];
  }
  ++count;
  sum += value;
}

void Metrics::answered(std::string_view route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(route), status}];
  seconds_[std::string(route)].add(seconds);
}

void Metrics::spent(std::string_view stage, double seconds) {
  const std::lock_guard lock(mutex_);
  stages_[std::string(stage)].add(seconds);
}

std::string Metrics::text(const std::map<std::string, double>& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string text = "# TYPE saccade_requests_total counter\n";
  for (const auto& [key, count] : requests_) {
    text += fmt::format("saccade_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", escaped(key.first),
                        key.second, count);
  }
  const auto histograms = [&](std::string_view name, std::string_view label, const auto& all) {
    text += fmt::format("# TYPE {} histogram\n", name);
    for (const auto& [value, histogram] : all) {
      const std::string who = fmt::format("{}=\"{}\"", label, escaped(value));
      for (size_t i = 0; i < kBounds.size(); ++i) {
        text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, who, kBounds[i], histogram.within[i]);
      }
      text += fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n",
                          name, who, histogram.count, histogram.sum);
    }
  };
  histograms("saccade_request_seconds", "route", seconds_);
  histograms("saccade_stage_seconds", "stage", stages_);
  for (const auto& [name, value] : gauges) text += fmt::format("{} {}\n", name, value);
  return text;
}

}  // namespace saccade::serve
