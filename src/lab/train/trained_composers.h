// The kinds of composers as training sees them: which can be trained on triplets, and their forward pass with
// gradients. A kind is one line in trained_composers.cc. Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/model/composers/kinds.h"
#include "lab/train/math/variable.h"

namespace saccade::lab {

// How many of a batch's tokens became part of an average; 0 of 0 for kinds that match none.
struct MatchedTokens {
  int64_t matched = 0;
  int64_t tokens = 0;
};

// What is drawn anew in each step: a training that goes on draws the same.
struct StepDraw {
  uint64_t seed = 0;
  int64_t step = 0;
  double dropout = 0;  // share of hidden values that are left out, of kinds that leave out any
};

class TrainedComposer {
 public:
  virtual ~TrainedComposer() = default;
  // [n, dim], of any length. Adds to `matched` where it is given. `draw`: of a training's
  // step; nullptr: nothing is left out.
  [[nodiscard]] virtual torch::Tensor compose(const ComposerPartsOf<Variable>& parts, MatchedTokens* matched,
                                              const StepDraw* draw) const = 0;
};

// The kind's parameters from `source`; config's options as its checkpoint has them. kUnsupported for a kind
// that is not trained on triplets.
Result<std::unique_ptr<TrainedComposer>> make_trained_composer(const ComposerConfig& config,
                                                               nn::ParameterSourceOf<Variable>& source);

}  // namespace saccade::lab
