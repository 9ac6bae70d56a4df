// MaxSim, the late-interaction score: the sum over a query's rows of the largest dot product with an item's
// rows. Khattab and Zaharia, "ColBERT", SIGIR 2020, equation 3; padding rows are not included here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/late_rows.h"
#include "saccade/index/max_sim_kernels.h"
#include "saccade/matrix.h"

namespace saccade {

// Returns the scores of stored items, in their order. An item without rows scores -infinity, as does one
// whose dots are all NaN for some query row. The bits are the same for any number of threads and on every
// machine (max_sim_kernels.h). Returns kMismatch for items of another layout than the query is packed for.
// Cost: query rows x items' rows x dim multiply-adds. fp16 rows are read at up to memory speed, int8 in half
// the bytes.
Result<std::vector<float>> max_sim(std::span<const StoredRows> items, const PackedQuery& query,
                                   ThreadPool& pool);

// Best match of a query row among an item's rows.
struct RowMatch {
  int64_t row = -1;  // -1 if there is none
  float dot = 0;
};
// Returns one match per query row; their dots add up to the item's score. Errors as above.
Result<std::vector<RowMatch>> max_sim_matches(const StoredRows& item, const PackedQuery& query);

// Computes the matches of fp32 rows by plain loops. Used for the few items that are not stored, and as the
// oracle of tests. query: [n, dim], item: [m, dim], of the same dim.
std::vector<RowMatch> max_sim_matches_plain(MatrixView<const float> query, MatrixView<const float> item);
// Returns the sum of the dots, in double and rounded once; -infinity if a query row has no match.
float max_sim_total(std::span<const RowMatch> matches);

}  // namespace saccade
