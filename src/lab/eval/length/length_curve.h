// Curves of R@1 over lengths, computed from the queries' hits: figures, intervals, effective lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"

namespace saccade::lab {

// Returns the first place at which the curve reaches `share` of its largest value. Returns `nullopt` if the
// curve is 0 throughout, empty, or NaN somewhere.
std::optional<size_t> effective_place(std::span<const double> curve, double share);

struct EffectiveLength {
  std::optional<int64_t> value;  // nullopt: no query was ever found
  // Interval over resamples, each with a curve and an effective length of its own; `nullopt` without
  // resamples.
  std::optional<int64_t> low;
  std::optional<int64_t> high;
  // True if the value is the largest measured length. With longer texts the model might do better still.
  bool at_end = false;
};

// R@1 at one length.
struct LengthPoint {
  int64_t n = 0;
  Figure r1;                    // over all images, resampled by image
  std::vector<double> subsets;  // in each subset of images
};

struct LengthCurve {
  std::vector<LengthPoint> points;
  EffectiveLength effective;
  // Effective length of the subsets' mean curve; resampled by subset and, within each, by image.
  EffectiveLength subset_effective;
  std::vector<std::optional<int64_t>> subset_values;  // values of each subset's own curve
  // R@1 of chance, and whether the largest R@1 is above it. The interval allows for having picked the largest
  // of all points (Bonferroni). If it is not above chance, the effective length is that of noise.
  double chance = 0;
  bool above_chance = false;
};

using LengthCurves = ByDirection<LengthCurve>;

// Hits at rank 1: whether each query had a relevant answer first, at every length. One column per length, one
// cluster per image.
struct HitTable {
  std::vector<int64_t> lengths;  // ascending
  ClusteredSample sample;        // values: [queries, lengths], 1 or 0
  double chance = 0;             // R@1 of guessing
};

// The hits of one subset of images, summed over each image's queries.
struct SubsetHits {
  Matrix<double> sums;          // [images of the subset, lengths]
  std::vector<int64_t> counts;  // queries of each image
};

// Computes points, effective length and their intervals. Cost: that of `estimate`, and resamples * subsets *
// images per subset * lengths.
LengthCurve length_curve(const HitTable& table, std::span<const SubsetHits> subsets, double share,
                         const BootstrapOptions& options, ThreadPool& pool);

// Returns the effective length of a curve, with an interval from its resamples: [resamples, lengths].
EffectiveLength effective_length(std::span<const int64_t> lengths, std::span<const double> curve,
                                 const Matrix<double>& resampled, double share, double confidence);

}  // namespace saccade::lab
