// Relevance maps as color overlays on images.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

// Returns a PNG of one pixel per cell as a data: URL; browsers scale and smooth it. map: [rows * columns],
// row-major from the top left; rows and columns at least 1. The minimum is dark violet, the maximum bright
// yellow. Lightness rises between them, so the order is visible without telling hues apart. All pixels are
// half transparent. A constant map is dark.
Result<std::string> heat_url(std::span<const float> map, int64_t rows, int64_t columns);

}  // namespace saccade
