#include "saccade/search/keywords/caption_nearness.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "saccade/index/likelihood.h"
#include "saccade/search/keywords/caption_texts.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

constexpr uint64_t kSeed = 1;  // other texts than likelihoods are learned from, where there are others

float dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
}

}  // namespace

Result<CaptionNearness> CaptionNearness::of(const CollectionReader& collection, EncoderBackend& encoder,
                                            const std::stop_token& stop) {
  SACCADE_ASSIGN(const std::vector<std::string> captions, captions_by_row(collection));
  std::vector<std::string> texts;
  for (CaptionQuery& query : CaptionIndex(captions).draw(kMostNearnessTexts, kMostRight, kSeed)) {
    texts.push_back(std::move(query.text));
  }
  CaptionNearness result;
  if (std::ssize(texts) < kFewestNearnessTexts) return result;
  SACCADE_ASSIGN(result.rows_, encode_all_texts(encoder, texts, stop));
  const Matrix<float>& rows = result.rows_;
  std::vector<float> nearest(texts.size(), -1);
  for (int64_t a = 0; a < rows.rows(); ++a) {
    for (int64_t b = 0; b < a; ++b) {
      const float cosine = dot(rows.row(a), rows.row(b));
      nearest[static_cast<size_t>(a)] = std::max(nearest[static_cast<size_t>(a)], cosine);
      nearest[static_cast<size_t>(b)] = std::max(nearest[static_cast<size_t>(b)], cosine);
    }
  }
  const auto middle = nearest.begin() + static_cast<std::ptrdiff_t>(nearest.size() / 2);
  std::ranges::nth_element(nearest, middle);
  result.usual_ = *middle;
  return result;
}

float CaptionNearness::nearness(std::span<const float> row) const {
  float nearest = -1;
  for (int64_t r = 0; r < rows_.rows(); ++r) nearest = std::max(nearest, dot(rows_.row(r), row));
  return nearest;
}

bool CaptionNearness::unlike(std::span<const float> row) const {
  return nearness(row) < usual_;
}

}  // namespace saccade
