// A query as embeddings in the encoder's space.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "saccade/matrix.h"

namespace saccade {

struct ComposerReport;  // composed/composed_query.h

// Token counts of a text. If `dropped` > 0, the text was cut and the encoder has not read its end.
struct TokenCount {
  int64_t used = 0;
  int64_t dropped = 0;
  int64_t chunks = 1;         // that the text was read in
  int64_t longest_chunk = 0;  // tokens of the longest of them
};

struct EncodedQuery {
  std::vector<float> row;            // [dim], of length 1
  std::optional<TokenCount> tokens;  // of the text, where there is one
  // Rows of late interaction where the collection keeps such, [n, dim]: the text's, then the picture's. If
  // the query has both, each part's rows are divided by their number. A composer's query has one: `row`.
  Matrix<float> late;
  int64_t text_rows = 0;          // the first of them
  float text_weight = 1;          // the factor on the text's rows: its share times its weight
  std::vector<int32_t> text_ids;  // the tokens of the text's rows, where each row is one token's
  std::shared_ptr<const ComposerReport> composer_report =
      {};  // how a composer made the row; nullptr: none did
};

}  // namespace saccade
