#include "lab/eval/figures/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lab/eval/figures/holm.h"
#include "lab/eval/figures/resampling.h"
#include "saccade/core/random.h"

namespace saccade::lab {

void draw_clusters(uint64_t seed, int64_t resample, std::span<int32_t> times) {
  SplitMix random(seed, resample);
  std::ranges::fill(times, 0);
  const auto clusters = static_cast<uint32_t>(times.size());
  for (uint32_t i = 0; i < clusters; ++i) ++times[random.below(clusters)];
}

namespace {

// The queries of a median figure, ascending by value.
struct SortedColumn {
  std::vector<double> values;
  std::vector<int32_t> clusters;
};

SortedColumn sort_column(const ClusteredSample& sample, int64_t column) {
  std::vector<int64_t> order(static_cast<size_t>(sample.queries()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int64_t a, int64_t b) { return sample.values(a, column) < sample.values(b, column); });
  SortedColumn sorted;
  for (const int64_t q : order) {
    sorted.values.push_back(sample.values(q, column));
    sorted.clusters.push_back(static_cast<int32_t>(sample.cluster[static_cast<size_t>(q)]));
  }
  return sorted;
}

// Returns the median with each query weighted by its cluster's count; the mean of the middle two if `total`
// is even.
double weighted_median(const SortedColumn& column, std::span<const int32_t> times, int64_t total) {
  if (total == 0) return Figure::kNone;
  const int64_t lower = (total - 1) / 2;
  const int64_t upper = total / 2;
  double at_lower = Figure::kNone;
  int64_t seen = 0;
  for (size_t i = 0; i < column.values.size(); ++i) {
    seen += times[static_cast<size_t>(column.clusters[i])];
    if (at_lower != at_lower && seen > lower) at_lower = column.values[i];
    if (seen > upper) return (at_lower + column.values[i]) / 2;
  }
  return Figure::kNone;
}

// Sums over each cluster's queries.
struct ClusterSums {
  Matrix<double> sums;         // [clusters, means]
  std::vector<int64_t> sizes;  // queries
};

ClusterSums sum_clusters(const ClusteredSample& sample) {
  ClusterSums result{Matrix<double>(sample.clusters, sample.values.columns()),
                     std::vector<int64_t>(static_cast<size_t>(sample.clusters))};
  for (int64_t q = 0; q < sample.queries(); ++q) {
    const int64_t c = sample.cluster[static_cast<size_t>(q)];
    ++result.sizes[static_cast<size_t>(c)];
    for (int64_t f = 0; f < sample.values.columns(); ++f) result.sums(c, f) += sample.values(q, f);
  }
  return result;
}

// Computes all figures with cluster c counted times[c] times.
void weigh(const ClusterSums& clusters, std::span<const SortedColumn> medians, std::span<const int32_t> times,
           std::span<double> figures) {
  const auto means = static_cast<size_t>(clusters.sums.columns());
  std::ranges::fill(figures, 0.0);
  int64_t total = 0;
  for (size_t c = 0; c < times.size(); ++c) {
    if (times[c] == 0) continue;
    total += times[c] * clusters.sizes[c];
    const double weight = times[c];
    const double* sums = clusters.sums.data() + c * means;
    for (size_t f = 0; f < means; ++f) figures[f] += weight * sums[f];
  }
  for (size_t f = 0; f < means; ++f) {
    figures[f] = total == 0 ? Figure::kNone : figures[f] / static_cast<double>(total);
  }
  for (size_t f = 0; f < medians.size(); ++f) figures[means + f] = weighted_median(medians[f], times, total);
}

double normal_below(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

// Returns the resamples that have the figure, ascending.
std::vector<double> sorted_column(const Matrix<double>& rows, int64_t column) {
  std::vector<double> values;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    if (rows(r, column) == rows(r, column)) values.push_back(rows(r, column));
  }
  std::ranges::sort(values);
  return values;
}

// Computes the acceleration, Efron 1987, equation 6.6: a sixth of the skewness of the jackknife's influence
// values.
double acceleration(const Matrix<double>& left_out, int64_t column) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t c = 0; c < left_out.rows(); ++c) {
    if (left_out(c, column) != left_out(c, column)) continue;
    sum += left_out(c, column);
    ++count;
  }
  if (count == 0) return 0;
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  double cubes = 0;
  for (int64_t c = 0; c < left_out.rows(); ++c) {
    if (left_out(c, column) != left_out(c, column)) continue;
    const double influence = mean - left_out(c, column);
    squares += influence * influence;
    cubes += influence * influence * influence;
  }
  return squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
}

bool is_share(std::string_view name) {
  return name != kMeanRank && name != kGain && name != kMeanCosine && name != kReferenceCosine;
}

// Numbers of resamples below a value and up to it. Sums of shares of the same value differ in their last bits, so
// that resamples that near count as equal.
struct Places {
  std::ptrdiff_t below = 0;
  std::ptrdiff_t up_to = 0;
};

double rounding_of(double value) {
  return 1e-12 * std::max(1.0, std::abs(value));
}

Places places_of(double value, std::span<const double> sorted) {
  const double rounding = rounding_of(value);
  return {std::ranges::lower_bound(sorted, value - rounding) - sorted.begin(),
          std::ranges::upper_bound(sorted, value + rounding) - sorted.begin()};
}

void add_intervals(Figure& figure, std::span<const double> sorted, double accelerate, double confidence) {
  const double tail = (1 - confidence) / 2;
  figure.low = quantile(sorted, tail);
  figure.high = quantile(sorted, 1 - tail);
  figure.bca_low = figure.low;
  figure.bca_high = figure.high;
  const auto [below, up_to] = places_of(figure.value, sorted);
  const double share = static_cast<double>(below + up_to) / (2.0 * static_cast<double>(sorted.size()));
  if (!(share > 0 && share < 1)) return;  // all on one side: no correction there is
  const double bias = normal_quantile(share);
  const auto corrected = [&](double z) {
    return normal_below(bias + (bias + z) / (1 - accelerate * (bias + z)));
  };
  figure.bca_low = quantile(sorted, corrected(normal_quantile(tail)));
  figure.bca_high = quantile(sorted, corrected(normal_quantile(1 - tail)));
}

}  // namespace

// Uses bisection.
double normal_quantile(double p) {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (normal_below(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval wilson_interval(double share, int64_t trials, double confidence) {
  const double z = normal_quantile(1 - (1 - confidence) / 2);
  const auto n = static_cast<double>(trials);
  const double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

std::string three_digits(double value, Sign sign) {
  if (std::abs(value) < 0.0005) value = 0;  // "-0.000" too
  return sign == Sign::kBoth ? fmt::format("{:+.3f}", value) : fmt::format("{:.3f}", value);
}

std::string interval_text(const Figure& figure, Sign sign) {
  if (!std::isfinite(figure.low)) return three_digits(figure.value, sign);
  // Resampling is uninformative for a share of 0 or 1.
  for (const double end : {figure.wilson_high, figure.wilson_low}) {
    if (!std::isfinite(end)) continue;
    return fmt::format("{} [Wilson {}]", three_digits(figure.value, sign), three_digits(end, sign));
  }
  return fmt::format("{} [{}, {}]", three_digits(figure.value, sign), three_digits(figure.low, sign),
                     three_digits(figure.high, sign));
}

double quantile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return Figure::kNone;
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

Estimates estimate(const ClusteredSample& sample, const BootstrapOptions& options, ThreadPool& pool) {
  Estimates result;
  result.names = sample.mean_names;
  result.names.insert(result.names.end(), sample.median_names.begin(), sample.median_names.end());
  const auto figures = static_cast<int64_t>(result.names.size());
  const ClusterSums clusters = sum_clusters(sample);
  result.trials = std::ranges::count_if(clusters.sizes, [](int64_t size) { return size > 0; });
  std::vector<SortedColumn> medians;
  for (const int64_t column : sample.median_columns) medians.push_back(sort_column(sample, column));

  result.value.resize(static_cast<size_t>(figures));
  const std::vector<int32_t> once(static_cast<size_t>(sample.clusters), 1);
  weigh(clusters, medians, once, result.value);

  result.resampled = Matrix<double>(options.resamples, figures);
  // With one cluster, every resample equals the sample and says nothing about its uncertainty.
  const bool several = sample.clusters > 1;
  if (!several) std::ranges::fill(result.resampled.values(), Figure::kNone);
  pool.parallel_for(several ? options.resamples : 0, 8, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> times(static_cast<size_t>(sample.clusters));
    for (int64_t i = begin; i < end && !options.stop.stop_requested(); ++i) {
      draw_clusters(options.seed, i, times);
      weigh(clusters, medians, times, result.resampled.row(i));
    }
  });

  const auto means = static_cast<int64_t>(sample.mean_names.size());
  result.left_out = Matrix<double>(sample.clusters, means);
  for (int64_t c = 0; c < sample.clusters; ++c) {
    const int64_t left = sample.queries() - clusters.sizes[static_cast<size_t>(c)];
    for (int64_t f = 0; f < means; ++f) {
      const double sum = result.value[static_cast<size_t>(f)] * static_cast<double>(sample.queries());
      result.left_out(c, f) =
          left == 0 ? Figure::kNone : (sum - clusters.sums(c, f)) / static_cast<double>(left);
    }
  }
  return result;
}

Result<Estimates> mean_over_trainings(std::span<const Estimates> trainings, uint64_t seed) {
  if (trainings.empty()) return fail(ErrorCode::kUsage, "no training to take the mean of");
  const Estimates& first = trainings.front();
  for (const Estimates& other : trainings) {
    if (other.names != first.names || other.resampled.rows() != first.resampled.rows() ||
        other.left_out.rows() != first.left_out.rows()) {
      return fail(ErrorCode::kMismatch, "trainings measured over {} and {} clusters have no mean",
                  first.left_out.rows(), other.left_out.rows());
    }
  }
  const auto count = static_cast<double>(trainings.size());
  Estimates mean;
  mean.names = first.names;
  mean.trials = first.trials;
  mean.value.assign(first.value.size(), 0);
  mean.resampled = Matrix<double>(first.resampled.rows(), first.resampled.columns());
  mean.left_out = Matrix<double>(first.left_out.rows(), first.left_out.columns());
  for (const Estimates& training : trainings) {
    for (size_t f = 0; f < mean.value.size(); ++f) mean.value[f] += training.value[f] / count;
    for (size_t i = 0; i < mean.left_out.values().size(); ++i) {
      mean.left_out.values()[i] += training.left_out.values()[i] / count;
    }
  }
  SplitMix random(seed, -1);  // parts of other numbers draw the images
  for (int64_t r = 0; r < mean.resampled.rows(); ++r) {
    for (size_t draw = 0; draw < trainings.size(); ++draw) {
      const auto which = random.below(static_cast<uint32_t>(trainings.size()));
      const auto row = trainings[which].resampled.row(r);
      for (size_t f = 0; f < row.size(); ++f) mean.resampled.row(r)[f] += row[f] / count;
    }
  }
  return mean;
}

Figure mean_figure(const ClusteredValues& values, int64_t clusters, const BootstrapOptions& options,
                   ThreadPool& pool, const char* name) {
  if (values.values.empty()) return {};
  ClusteredSample sample;
  sample.mean_names = {name};
  sample.values = Matrix<double>(std::ssize(values.values), 1);
  std::ranges::copy(values.values, sample.values.values().begin());
  sample.cluster = values.cluster;
  sample.clusters = clusters;
  return figures_of(estimate(sample, options, pool), options.confidence).front();
}

std::vector<Figure> figures_of(const Estimates& estimates, double confidence) {
  std::vector<Figure> figures;
  for (size_t f = 0; f < estimates.names.size(); ++f) {
    Figure& figure = figures.emplace_back();
    figure.name = estimates.names[f];
    figure.value = estimates.value[f];
    const auto column = static_cast<int64_t>(f);
    const std::vector<double> sorted = sorted_column(estimates.resampled, column);
    if (sorted.empty()) continue;
    const bool mean = column < estimates.left_out.columns();
    add_intervals(figure, sorted, mean ? acceleration(estimates.left_out, column) : 0, confidence);
    if (!mean || estimates.trials == 0 || !is_share(figure.name)) continue;
    const auto throughout = [&](double share) {
      return std::abs(figure.value - share) <= rounding_of(1) && figure.high - figure.low <= rounding_of(1);
    };
    if (throughout(0)) figure.wilson_high = wilson_interval(0, estimates.trials, confidence).high;
    if (throughout(1)) figure.wilson_low = wilson_interval(1, estimates.trials, confidence).low;
  }
  return figures;
}

Result<std::vector<Difference>> paired_differences(const Estimates& a, const Estimates& b,
                                                   double confidence) {
  if (a.names != b.names || a.resampled.rows() != b.resampled.rows() ||
      a.left_out.rows() != b.left_out.rows()) {
    return fail(ErrorCode::kMismatch,
                "figures over {} clusters and {} resamples cannot be paired with such over {} and {}",
                a.left_out.rows(), a.resampled.rows(), b.left_out.rows(), b.resampled.rows());
  }
  Estimates between;
  between.names = a.names;
  for (size_t f = 0; f < a.value.size(); ++f) between.value.push_back(a.value[f] - b.value[f]);
  const auto subtract = [](const Matrix<double>& x, const Matrix<double>& y) {
    Matrix<double> result(x.rows(), x.columns());
    for (size_t i = 0; i < result.values().size(); ++i) result.values()[i] = x.values()[i] - y.values()[i];
    return result;
  };
  between.resampled = subtract(a.resampled, b.resampled);
  between.left_out = subtract(a.left_out, b.left_out);
  std::vector<Difference> differences;
  const std::vector<Figure> figures = figures_of(between, confidence);
  for (size_t f = 0; f < figures.size(); ++f) {
    Difference& difference = differences.emplace_back();
    difference.figure = figures[f];
    const std::vector<double> sorted = sorted_column(between.resampled, static_cast<int64_t>(f));
    if (sorted.empty()) continue;
    const auto [below, up_to] = places_of(0, sorted);
    const auto least = std::min(up_to, static_cast<std::ptrdiff_t>(sorted.size()) - below);
    difference.p_value =
        std::min(1.0, 2.0 * static_cast<double>(1 + least) / static_cast<double>(1 + sorted.size()));
    difference.significant = is_significant(difference.p_value, confidence);
  }
  return differences;
}

}  // namespace saccade::lab
