// Retrieval recall: how often the right answer is among the first k.
//
// A text and an image belong together when their labels are equal, so that one image may have several texts
// and one text several images. A query's rank is 1 + the number of wrong answers that score at least as high
// as its best right one: ties count against the model (the pessimistic policy), and no ranking is ever
// sorted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/matrix.h"
#include "saccade/core/threads.h"

namespace saccade {

// The rank of each query among the gallery's rows, by dot product. queries: [m, d], gallery: [n, d]; labels:
// one a row. A query with no right answer in the gallery, or with a NaN score, gets rank 0, and should be
// counted apart. Cost: m * n * d multiply-adds, a block of the score matrix in memory at a time.
Result<std::vector<int64_t>> retrieval_ranks(MatrixView<const float> queries, MatrixView<const float> gallery,
                                             std::span<const int64_t> query_labels,
                                             std::span<const int64_t> gallery_labels, ThreadPool& pool);

struct Recall {
  int64_t queries = 0;  // those with a right answer in the gallery
  int64_t unanswerable = 0;
  double r1 = 0;  // share of `queries` with rank <= 1, 5, 10
  double r5 = 0;
  double r10 = 0;
};
Recall recall_of(std::span<const int64_t> ranks);

}  // namespace saccade
