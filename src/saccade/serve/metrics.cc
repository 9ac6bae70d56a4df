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

// A histogram's lines; who: its label.
void put_histogram(std::string_view name, const std::string& who, std::span<const double> bounds,
                   std::span<const int64_t> within, int64_t count, double sum, std::string& text) {
  for (size_t i = 0; i < bounds.size(); ++i) {
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, who, bounds[i], within[i]);
  }
  text += fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name,
                      who, count, sum);
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

void Metrics::refused(int status) {
  const std::lock_guard lock(mutex_);
  ++refused_[status];
}

void Metrics::happened(std::string_view event) {
  const std::lock_guard lock(mutex_);
  ++events_[std::string(event)];
}

void Metrics::spent(std::string_view stage, double seconds) {
  const std::lock_guard lock(mutex_);
  stages_[std::string(stage)].add(seconds);
}

std::string Metrics::text(std::span<const Value> values, std::span<const Sizes> sizes) const {
  const std::lock_guard lock(mutex_);
  std::string text = "# TYPE saccade_requests_total counter\n";
  for (const auto& [key, count] : requests_) {
    text += fmt::format("saccade_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", escaped(key.first),
                        key.second, count);
  }
  if (!refused_.empty()) text += "# TYPE saccade_refused_total counter\n";
  for (const auto& [status, count] : refused_) {
    text += fmt::format("saccade_refused_total{{status=\"{}\"}} {}\n", status, count);
  }
  if (!events_.empty()) text += "# TYPE saccade_events_total counter\n";
  for (const auto& [event, count] : events_) {
    text += fmt::format("saccade_events_total{{event=\"{}\"}} {}\n", escaped(event), count);
  }
  const auto histograms = [&](std::string_view name, std::string_view label, const auto& all) {
    text += fmt::format("# TYPE {} histogram\n", name);
    for (const auto& [value, histogram] : all) {
      put_histogram(name, fmt::format("{}=\"{}\"", label, escaped(value)), kBounds, histogram.within,
                    histogram.count, histogram.sum, text);
    }
  };
  histograms("saccade_request_seconds", "route", seconds_);
  histograms("saccade_stage_seconds", "stage", stages_);
  std::string_view named;
  for (const Sizes& one : sizes) {
    if (one.name != named) text += fmt::format("# TYPE {} histogram\n", one.name);
    named = one.name;
    put_histogram(one.name, fmt::format("{}=\"{}\"", one.label, escaped(one.label_value)), one.bounds,
                  one.within, one.count, one.sum, text);
  }
  for (const Value& value : values) {
    if (value.name != named) {
      text += fmt::format("# TYPE {} {}\n", value.name, value.name.ends_with("_total") ? "counter" : "gauge");
    }
    named = value.name;
    text += value.label.empty() ? fmt::format("{} {}\n", value.name, value.value)
                                : fmt::format("{}{{{}=\"{}\"}} {}\n", value.name, value.label,
                                              escaped(value.label_value), value.value);
  }
  return text;
}

}  // namespace saccade::serve
