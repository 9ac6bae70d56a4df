#include "lab/eval/length/length_curve.h"

#include <algorithm>
#include <cmath>

#include "saccade/core/random.h"

namespace saccade::lab {
namespace {

std::vector<double> mean_curve(const SubsetHits& subset) {
  std::vector<double> curve(static_cast<size_t>(subset.sums.columns()));
  double count = 0;
  for (int64_t i = 0; i < subset.sums.rows(); ++i) {
    for (size_t p = 0; p < curve.size(); ++p) curve[p] += subset.sums.row(i)[p];
    count += static_cast<double>(subset.counts[static_cast<size_t>(i)]);
  }
  for (double& value : curve) value /= count;
  return curve;
}

// Adds the curve of one resample of the subset's images to `sum`.
void add_resample(const SubsetHits& subset, SplitMix& random, std::vector<int32_t>& times,
                  std::vector<double>& curve, std::span<double> sum) {
  const auto images = static_cast<uint32_t>(subset.sums.rows());
  times.assign(images, 0);
  for (uint32_t i = 0; i < images; ++i) ++times[random.below(images)];
  curve.assign(sum.size(), 0.0);
  double count = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 0) continue;
    const auto row = subset.sums.row(static_cast<int64_t>(i));
    for (size_t p = 0; p < curve.size(); ++p) curve[p] += times[i] * row[p];
    count += times[i] * static_cast<double>(subset.counts[i]);
  }
  for (size_t p = 0; p < curve.size(); ++p) sum[p] += curve[p] / count;
}

// Resamples the subsets' mean curve. Both subsets and, within each, images are drawn anew: [resamples,
// lengths].
Matrix<double> resample_subsets(std::span<const SubsetHits> subsets, const BootstrapOptions& options,
                                ThreadPool& pool) {
  const int64_t lengths = subsets.front().sums.columns();
  Matrix<double> resampled(options.resamples, lengths);
  pool.parallel_for(options.resamples, 8, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> times;
    std::vector<double> curve;
    for (int64_t r = begin; r < end; ++r) {
      SplitMix random(options.seed, r);
      const auto row = resampled.row(r);
      for (size_t s = 0; s < subsets.size(); ++s) {
        const auto& subset = subsets[random.below(static_cast<uint32_t>(subsets.size()))];
        add_resample(subset, random, times, curve, row);
      }
      for (double& value : row) value /= static_cast<double>(subsets.size());
    }
  });
  return resampled;
}

// Returns true if the largest figure is above `chance` in nearly all resamples. The confidence is split among
// all figures from which the largest was picked.
bool is_above(double chance, const Estimates& estimates, double confidence) {
  const auto largest = std::ranges::max_element(estimates.value);
  if (largest == estimates.value.end() || estimates.resampled.rows() == 0) return false;
  const int64_t column = largest - estimates.value.begin();
  std::vector<double> drawn;
  for (int64_t r = 0; r < estimates.resampled.rows(); ++r) drawn.push_back(estimates.resampled(r, column));
  std::ranges::sort(drawn);
  const double tail = (1 - confidence) / 2 / static_cast<double>(estimates.value.size());
  return drawn[static_cast<size_t>(std::floor(tail * static_cast<double>(drawn.size() - 1)))] > chance;
}

std::optional<int64_t> length_at(std::span<const int64_t> lengths, const std::optional<size_t>& place) {
  return place ? std::optional(lengths[*place]) : std::nullopt;
}

}  // namespace

std::optional<size_t> effective_place(std::span<const double> curve, double share) {
  if (std::ranges::any_of(curve, [](double value) { return std::isnan(value); })) return std::nullopt;
  const auto largest = std::ranges::max_element(curve);
  if (largest == curve.end() || *largest <= 0) return std::nullopt;
  // R@1 values are quotients of whole numbers, so smaller differences are rounding (0.95 * 0.4 against 0.38).
  const double least = share * *largest * (1 - 1e-12);
  return static_cast<size_t>(std::ranges::find_if(curve, [&](double value) { return value >= least; }) -
                             curve.begin());
}

EffectiveLength effective_length(std::span<const int64_t> lengths, std::span<const double> curve,
                                 const Matrix<double>& resampled, double share, double confidence) {
  EffectiveLength result;
  const auto place = effective_place(curve, share);
  result.value = length_at(lengths, place);
  result.at_end = place && *place + 1 == lengths.size();
  std::vector<int64_t> drawn;
  for (int64_t r = 0; r < resampled.rows(); ++r) {
    if (const auto n = length_at(lengths, effective_place(resampled.row(r), share))) drawn.push_back(*n);
  }
  // An interval over only those resamples that found something would leave out what it should show.
  if (!result.value || drawn.empty() || static_cast<int64_t>(drawn.size()) < resampled.rows()) return result;
  // The values are lengths of the grid, so there is no interpolation.
  std::ranges::sort(drawn);
  const double last = static_cast<double>(drawn.size() - 1);
  const double tail = (1 - confidence) / 2;
  result.low = drawn[static_cast<size_t>(std::floor(tail * last))];
  result.high = drawn[static_cast<size_t>(std::ceil((1 - tail) * last))];
  return result;
}

LengthCurve length_curve(const HitTable& table, std::span<const SubsetHits> subsets, double share,
                         const BootstrapOptions& options, ThreadPool& pool) {
  LengthCurve curve;
  const Estimates estimates = estimate(table.sample, options, pool);
  std::vector<Figure> figures = figures_of(estimates, options.confidence);
  for (size_t p = 0; p < table.lengths.size(); ++p) {
    curve.points.push_back({.n = table.lengths[p], .r1 = std::move(figures[p]), .subsets = {}});
  }
  curve.effective =
      effective_length(table.lengths, estimates.value, estimates.resampled, share, options.confidence);
  curve.chance = table.chance;
  curve.above_chance = is_above(table.chance, estimates, options.confidence);
  if (subsets.empty()) return curve;

  std::vector<double> mean(table.lengths.size());
  for (const SubsetHits& subset : subsets) {
    const std::vector<double> values = mean_curve(subset);
    for (size_t p = 0; p < values.size(); ++p) {
      curve.points[p].subsets.push_back(values[p]);
      mean[p] += values[p] / static_cast<double>(subsets.size());
    }
    curve.subset_values.push_back(length_at(table.lengths, effective_place(values, share)));
  }
  curve.subset_effective = effective_length(table.lengths, mean, resample_subsets(subsets, options, pool),
                                            share, options.confidence);
  return curve;
}

}  // namespace saccade::lab
