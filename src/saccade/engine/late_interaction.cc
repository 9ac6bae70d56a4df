#include "saccade/late_interaction.h"

#include "saccade/core/error.h"
#include "saccade/index/max_sim.h"

namespace saccade {

Result<float> max_sim(MatrixView<const float> query, MatrixView<const float> item) {
  if (query.rows() > 0 && item.rows() > 0 && query.columns() != item.columns()) {
    return fail(ErrorCode::kMismatch, "vectors of {} values for a query, of {} for an item", query.columns(),
                item.columns());
  }
  return max_sim_total(max_sim_matches_plain(query, item));
}

Result<Matrix<float>> max_sim(const MultiEmbeddings& queries, const MultiEmbeddings& items,
                              const std::stop_token& stop) {
  Matrix<float> scores(queries.size(), items.size());
  for (int64_t q = 0; q < queries.size(); ++q) {
    for (int64_t i = 0; i < items.size(); ++i) {
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "MaxSim: asked to stop");
      SACCADE_ASSIGN(scores(q, i), max_sim(queries.item(q), items.item(i)));
    }
  }
  return scores;
}

}  // namespace saccade
