// Curves of R@1 over lengths, computed from the queries' hits: figures, intervals, effective lengths. Used by
// length.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/eval/length/length.h"

namespace saccade::lab {

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
