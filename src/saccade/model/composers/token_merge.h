// First half of adaptive token fusion (TMCIR, arXiv 2504.10995): merging of image tokens with text tokens.
//
// The paper computes the cosine of every visual token with every text token. Pairs at or above tau = 0.7
// become weighted averages plus a positional encoding; the others are kept with positional residuals. Read
// literally, every such pair is merged, also where a token is in several, and the weights are the
// similarity's. These are the defaults; the formula of the weights is ours, as the paper gives none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/model/composers/composer.h"
#include "saccade/nn/tensor.h"

namespace saccade {

// Selection among the pairs at or above tau.
enum class MergeMatching {
  kAll,     // every one: a token that several match is in several averages
  kBest,    // each image token with its nearest text token
  kMutual,  // two tokens that are each nearest to the other: a token is in one average at most
};
std::span<const EnumName<MergeMatching>> enum_names(MergeMatching);

// Text's share s of an average (1 - s) v + s t.
enum class MergeWeights {
  kEqual,       // 1/2
  kSimilarity,  // c / (1 + c), c their cosine: a text that is less alike counts less; 0 where c is negative
  kLearned,     // one learned number for all, 1/2 before training
};
std::span<const EnumName<MergeWeights>> enum_names(MergeWeights);

struct MergeOptions {
  double tau = 0.7;  // above 1, nothing is merged
  MergeMatching matching = MergeMatching::kAll;
  MergeWeights weights = MergeWeights::kSimilarity;
};

// Token of the fused sequence: an average of an image token and a text token, or one of them alone.
struct MergedToken {
  int32_t picture = -1;  // -1: of the text alone
  int32_t text = -1;     // -1 for an image token alone
  float cosine = 0;      // cosine of a merged pair

  [[nodiscard]] bool is_average() const { return picture >= 0 && text >= 0; }
};
// Merge plan of a batch. In each entry the averages come first, ordered by image token and then text token.
// The unmerged image tokens follow, then the unmerged text tokens.
struct TokenMerge {
  std::vector<MergedToken> tokens;
  std::vector<int64_t> begin = {0};  // [n + 1]
};
// Plans the merges. picture_tokens: [n, p, dim], text_tokens: [n, longest, dim], contiguous float32 of any
// lengths; text_lengths: [n]. A token of length 0 has cosine 0 with every token. Cost: n p longest dim.
TokenMerge plan_token_merge(const nn::Tensor& picture_tokens, const nn::Tensor& text_tokens,
                            std::span<const int64_t> text_lengths, const MergeOptions& options);
// Returns the merged pairs of each entry.
std::vector<std::vector<MergedPair>> merged_pairs(const TokenMerge& merge);

// Returns the text's share of an average. learned: the value of kLearned before the sigmoid; otherwise
// ignored.
float text_share(MergeWeights weights, float cosine, float learned);

}  // namespace saccade
