// Adaptive token fusion's first half (TMCIR, arXiv 2504.10995): which tokens of a
// picture and of a text become one.
//
// The study: the cosine of every visual token with every text token; pairs at or above tau = 0.7 become
// weighted averages plus a positional encoding, the others are kept with positional residuals. It leaves open
// which pairs are taken where several match, and the averages' weights: both are options.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/matrix.h"
#include "saccade/core/enum_names.h"
#include "saccade/model/composers/composer.h"
#include "saccade/nn/tensor.h"

namespace saccade {

// Which pairs at or above tau are taken.
enum class MergeMatching {
  kAll,     // every one: a token that several match is in several averages
  kBest,    // each picture's token with the text's token nearest to it
  kMutual,  // two tokens that are each nearest to the other: a token is in one average at most
};
std::span<const EnumName<MergeMatching>> enum_names(MergeMatching);

// The text's share s of an average (1 - s) v + s t.
enum class MergeWeights {
  kEqual,       // 1/2
  kSimilarity,  // c / (1 + c), c their cosine: a text that is less alike counts less; 0 where c is negative
  kLearned,     // one learned number for all, 1/2 before training
};
std::span<const EnumName<MergeWeights>> enum_names(MergeWeights);

struct MergeOptions {
  double tau = 0.7;  // above 1: nothing is matched
  MergeMatching matching = MergeMatching::kMutual;
  MergeWeights weights = MergeWeights::kEqual;
};

// A token of the fused sequence: an average of one of the picture's and one of the
// text's, or one of either alone.
struct MergedToken {
  int32_t picture = -1;  // -1: of the text alone
  int32_t text = -1;     // -1: of the picture alone
  float cosine = 0;      // of an average

  [[nodiscard]] bool is_average() const { return picture >= 0 && text >= 0; }
};
// What becomes of a batch's tokens. Of each entry the averages stand first, by the picture's token and then
// the text's; then the picture's tokens that are in none, then the text's.
struct TokenMerge {
  std::vector<MergedToken> tokens;
  std::vector<int64_t> begin = {0};  // [n + 1]
};
// picture_tokens: [n, p, dim], text_tokens: [n, longest, dim], contiguous float32 of any lengths;
// text_lengths: [n]. A token without a length is like none. Cost: n p longest dim.
TokenMerge plan_token_merge(const nn::Tensor& picture_tokens, const nn::Tensor& text_tokens,
                            std::span<const int64_t> text_lengths, const MergeOptions& options);
// The averages of each entry.
std::vector<std::vector<MergedPair>> merged_pairs(const TokenMerge& merge);

// The cosines of one picture's tokens with one text's: [p, t]. 0 for a token without a length.
Matrix<float> token_cosines(MatrixView<const float> picture, MatrixView<const float> text);

// The text's share of an average. learned: what kLearned says, before the sigmoid; else not read.
float text_share(MergeWeights weights, float cosine, float learned);

}  // namespace saccade
