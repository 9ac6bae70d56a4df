#include "lab/train/math/sprc.h"

namespace saccade::lab {
namespace {

constexpr double kInitStd = 0.02;  // BERT's "initializer_range"
using Place = QFormerOf<Variable>::PromptPlace;

}  // namespace

Result<TrainedSprc> TrainedSprc::make(const FrozenQFormer& begin, nn::ParameterSourceOf<Variable>& encoder,
                                      nn::ParameterSourceOf<Variable>& own) {
  TrainedSprc made;
  const int64_t width = begin.config.shape.width;
  SACCADE_ASSIGN(made.qformer_, QFormerOf<Variable>::make(begin.config, begin.queries, encoder));
  SACCADE_ASSIGN(made.image_projection_, nn::LinearOf<Variable>::make(encoder, "vision_projection", width,
                                                                      begin.projection, kInitStd));
  SACCADE_ASSIGN(made.text_projection_,
                 nn::LinearOf<Variable>::make(encoder, "text_projection", width, begin.projection, kInitStd));
  SACCADE_ASSIGN(made.auxiliary_, own.take("auxiliary_prompt", {1, begin.queries, width}, {0, kInitStd}));
  return made;
}

torch::Tensor TrainedSprc::image_rows(const torch::Tensor& memory, DType dtype) const {
  return normalize_rows(image_projection_.forward(qformer_.ask(Variable(memory), dtype)).tensor());
}

torch::Tensor TrainedSprc::queries(const torch::Tensor& memory, const torch::Tensor& ids,
                                   const torch::Tensor& mask, DType dtype, torch::Tensor* prompts) const {
  const Variable prompt = qformer_.compare(Variable(memory), borrow_torch(ids), borrow_torch(mask), dtype);
  if (prompts != nullptr) *prompts = prompt.tensor();
  const Variable state =
      qformer_.read_prompted(prompt, Place::kBefore, borrow_torch(ids), borrow_torch(mask), dtype);
  return normalize_rows(text_projection_.forward(state).tensor());
}

SprcTerms TrainedSprc::terms(const torch::Tensor& memory, const torch::Tensor& ids, const torch::Tensor& mask,
                             DType dtype) const {
  SprcTerms terms;
  terms.queries = queries(memory, ids, mask, dtype, &terms.prompts);
  const Variable state = qformer_.read_prompted(auxiliary_.expand({ids.size(0), -1, -1}), Place::kAfterStart,
                                                borrow_torch(ids), borrow_torch(mask), dtype);
  terms.alone = normalize_rows(text_projection_.forward(state).tensor());
  terms.auxiliary = auxiliary_.tensor();
  return terms;
}

}  // namespace saccade::lab
