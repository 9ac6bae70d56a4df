// Ways to make one query of an image and a text.
#pragma once

#include <string_view>

#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Methods to combine an image and a text into one query. p and t are their embeddings; w is the embedding of
// a description of the image.
enum class Compose {
  kSum,        // a p + b t, the weighted sum
  kSlerp,      // spherical interpolation from p to t (Shoemake, SIGGRAPH 1985)
  kDirection,  // a p + b (t - w): the image, moved by the difference between two texts (arXiv 2502.07215)
};

// Returns "sum", "slerp" or "direction". Thread-safe.
std::string_view name(Compose method);
// Returns the method of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<Compose> parse_compose(std::string_view name);

}  // namespace saccade
#pragma GCC visibility pop
