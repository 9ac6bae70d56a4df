// Methods to compute where in an image its score comes from.
#pragma once

#include <string_view>

#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Method of a relevance map.
enum class MapMethod {
  // LeGrad (Bousselham et al. 2024, arXiv 2404.03214). For each block: the gradient of the score computed
  // from the block's own states, with respect to that block's attention. The positive part is averaged over
  // heads and queries, and summed over blocks.
  kLegrad,
  // Gradient-weighted attention (Chefer et al. 2021, arXiv 2103.15679): R = R + mean over heads of (gradient
  // * A)+ R over all blocks, with the gradient of the final score.
  kChefer,
};

// Returns "legrad" or "chefer". Thread-safe.
std::string_view name(MapMethod method);
// Returns the method of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<MapMethod> parse_map_method(std::string_view name);

}  // namespace saccade
#pragma GCC visibility pop
