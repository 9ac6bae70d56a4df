#include "saccade/model/composers/token_merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace saccade {

using nn::Tensor;

std::span<const EnumWord<MergeMatching>> enum_words(MergeMatching) {
  static constexpr std::array<EnumWord<MergeMatching>, 3> kWords{
      {{MergeMatching::kAll, "all", "every pair at or above tau"},
       {MergeMatching::kBest, "best", "each picture's token with the text's token nearest to it"},
       {MergeMatching::kMutual, "mutual", "two tokens that are each nearest to the other"}}};
  return kWords;
}

std::span<const EnumWord<MergeWeights>> enum_words(MergeWeights) {
  static constexpr std::array<EnumWord<MergeWeights>, 3> kWords{
      {{MergeWeights::kEqual, "equal", "both tokens count alike"},
       {MergeWeights::kSimilarity, "similarity", "the text's token counts by its cosine with the picture's"},
       {MergeWeights::kLearned, "learned", "the text's share is one learned number"}}};
  return kWords;
}

namespace {

// Rows of length 1; those without a length stay 0.
std::vector<float> unit_rows(const float* rows, int64_t count, int64_t dim) {
  std::vector<float> unit(static_cast<size_t>(count * dim));
  for (int64_t r = 0; r < count; ++r) {
    const float* row = rows + r * dim;
    double square = 0;
    for (int64_t d = 0; d < dim; ++d) square += double{row[d]} * double{row[d]};
    const auto factor = square > 0 ? static_cast<float>(1 / std::sqrt(square)) : 0.0F;
    for (int64_t d = 0; d < dim; ++d) unit[static_cast<size_t>(r * dim + d)] = row[d] * factor;
  }
  return unit;
}

float dot(const float* a, const float* b, int64_t dim) {
  // Eight sums side by side: the compiler makes lanes of them.
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

// cosines: [p, t], row by row.
std::vector<MergedPair> matched(std::span<const float> cosines, int64_t p, int64_t t,
                                const MergeOptions& options) {
  const auto at = [&](int64_t i, int64_t j) { return cosines[static_cast<size_t>(i * t + j)]; };
  const auto best_text = [&](int64_t i) {
    int64_t best = 0;
    for (int64_t j = 1; j < t; ++j) best = at(i, j) > at(i, best) ? j : best;
    return best;
  };
  const auto best_picture = [&](int64_t j) {
    int64_t best = 0;
    for (int64_t i = 1; i < p; ++i) best = at(i, j) > at(best, j) ? i : best;
    return best;
  };
  std::vector<MergedPair> matches;
  for (int64_t i = 0; i < p; ++i) {
    for (int64_t j = 0; j < t; ++j) {
      if (!(double{at(i, j)} >= options.tau)) continue;
      if (options.matching != MergeMatching::kAll && best_text(i) != j) continue;
      if (options.matching == MergeMatching::kMutual && best_picture(j) != i) continue;
      matches.push_back({static_cast<int32_t>(i), static_cast<int32_t>(j), at(i, j)});
    }
  }
  return matches;
}

}  // namespace

Matrix<float> token_cosines(MatrixView<const float> picture, MatrixView<const float> text) {
  const int64_t dim = picture.columns();
  const std::vector<float> pictures = unit_rows(picture.data(), picture.rows(), dim);
  const std::vector<float> texts = unit_rows(text.data(), text.rows(), dim);
  Matrix<float> cosines(picture.rows(), text.rows());
  for (int64_t i = 0; i < picture.rows(); ++i) {
    for (int64_t j = 0; j < text.rows(); ++j) {
      cosines.row(i)[static_cast<size_t>(j)] = dot(pictures.data() + i * dim, texts.data() + j * dim, dim);
    }
  }
  return cosines;
}

TokenMerge plan_token_merge(const Tensor& picture_tokens, const Tensor& text_tokens,
                            std::span<const int64_t> text_lengths, const MergeOptions& options,
                            int64_t text_places) {
  const int64_t n = picture_tokens.size(0);
  const int64_t p = picture_tokens.size(1);
  const int64_t longest = text_tokens.size(1);
  const int64_t dim = picture_tokens.size(2);
  TokenMerge merge;
  int64_t most = 1;
  for (int64_t e = 0; e < n; ++e) {
    const int64_t t = text_lengths[static_cast<size_t>(e)];
    const MatrixView<const float> picture(picture_tokens.data<float>() + e * p * dim, p, dim);
    const MatrixView<const float> text(text_tokens.data<float>() + e * longest * dim, t, dim);
    std::vector<MergedPair> matches;
    // Cosines are at most 1, rounding aside.
    if (options.tau <= 1.001) matches = matched(token_cosines(picture, text).values(), p, t, options);
    std::vector<bool> taken(static_cast<size_t>(p + t));
    for (const MergedPair& match : matches) {
      taken[static_cast<size_t>(match.picture)] = true;
      taken[static_cast<size_t>(p + match.text)] = true;
    }
    most = std::max<int64_t>(most, std::ssize(matches) + std::ranges::count(taken, false));
    merge.matches.push_back(std::move(matches));
  }
  nn::Workspace* workspace = picture_tokens.workspace();
  const auto numbers = [&] { return Tensor::full_integers({n, most}, 0, workspace); };
  merge.first = numbers();
  merge.second = numbers();
  merge.kept = numbers();
  merge.picture_place = Tensor::full_integers({n, most}, p, workspace);
  merge.text_place = Tensor::full_integers({n, most}, text_places, workspace);
  merge.paired = Tensor::full({n, most}, 0, workspace);
  merge.cosine = Tensor::full({n, most}, 0, workspace);
  merge.mask = Tensor::full({n, 1, 1, most}, -std::numeric_limits<float>::infinity(), workspace);
  for (int64_t e = 0; e < n; ++e) {
    const int64_t t = text_lengths[static_cast<size_t>(e)];
    auto at = static_cast<size_t>(e * most);
    std::vector<bool> taken(static_cast<size_t>(p + t));
    const auto put = [&](int64_t first, int64_t second, int64_t picture, int64_t text) {
      merge.first.integers()[at] = first;
      merge.second.integers()[at] = second;
      merge.picture_place.integers()[at] = picture;
      merge.text_place.integers()[at] = text;
      merge.kept.integers()[at] = 1;
      merge.mask.floats()[at] = 0;
      ++at;
    };
    for (const MergedPair& match : merge.matches[static_cast<size_t>(e)]) {
      taken[static_cast<size_t>(match.picture)] = taken[static_cast<size_t>(p + match.text)] = true;
      merge.paired.floats()[at] = 1;
      merge.cosine.floats()[at] = match.cosine;
      put(match.picture, p + match.text, match.picture, match.text);
    }
    for (int64_t i = 0; i < p; ++i) {
      if (!taken[static_cast<size_t>(i)]) put(i, i, i, text_places);
    }
    for (int64_t j = 0; j < t; ++j) {
      if (!taken[static_cast<size_t>(p + j)]) put(p + j, p + j, p, j);
    }
  }
  return merge;
}

Tensor merge_tokens(const Tensor& picture_tokens, const Tensor& text_tokens, const TokenMerge& merge,
                    MergeWeights weights, const Tensor& share) {
  const int64_t n = merge.first.size(0);
  const int64_t most = merge.first.size(1);
  const int64_t p = picture_tokens.size(1);
  const int64_t longest = text_tokens.size(1);
  const int64_t dim = picture_tokens.size(2);
  const float learned =
      weights == MergeWeights::kLearned ? static_cast<float>(1 / (1 + std::exp(-share.item()))) : 0.5F;
  Tensor out = Tensor::empty({n, most, dim}, DType::kF32, picture_tokens.workspace());
  const auto row_of = [&](int64_t entry, int64_t token) {
    return token < p ? picture_tokens.data<float>() + (entry * p + token) * dim
                     : text_tokens.data<float>() + (entry * longest + token - p) * dim;
  };
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t k = 0; k < most; ++k) {
      const auto at = static_cast<size_t>(e * most + k);
      const float* first = row_of(e, merge.first.integers()[at]);
      const float* second = row_of(e, merge.second.integers()[at]);
      float* row = out.data<float>() + (e * most + k) * dim;
      if (merge.paired.floats()[at] == 0) {
        std::copy(first, first + dim, row);
        continue;
      }
      const float cosine = std::max(merge.cosine.floats()[at], 0.0F);
      const float s = weights == MergeWeights::kSimilarity ? cosine / (1 + cosine) : learned;
      for (int64_t d = 0; d < dim; ++d) row[d] = (1 - s) * first[d] + s * second[d];
    }
  }
  return out;
}

}  // namespace saccade
