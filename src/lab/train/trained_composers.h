// Registry of trainable composers: the kinds that can be trained on triplets, and their forward pass with
// gradients. A kind is one line in trained_composers.cc. Internal to the module.
#pragma once

#include <cstdint>
#include <memory>

#include "lab/train/math/variable.h"
#include "saccade/core/error.h"
#include "saccade/model/composers/kinds.h"

namespace saccade::lab {

// Number of a batch's tokens that became part of an average; 0 of 0 for kinds that match none.
struct MatchedTokens {
  int64_t matched = 0;
  int64_t tokens = 0;
};

// Random draws of a step. A resumed training draws the same.
struct StepDraw {
  uint64_t seed = 0;
  int64_t step = 0;
  double dropout = 0;  // share of hidden values that are left out, of kinds that leave out any
};

class TrainedComposer {
 public:
  virtual ~TrainedComposer() = default;
  // Composes queries: [n, dim], not normalized. Adds to `matched` unless it is null. `draw` is that of a
  // training step; `nullptr` disables dropout.
  [[nodiscard]] virtual torch::Tensor compose(const ComposerPartsOf<Variable>& parts, MatchedTokens* matched,
                                              const StepDraw* draw) const = 0;
};

// Makes a composer with the kind's parameters from `source`, and the options of the config. Returns
// kUnsupported for a kind that is not trained on triplets.
Result<std::unique_ptr<TrainedComposer>> make_trained_composer(const ComposerConfig& config,
                                                               nn::ParameterSourceOf<Variable>& source);

}  // namespace saccade::lab
