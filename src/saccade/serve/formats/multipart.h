// Forms with files in them, as browsers and other programs post them: multipart/form-data (RFC 7578).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::serve {

struct FormPart {
  std::string name;
  std::string_view bytes;  // of the body that was parsed
};

inline constexpr size_t kMostFormParts = 64;

// Parses a form and returns its parts in order. kUsage for another content type or one without a boundary;
// kBadData for a body that is truncated or has a part without a name; kLimit for more than kMostFormParts.
// Only names are copied. Thread-safe.
Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace saccade::serve
