// Vector pictures before they are drawn: unpacked, and held to the limits that librsvg has not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// The document in a gzip file (.svgz). kLimit once it is longer than max_bytes, kBadData for a broken file.
// Memory: the document.
Result<std::string> unpack_gzip(std::span<const std::byte> gzip, int64_t max_bytes);

// Returns the images embedded in the document ("data:" addresses of <image> and <feImage>), decoded from
// base64 or percent codes, in document order. librsvg silently omits those that it cannot read. The caller
// must therefore check each of them before it embeds the drawing.
//
// Errors: kLimit if entities make the document more than 16 MiB longer than it is or nest too deep (100 kB
// named 20,000 times are 2 GB to librsvg, which ends the process when memory runs out); kBadData for a broken
// address; kUnsupported for a document that includes others. Other faults of the document are left to librsvg
// to report. Cost: one pass of libxml2 over the document.
Result<std::vector<std::string>> pictures_within(std::string_view svg);

}  // namespace saccade
