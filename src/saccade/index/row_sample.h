// Sample of rows for an estimate of the best scores. Internal to this module.
#pragma once

#include <cstdint>
#include <vector>

namespace saccade {

inline constexpr int64_t kSampleRows = 2048;

// Returns one row of each stretch of rows [begin, end), ascending. Its place in the stretch varies, because
// the contents of a folder may repeat. end - begin: kSampleRows or more.
inline std::vector<int64_t> row_sample(int64_t begin, int64_t end) {
  const int64_t stretch = (end - begin) / kSampleRows;
  std::vector<int64_t> rows;
  rows.reserve(kSampleRows);
  for (int64_t i = 0; i < kSampleRows; ++i) {
    const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761U;
    rows.push_back(begin + i * stretch + static_cast<int64_t>(mixed >> 8U) % stretch);
  }
  return rows;
}

}  // namespace saccade
