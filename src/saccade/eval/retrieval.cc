#include "saccade/eval/retrieval.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saccade {

Result<std::vector<int64_t>> retrieval_ranks(MatrixView<const float> queries, MatrixView<const float> gallery,
                                             std::span<const int64_t> query_labels,
                                             std::span<const int64_t> gallery_labels, ThreadPool& pool) {
  if (queries.columns() != gallery.columns()) {
    return fail(ErrorCode::kUsage, "queries of width {}, a gallery of width {}", queries.columns(),
                gallery.columns());
  }
  if (static_cast<int64_t>(query_labels.size()) != queries.rows() ||
      static_cast<int64_t>(gallery_labels.size()) != gallery.rows()) {
    return fail(ErrorCode::kUsage, "{} labels for {} queries, {} for a gallery of {}", query_labels.size(),
                queries.rows(), gallery_labels.size(), gallery.rows());
  }
  std::vector<int64_t> ranks(query_labels.size(), 0);
  pool.parallel_for(queries.rows(), 16, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(gallery_labels.size());
    for (int64_t q = begin; q < end; ++q) {
      const std::span<const float> query = queries.row(q);
      const int64_t label = query_labels[static_cast<size_t>(q)];
      float best = -std::numeric_limits<float>::infinity();
      bool found = false;
      bool valid = true;
      for (int64_t g = 0; g < gallery.rows(); ++g) {
        const std::span<const float> row = gallery.row(g);
        float score = 0;
        for (size_t c = 0; c < query.size(); ++c) score += query[c] * row[c];
        scores[static_cast<size_t>(g)] = score;
        valid = valid && !std::isnan(score);
        if (gallery_labels[static_cast<size_t>(g)] != label) continue;
        found = true;
        best = std::max(best, score);
      }
      if (!found || !valid) continue;
      int64_t rank = 1;
      for (size_t g = 0; g < scores.size(); ++g)
        rank += gallery_labels[g] != label && scores[g] >= best ? 1 : 0;
      ranks[static_cast<size_t>(q)] = rank;
    }
  });
  return ranks;
}

Recall recall_of(std::span<const int64_t> ranks) {
  Recall recall;
  for (const int64_t rank : ranks) {
    if (rank == 0) {
      ++recall.unanswerable;
      continue;
    }
    ++recall.queries;
    recall.r1 += rank <= 1 ? 1 : 0;
    recall.r5 += rank <= 5 ? 1 : 0;
    recall.r10 += rank <= 10 ? 1 : 0;
  }
  const auto count = static_cast<double>(std::max<int64_t>(recall.queries, 1));
  recall.r1 /= count;
  recall.r5 /= count;
  recall.r10 /= count;
  return recall;
}

}  // namespace saccade
