// Query embeddings of trained composers, and the similarity of the tokens that they join.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lab/eval/composed/composed_metrics.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/evaluation.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/composers/composer.h"

namespace saccade::lab {

struct ComposedRows {
  Matrix<float> rows;  // [asked, dim], of length 1
  // Number of tokens of the query texts, start and end tokens included. Only for composers that join tokens.
  // The next field counts those that matched a token of the reference.
  int64_t tokens = 0;
  int64_t matched = 0;
};
// Composes the task's queries. Texts that are asked together (JoinTexts::kBothOrders) give the mean of their
// embeddings. States of references go through the cache. Errors: kMismatch for a composer of another encoder;
// kUnsupported for late interaction and a kind that is not made for it; those of embed_pictures. Memory: states of a few hundred
// references at a time.
Result<ComposedRows> compose_task(Composer& composer, const EncodedContext& context,
                                  const ComposedTask& task);

// Measures token similarity: cosines of each reference token with each text token, over the queries `which`
// in their original wording. Model and dataset stay without names. Returns `nullopt` for encoders without token states.
Result<std::optional<TokenSimilarities>> token_similarities(const EncodedContext& context,
                                                            const ComposedTask& task,
                                                            std::span<const int64_t> which);

}  // namespace saccade::lab
