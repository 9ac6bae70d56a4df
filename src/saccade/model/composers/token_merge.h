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

#include "saccade/core/matrix.h"
#include "saccade/core/words.h"
#include "saccade/model/composer.h"
#include "saccade/nn/tensor.h"

namespace saccade {

// Which pairs at or above tau are taken.
enum class MergeMatching {
  kAll,     // every one: a token that several match is in several averages
  kBest,    // each picture's token with the text's token nearest to it
  kMutual,  // two tokens that are each nearest to the other: a token is in one average at most
};
std::span<const EnumWord<MergeMatching>> enum_words(MergeMatching);

// The text's share s of an average (1 - s) v + s t.
enum class MergeWeights {
  kEqual,       // 1/2
  kSimilarity,  // c / (1 + c), c their cosine: a text that is less alike counts less; 0 where c is negative
  kLearned,     // one learned number for all, 1/2 before training
};
std::span<const EnumWord<MergeWeights>> enum_words(MergeWeights);

struct MergeOptions {
  double tau = 0.7;  // above 1: nothing is matched
  MergeMatching matching = MergeMatching::kMutual;
  MergeWeights weights = MergeWeights::kEqual;
};

// What becomes of a batch's tokens: [n, most] each, filled up behind an entry's own. The pairs stand first,
// by the picture's token and then the text's; then the picture's tokens that are in none, then the text's.
struct TokenMerge {
  nn::Tensor first;          // int64: a row of [picture tokens; text tokens]; of a pair the picture's
  nn::Tensor second;         // int64: the pair's text token, likewise; elsewhere = first
  nn::Tensor paired;         // float32: 1 for pairs, else 0
  nn::Tensor cosine;         // float32: of pairs, else 0
  nn::Tensor picture_place;  // int64: the picture's token, or the number of picture tokens: none
  nn::Tensor text_place;     // int64: the text's token, or `text_places`: none
  nn::Tensor kept;           // int64: 1 for an entry's own, 0 behind them
  nn::Tensor mask;           // [n, 1, 1, most] float32: 0 for an entry's own, -infinity behind them
  std::vector<std::vector<MergedPair>> matches;  // [n]
};
// picture_tokens: [n, p, dim], text_tokens: [n, longest, dim], contiguous float32 of any
// lengths; text_lengths: [n], each at most `text_places`. A token without a length is
// like none. Cost: n p longest dim.
TokenMerge plan_token_merge(const nn::Tensor& picture_tokens, const nn::Tensor& text_tokens,
                            std::span<const int64_t> text_lengths, const MergeOptions& options,
                            int64_t text_places);

// The cosines of one picture's tokens with one text's: [p, t]. 0 for a token without a length.
Matrix<float> token_cosines(MatrixView<const float> picture, MatrixView<const float> text);

// The averages, and the tokens that are in none: [n, most, dim]; behind an entry's own the
// first token again. share: what kLearned says, before the sigmoid; else not read. (*) Its
// twin for training: train/composers/atf_operations.h.
nn::Tensor merge_tokens(const nn::Tensor& picture_tokens, const nn::Tensor& text_tokens,
                        const TokenMerge& merge, MergeWeights weights, const nn::Tensor& share);

}  // namespace saccade
