// Figures of heads on frozen encoders (Table 2 and 4 of the study): recall both ways, and what may be said of
// two of them.
//
// A model is called better than another only where the paired interval of the difference in mean recall
// leaves out 0: mean recall is the mean of R@1, R@5 and R@10 over both directions, one figure named
// beforehand, so that nobody picks the one of six that happens to be told apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval_figures.h"

namespace saccade::lab {

inline constexpr std::string_view kMeanRecall = "mean_recall";

// "t2i_r1", "t2i_r5", "t2i_r10", "i2t_r1", "i2t_r5", "i2t_r10", "mean_recall": both directions over the same
// resamples of pictures.
Estimates recall_estimates(const RetrievalOutcome& outcome);

// The mean over several trainings (seeds) measured on the same queries. A resample draws trainings too, with
// replacement: intervals are over queries and seeds. Which it draws depends on `seed`, the resample and how
// many there are alone, so that two such means can be paired. Of one training: itself. kMismatch where the
// samples do not fit together; kUsage for none.
Result<Estimates> mean_over_trainings(std::span<const Estimates> trainings, uint64_t seed);

// {"t2i": {"r1": FIGURE, "r5", "r10"}, "i2t": {...}, "mean_recall": FIGURE}
Json recall_json(const Estimates& estimates, double confidence);

// What may be said of a against b.
struct Verdict {
  std::string a;
  std::string b;
  Difference mean_recall;
  bool better = false;  // a is, and it shows
  bool worse = false;
  // "mlp is better than linear: mean recall +0.031 [0.012, 0.050]", or that it cannot be called better.
  std::string words;
  Json differences;  // as recall_json, of differences
};
// kMismatch where they are not of the same queries and bootstrap.
Result<Verdict> compare_recall(const std::string& a_name, const Estimates& a, const std::string& b_name,
                               const Estimates& b, double confidence);
// {"a", "b", "better", "worse", "words", "t2i", "i2t", "mean_recall"}
Json verdict_json(const Verdict& verdict);

}  // namespace saccade::lab
