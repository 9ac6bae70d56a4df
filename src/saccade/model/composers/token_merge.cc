#include "saccade/model/composers/token_merge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "saccade/matrix.h"

namespace saccade {

using nn::Tensor;

std::span<const EnumName<MergeMatching>> enum_names(MergeMatching) {
  static constexpr std::array<EnumName<MergeMatching>, 3> kWords{
      {{MergeMatching::kAll, "all", "every pair at or above tau"},
       {MergeMatching::kBest, "best", "each image's token with the text's token nearest to it"},
       {MergeMatching::kMutual, "mutual", "two tokens that are each nearest to the other"}}};
  return kWords;
}

std::span<const EnumName<MergeWeights>> enum_names(MergeWeights) {
  static constexpr std::array<EnumName<MergeWeights>, 3> kWords{
      {{MergeWeights::kEqual, "equal", "both tokens count alike"},
       {MergeWeights::kSimilarity, "similarity", "the text's token counts by its cosine with the image's"},
       {MergeWeights::kLearned, "learned", "the text's share is one learned number"}}};
  return kWords;
}

namespace {

float dot(const float* a, const float* b, int64_t dim) {
  // Eight independent sums, which the compiler vectorizes.
  std::array<float, 8> sums{};
  int64_t d = 0;
  for (; d + 8 <= dim; d += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += a[d + static_cast<int64_t>(k)] * b[d + static_cast<int64_t>(k)];
  }
  float sum = 0;
  for (const float each : sums) sum += each;
  for (; d < dim; ++d) sum += a[d] * b[d];
  return sum;
}

// Returns 1 / length of each row; 0 for rows of length 0.
std::vector<float> inverse_lengths(MatrixView<const float> rows) {
  std::vector<float> inverse;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const float* row = rows.data() + r * rows.columns();
    const float square = dot(row, row, rows.columns());
    inverse.push_back(square > 0 ? 1 / std::sqrt(square) : 0.0F);
  }
  return inverse;
}

// Computes the cosines of one image's tokens with one text's: [p, t]. 0 for a token of length 0.
Matrix<float> token_cosines(MatrixView<const float> picture, MatrixView<const float> text) {
  const int64_t dim = picture.columns();
  const std::vector<float> pictures = inverse_lengths(picture);
  const std::vector<float> texts = inverse_lengths(text);
  Matrix<float> cosines(picture.rows(), text.rows());
  for (int64_t i = 0; i < picture.rows(); ++i) {
    const std::span<float> row = cosines.row(i);
    for (size_t j = 0; j < row.size(); ++j) {
      const float product = dot(picture.data() + i * dim, text.data() + static_cast<int64_t>(j) * dim, dim);
      row[j] = product * pictures[static_cast<size_t>(i)] * texts[j];
    }
  }
  return cosines;
}

// Returns the selected pairs at or above tau, in the order of the image tokens.
std::vector<MergedToken> matched(const Matrix<float>& cosines, const MergeOptions& options) {
  const int64_t p = cosines.rows();
  const int64_t t = cosines.columns();
  const auto at = [&](int64_t i, int64_t j) { return cosines.row(i)[static_cast<size_t>(j)]; };
  std::vector<int64_t> best_text(static_cast<size_t>(p));
  std::vector<int64_t> best_picture(static_cast<size_t>(t));
  for (int64_t i = 0; i < p; ++i) {
    for (int64_t j = 0; j < t; ++j) {
      int64_t& text = best_text[static_cast<size_t>(i)];
      int64_t& picture = best_picture[static_cast<size_t>(j)];
      if (at(i, j) > at(i, text)) text = j;
      if (at(i, j) > at(picture, j)) picture = i;
    }
  }
  std::vector<MergedToken> matches;
  for (int64_t i = 0; i < p; ++i) {
    for (int64_t j = 0; j < t; ++j) {
      if (!(double{at(i, j)} >= options.tau)) continue;
      if (options.matching != MergeMatching::kAll && best_text[static_cast<size_t>(i)] != j) continue;
      if (options.matching == MergeMatching::kMutual && best_picture[static_cast<size_t>(j)] != i) continue;
      matches.push_back({static_cast<int32_t>(i), static_cast<int32_t>(j), at(i, j)});
    }
  }
  return matches;
}

}  // namespace

TokenMerge plan_token_merge(const Tensor& picture_tokens, const Tensor& text_tokens,
                            std::span<const int64_t> text_lengths, const MergeOptions& options) {
  const int64_t n = picture_tokens.size(0);
  const int64_t p = picture_tokens.size(1);
  const int64_t longest = text_tokens.size(1);
  const int64_t dim = picture_tokens.size(2);
  TokenMerge merge;
  for (int64_t e = 0; e < n; ++e) {
    const int64_t t = text_lengths[static_cast<size_t>(e)];
    std::vector<bool> of_picture(static_cast<size_t>(p));
    std::vector<bool> of_text(static_cast<size_t>(t));
    // Cosines are at most 1, rounding aside.
    if (options.tau <= 1.001) {
      const MatrixView<const float> picture(picture_tokens.data<float>() + e * p * dim, p, dim);
      const MatrixView<const float> text(text_tokens.data<float>() + e * longest * dim, t, dim);
      for (const MergedToken& match : matched(token_cosines(picture, text), options)) {
        of_picture[static_cast<size_t>(match.picture)] = of_text[static_cast<size_t>(match.text)] = true;
        merge.tokens.push_back(match);
      }
    }
    for (size_t i = 0; i < of_picture.size(); ++i) {
      if (!of_picture[i]) merge.tokens.push_back({.picture = static_cast<int32_t>(i)});
    }
    for (size_t j = 0; j < of_text.size(); ++j) {
      if (!of_text[j]) merge.tokens.push_back({.text = static_cast<int32_t>(j)});
    }
    merge.begin.push_back(std::ssize(merge.tokens));
  }
  return merge;
}

std::vector<std::vector<MergedPair>> merged_pairs(const TokenMerge& merge) {
  std::vector<std::vector<MergedPair>> pairs(merge.begin.size() - 1);
  for (size_t e = 0; e < pairs.size(); ++e) {
    for (int64_t k = merge.begin[e]; k < merge.begin[e + 1]; ++k) {
      const MergedToken& token = merge.tokens[static_cast<size_t>(k)];
      if (token.is_average()) pairs[e].push_back({token.picture, token.text, token.cosine});
    }
  }
  return pairs;
}

float text_share(MergeWeights weights, float cosine, float learned) {
  const float c = std::max(cosine, 0.0F);
  switch (weights) {
    case MergeWeights::kSimilarity:
      return c / (1 + c);
    case MergeWeights::kLearned:
      return 1 / (1 + std::exp(-learned));
    case MergeWeights::kEqual:
      break;
  }
  return 0.5F;
}

}  // namespace saccade
