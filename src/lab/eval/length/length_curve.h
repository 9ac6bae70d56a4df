// Curves of R@1 over lengths, from which queries found their
// answers: figures, intervals, effective lengths. For length.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/eval/length/length.h"

namespace saccade::lab {

// Which queries had a right answer in the first place, at
// every length. One column a length, and one cluster an image.
struct HitTable {
  std::vector<int64_t> lengths;  // ascending
  ClusteredSample sample;        // values: [queries, lengths], 1 or 0
  double chance = 0;             // R@1 of guessing
};

// The same of one subset of images, summed over each image's queries.
struct SubsetHits {
  Matrix<double> sums;          // [images of the subset, lengths]
  std::vector<int64_t> counts;  // queries of each image
};

// Points, effective length and their intervals. Cost: that of `estimate`, and resamples * subsets * images of
// a subset * lengths.
LengthCurve length_curve(const HitTable& table, std::span<const SubsetHits> subsets, double share,
                         const BootstrapOptions& options, ThreadPool& pool);

// Of a curve and its resamples: [resamples, lengths].
EffectiveLength effective_length(std::span<const int64_t> lengths, std::span<const double> curve,
                                 const Matrix<double>& resampled, double share, double confidence);

}  // namespace saccade::lab
