// Figures of heads on frozen encoders (Tables 2 and 4 of the study): recall in both directions, and a
// comparison of two heads.
//
// A model is called better than another only if the paired interval of the difference in mean recall excludes
// 0. Mean recall is the mean of R@1, R@5 and R@10 over both directions. It is one figure chosen beforehand,
// so that nobody picks the one of six that happens to differ significantly.
#pragma once

#include <string>

#include "lab/eval/figures/sample.h"
#include "lab/eval/head_metrics.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Returns "t2i_r1", "t2i_r5", "t2i_r10", "i2t_r1", "i2t_r5", "i2t_r10", "mean_recall". Both directions use
// the same resamples of images.
Estimates recall_estimates(const RetrievalOutcome& outcome);

// Returns the figures with their intervals.
RecallOf<Figure> recall_figures(const Estimates& estimates, double confidence);

// Compares two models. Returns kMismatch if they are not of the same queries and bootstrap.
Result<Verdict> compare_recall(const std::string& a_name, const Estimates& a, const std::string& b_name,
                               const Estimates& b, double confidence);

}  // namespace saccade::lab
