// The rows that trained composers make of a task's queries, and how alike the tokens are that they join.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/evaluation.h"
#include "saccade/model/composers/composer.h"

namespace saccade::lab {

struct ComposedRows {
  Matrix<float> rows;  // [asked, dim], of length 1
  // Of kinds that join tokens: tokens of the asked texts, start and end among them,
  // and those of them that met one of the reference's.
  int64_t tokens = 0;
  int64_t matched = 0;
};
// Of texts that are asked together (JoinTexts::kBothOrders) the mean of their rows. Token rows of references
// go through the cache. kMismatch for a composer of another encoder, kUnsupported for late interaction;
// errors as embed_pictures'. Memory: token rows of a few hundred references at a time.
Result<ComposedRows> compose_task(Composer& composer, const EncodedContext& context,
                                  const ComposedTask& task);

// How alike a query's tokens are: the cosines of each of the reference's tokens with each of the text's, over
// the queries `which` in their own wording.
//   {"queries", "pairs", "mean", "low", "width", "counts": a histogram of the cosines}
// Nothing (null) for encoders without token states.
Result<Json> token_similarities(const EncodedContext& context, const ComposedTask& task,
                                std::span<const int64_t> which);

}  // namespace saccade::lab
