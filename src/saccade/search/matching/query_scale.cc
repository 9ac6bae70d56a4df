#include "saccade/search/matching/query_scale.h"

#include <algorithm>

#include "saccade/index/likelihood.h"
#include "saccade/search/matching/background.h"

namespace saccade {

ScoreScale scale_of(const CollectionReader& collection, const SearchQuery& query,
                    std::span<const float> query_row, double logit_scale, const WholeCollection* whole) {
  if (query.background != nullptr && query.background->text.surroundings.sample.rows() > 0) {
    ScoreScale scale = score_scale(query.background->text.surroundings.sample.view(), query_row);
    scale.separation = query.background->texts.separation;
    return scale;
  }
  if (whole != nullptr && whole->sample != nullptr) {
    ScoreScale scale = score_scale(whole->sample->view(), query_row);
    scale.separation = estimated_separation(scale.deviation, logit_scale);
    return scale;
  }
  ScoreScale scale = score_scale(collection.sample(), query_row);
  scale.separation = estimated_separation(scale.deviation, logit_scale);
  return scale;
}

ScoreScale late_scale(std::span<const Candidate> candidates) {
  ScoreScale scale;
  if (candidates.empty()) return scale;
  const auto last = std::min(static_cast<size_t>(kCompetitors), candidates.size()) - 1;
  scale.mean = double{candidates[last].score};
  const double range = double{candidates.front().score} - scale.mean;
  if (range > 0) scale.deviation = range / 2.5;
  return scale;
}

}  // namespace saccade
