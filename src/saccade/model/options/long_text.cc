#include "saccade/model/options/long_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saccade/core/rows.h"

namespace saccade {

std::span<const EnumName<ChunkPooling>> enum_names(ChunkPooling) {
  static constexpr std::array<EnumName<ChunkPooling>, 3> kWords{{{ChunkPooling::kMean, "mean"},
                                                                 {ChunkPooling::kMaximum, "maximum"},
                                                                 {ChunkPooling::kWeighted, "weighted"}}};
  return kWords;
}

Result<std::vector<float>> pool_chunks(MatrixView<const float> rows, std::span<const int64_t> tokens,
                                       ChunkPooling pooling) {
  if (rows.rows() < 1 || static_cast<int64_t>(tokens.size()) != rows.rows()) {
    return fail(ErrorCode::kInternal, "{} rows of chunks with {} counts of tokens", rows.rows(),
                tokens.size());
  }
  if (rows.rows() == 1) return std::vector<float>(rows.row(0).begin(), rows.row(0).end());
  const bool weighted =
      pooling == ChunkPooling::kWeighted && std::accumulate(tokens.begin(), tokens.end(), int64_t{0}) > 0;
  std::vector<double> pooled(static_cast<size_t>(rows.columns()),
                             pooling == ChunkPooling::kMaximum ? -INFINITY : 0.0);
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const double weight = weighted ? static_cast<double>(tokens[static_cast<size_t>(r)]) : 1.0;
    for (size_t c = 0; c < pooled.size(); ++c) {
      const double value = rows.row(r)[c];
      pooled[c] = pooling == ChunkPooling::kMaximum ? std::max(pooled[c], value) : pooled[c] + weight * value;
    }
  }
  // Sums and maxima of unit rows this short are only rounding.
  auto row = unit_row(pooled, 1e-6);
  if (row) return row;
  return fail(ErrorCode::kBadData, "rows of {} chunks cancel out ({} of length {:.1e})", rows.rows(),
              enum_name(pooling), row_length(pooled));
}

}  // namespace saccade
