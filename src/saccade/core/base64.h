// Bytes as text.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade {

// RFC 4648's base64, padded, on one line.
std::string encode_base64(std::string_view bytes);
// The bytes of such a text; the padding may be missing. kBadData for any other character, white space too,
// and for a length that no bytes have.
Result<std::string> decode_base64(std::string_view text);
// Decodes an image's bytes from JSON: a data: URL ("data:image/png;base64,...", RFC 2397), or plain base64.
// Returns kBadData for empty data and for a data: URL without base64.
Result<std::string> decode_picture_text(std::string_view text);

}  // namespace saccade
