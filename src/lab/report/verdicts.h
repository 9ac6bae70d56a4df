// Verdicts of paired comparisons, corrected for their number.
#pragma once

#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/run.h"
#include "lab/report/table.h"

namespace saccade::lab {

// The comparisons of one table, a row each. All of them are corrected together (holm_adjusted), so that the probability of
// any false "is better" in the table is at most 1 - confidence.
class Verdicts {
 public:
  // Adds the comparison of the table's next row; nullptr if there is none.
  void add(const Difference* difference, std::string a, std::string b, bool lower_is_better = false);
  // Appends three columns to the table: p, p after the correction, and the verdict ("a is better", or that they cannot be
  // told apart). The caption says what was corrected, and if the resamples are too few for any verdict. The table has a row for
  // each add(), in the same order. `info`: of the run that compared.
  void finish(Table& table, const RunInfo& info) const;

 private:
  struct Comparison {
    double difference = 0;
    double p = 0;
    std::string a;
    std::string b;
    bool lower_is_better = false;
  };
  std::vector<Comparison> comparisons_;
};

}  // namespace saccade::lab
