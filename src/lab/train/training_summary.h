// Course of a training, which the report of every recipe has.
#pragma once

#include <cstdint>

namespace saccade::lab {

struct TrainingSummary {
  int64_t steps = 0;         // done in all
  int64_t resumed_from = 0;  // number by earlier calls; equal to steps if the training was finished
  bool finished = false;     // all steps are done, or patience came to its end
  double last_loss = 0;
  int64_t best_step = 0;  // step of the checkpoint in model/
};

}  // namespace saccade::lab
