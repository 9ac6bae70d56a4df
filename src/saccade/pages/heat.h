// Maps as colours that lie over pictures.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

// A PNG of one pixel a cell as a data: address; browsers stretch and smooth it. map: [rows * columns], row by
// row from the top left, rows and columns at least 1. The least value is dark violet, the greatest bright
// yellow, lightness rising between them, so that the order can be told without telling hues apart; all half
// transparent. A map of one value throughout is dark.
Result<std::string> heat_url(std::span<const float> map, int64_t rows, int64_t columns);

}  // namespace saccade
