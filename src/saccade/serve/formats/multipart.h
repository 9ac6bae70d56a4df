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

// The parts in the order they came. kUsage for a content type that is another one or names no boundary;
// kBadData for a body that is cut off or has a part without a name; kLimit for more than kMostFormParts.
// Nothing is copied but names. Thread-safe.
Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace saccade::serve
