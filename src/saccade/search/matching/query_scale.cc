#include "saccade/search/matching/query_scale.h"

#include <algorithm>

#include "saccade/index/likelihood.h"
#include "saccade/search/matching/background.h"

namespace saccade {
namespace {

constexpr int64_t kScaleRows = 256;

}  // namespace

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
  const MatrixView<const float> rows = collection.rows();
  const std::span<const uint8_t> is_alive = collection.alive();
  const int64_t alive = std::ranges::count_if(is_alive, [](uint8_t flag) { return flag != 0; });
  const int64_t count = std::min(kScaleRows, alive);
  Matrix<float> sample(count, rows.columns());
  int64_t row = 0;
  int64_t before = 0;  // living rows before it
  for (int64_t s = 0; s < count; ++s) {
    const int64_t wanted = s * alive / count;  // a living row, by its number among them
    if (alive == rows.rows()) row = before = wanted;
    while (before < wanted || is_alive[static_cast<size_t>(row)] == 0) {
      before += is_alive[static_cast<size_t>(row++)] != 0 ? 1 : 0;
    }
    std::ranges::copy(rows.row(row), sample.row(s).begin());
  }
  ScoreScale scale = score_scale(sample.view(), query_row);
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
