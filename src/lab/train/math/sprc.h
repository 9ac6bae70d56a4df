// SPRC's network with gradients (model/composers/sprc.cc): BLIP-2's Q-Former with its text part and both
// projections, and the auxiliary prompt of the training. Internal to the module.
#pragma once

#include "lab/train/math/objective.h"
#include "lab/train/math/variable.h"
#include "saccade/core/error.h"
#include "saccade/model/families/blip2.h"

namespace saccade::lab {

class TrainedSprc {
 public:
  // Takes the parameters of the encoder under the checkpoint's names from `encoder`, and "auxiliary_prompt"
  // from `own`. `begin`: read_qformer with text.
  static Result<TrainedSprc> make(const FrozenQFormer& begin, nn::ParameterSourceOf<Variable>& encoder,
                                  nn::ParameterSourceOf<Variable>& own);

  // memory: the vision tower's states, [n, rows, memory_width]. ids, mask: [n, tokens] int64, contiguous.
  // Results are float32.
  // Returns the rows of images: [n, queries, dim], of length 1.
  [[nodiscard]] torch::Tensor image_rows(const torch::Tensor& memory, DType dtype) const;
  // Returns the query embedding of image i with text i: [n, dim], of length 1. If `prompts` is not null, it
  // receives the prompts: [n, queries, width].
  [[nodiscard]] torch::Tensor queries(const torch::Tensor& memory, const torch::Tensor& ids,
                                      const torch::Tensor& mask, DType dtype,
                                      torch::Tensor* prompts = nullptr) const;
  // Returns the terms of the objective.
  [[nodiscard]] SprcTerms terms(const torch::Tensor& memory, const torch::Tensor& ids,
                                const torch::Tensor& mask, DType dtype) const;

 private:
  QFormerOf<Variable> qformer_;
  nn::LinearOf<Variable> image_projection_, text_projection_;
  Variable auxiliary_;  // [1, queries, width]
};

}  // namespace saccade::lab
