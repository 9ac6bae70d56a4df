// Statistics of a clustered sample of queries: values, bootstrap intervals, paired differences.
//
// Queries about one image (its five captions) are not independent, so whole clusters are drawn, with
// replacement: Field and Welsh, "Bootstrapping clustered data", J. R. Stat. Soc. B 69 (2007). A figure of a
// resample is the mean over all its queries, or their median. Intervals are percentile, and bias-corrected
// and accelerated (BCa: Efron, "Better bootstrap confidence intervals", JASA 82 (1987)). The acceleration
// comes from leaving out one cluster at a time. This does not work for medians, whose acceleration is 0 (BC).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"

namespace saccade::lab {

// Queries with one value per figure. Figures in `mean_names` are means of columns of `values`. Those in
// `median_names` are medians of the column of that index in `median_columns`.
struct ClusteredSample {
  std::vector<std::string> mean_names;
  Matrix<double> values;  // [queries, mean_names.size()]
  std::vector<std::string> median_names;
  std::vector<int64_t> median_columns;  // one a median
  std::vector<int64_t> cluster;         // [queries], each in [0, clusters)
  int64_t clusters = 0;

  [[nodiscard]] int64_t queries() const { return values.rows(); }
};

// Minimum number of clusters for trustworthy percentile intervals of a bootstrap. With fewer they are too
// narrow: they lack a factor of sqrt((n - 1) / n), and depend on the few values in the sample.
inline constexpr int64_t kFewestClusters = 20;

struct BootstrapOptions {
  int64_t resamples = 1000;  // 0: no intervals
  uint64_t seed = 0;
  double confidence = 0.95;
  std::stop_token stop = {};  // ends estimate() after the resamples at hand; its figures are then of no use
};

// Figures (means first, then medians) of the sample itself, of every resample, and without each cluster.
struct Estimates {
  std::vector<std::string> names;
  std::vector<double> value;  // NaN without queries
  Matrix<double> resampled;   // [resamples, names]; NaN if a resample has no query, or for one cluster
  Matrix<double> left_out;    // [clusters, means]
  int64_t trials = 0;         // clusters with queries, for Wilson's interval; 0 of differences
};

// Computes the estimates. Deterministic: the clusters of resample i depend only on the seed, i and the number
// of clusters. So samples over the same clusters are resampled alike. Thread-safe. Cost: resamples *
// (clusters * means + queries * medians).
Estimates estimate(const ClusteredSample& sample, const BootstrapOptions& options, ThreadPool& pool);

// Returns the mean over several trainings (seeds) measured on the same queries. A resample also draws
// trainings with replacement, so intervals cover queries and seeds. The draw depends only on `seed`, the
// resample and the number of trainings, so that two such means can be paired. With one training, returns its
// estimates. Errors: kMismatch if the samples do not fit together; kUsage without trainings.
Result<Estimates> mean_over_trainings(std::span<const Estimates> trainings, uint64_t seed);

// Names of means that are no shares and have no Wilson's interval: a mean rank of 1 is the least there is, and a
// difference or a cosine of 0 may as well be below.
inline constexpr const char* kMeanRank = "mean_rank";
inline constexpr const char* kGain = "gain";
inline constexpr const char* kMeanCosine = "cosine";
inline constexpr const char* kReferenceCosine = "reference_cosine";

// Name of the model that stands for random guessing among those of a run.
inline constexpr std::string_view kChance = "chance";

struct Figure {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::string name = {};
  double value = kNone;
  double low = kNone;  // percentile
  double high = kNone;
  double bca_low = kNone;
  double bca_high = kNone;
  // Ends of Wilson's interval for a share that is 0 in every cluster (the upper one) or 1 (the lower one); J. Am. Stat.
  // Assoc. 22 (1927). Each cluster with queries is a trial. Resamples of such a share are all alike, so their own interval has
  // no width.
  double wilson_high = kNone;
  double wilson_low = kNone;

  // Ends of the interval by which figures are shown and compared: Wilson's if there is one, else the percentile interval's.
  [[nodiscard]] double shown_low() const { return std::isfinite(wilson_low) ? wilson_low : low; }
  [[nodiscard]] double shown_high() const { return std::isfinite(wilson_high) ? wilson_high : high; }

  // JSON: {"value", "low", "high", "bca_low", "bca_high"}, and "wilson_high" or "wilson_low" where there is one; a list of
  // figures is an object by their names (lab/eval/run/record_fields.h).
  static auto& record_name(auto& self) { return self.name; }
  static void intervals(auto& self, auto& field) {
    field("low", self.low);
    field("high", self.high);
    field("bca_low", self.bca_low);
    field("bca_high", self.bca_high);
    wilson(self, field);
  }
  static void wilson(auto& self, auto& field) {
    field.if_set("wilson_high", self.wilson_high);
    field.if_set("wilson_low", self.wilson_low);
  }
  static void fields(auto& self, auto& field) {
    field("value", self.value);
    intervals(self, field);
  }
};
// A figure of which runs keep the percentile interval alone: {"value", "low", "high"}, and "wilson_high" or "wilson_low"
// where there is one.
struct BriefFigure : Figure {
  BriefFigure() = default;
  BriefFigure(Figure figure) : Figure(std::move(figure)) {}  // NOLINT(google-explicit-constructor)
  static void fields(auto& self, auto& field) {
    field("value", self.value);
    field("low", self.low);
    field("high", self.high);
    wilson(self, field);
  }
};

// Values of queries, each with its cluster.
struct ClusteredValues {
  std::vector<double> values;
  std::vector<int64_t> cluster;  // [values]

  void add(double value, int64_t its_cluster) {
    values.push_back(value);
    cluster.push_back(its_cluster);
  }
};
// Returns the mean of the values with its intervals; a figure without a value if there are none. name: kGain for
// differences.
Figure mean_figure(const ClusteredValues& values, int64_t clusters, const BootstrapOptions& options,
                   ThreadPool& pool, const char* name = "mean");

// Signs in front of numbers in texts: minus alone, or plus too, as differences have it.
enum class Sign { kMinus, kBoth };
// Returns the value with three digits behind the point. A value that rounds to zero has no minus: "-0.000" reads
// as if something were below zero.
std::string three_digits(double value, Sign sign = Sign::kMinus);
// Returns "0.250 [0.200, 0.300]", with the percentile interval, or Wilson's other end for a share of 0 or 1; the value alone
// if it has none.
std::string interval_text(const Figure& figure, Sign sign = Sign::kMinus);

// Returns every figure with its intervals; NaN for a missing one.
std::vector<Figure> figures_of(const Estimates& estimates, double confidence);

// The difference a - b of two systems on the same clusters, for each figure.
struct Difference {
  Figure figure = {};
  double p_value = Figure::kNone;  // two-sided
  bool significant = false;        // p_value is at most 1 - confidence
  bool blank = false;              // nothing is compared: all of it is null

  // JSON: as a figure's, with "difference" in place of "value", and "p_value" and "significant".
  static auto& record_name(auto& self) { return self.figure.name; }
  static void fields(auto& self, auto& field) {
    field("difference", self.figure.value);
    Figure::intervals(self.figure, field);
    field("p_value", self.p_value);
    field.nullable("significant", self.significant, self.blank);
  }
};
// Computes paired differences. Both estimates must come from the same options over the same clusters;
// kMismatch if their sizes or names differ. p = 2 (1 + the smaller of the resamples with a difference <= 0
// and of those >= 0) / (1 + resamples), at most 1. The percentile interval begins to exclude 0 when p falls
// to 1 - confidence. At that border, and with few resamples, p decides. There is no correction for multiple
// comparisons.
Result<std::vector<Difference>> paired_differences(const Estimates& a, const Estimates& b, double confidence);

// Returns the quantile of sorted values with linear interpolation, numpy's default; NaN without values.
double quantile(std::span<const double> sorted, double share);

}  // namespace saccade::lab
