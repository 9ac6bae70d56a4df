#include "nearest.h"

#include <algorithm>
#include <vector>

namespace saccade::app {
namespace {

// Restricted Damerau-Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = std::max(i, j);
        continue;
      }
      const size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  size_t fewest = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t changes = distance(word, candidate);
    if (changes < fewest) {
      fewest = changes;
      best = candidate;
    }
  }
  if (!best.empty() || word.empty()) return best;
  for (const std::string& candidate : candidates) {
    if (!candidate.starts_with(word)) continue;
    if (!best.empty()) return {};
    best = candidate;
  }
  return best;
}

}  // namespace saccade::app
