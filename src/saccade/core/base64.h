// Base64 encoding and decoding.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade {

// Encodes as RFC 4648's base64, padded, on one line.
std::string encode_base64(std::string_view bytes);
// Decodes such a text; the padding is optional. Returns kBadData for any other character, including white
// space, and for an impossible length.
Result<std::string> decode_base64(std::string_view text);
// Decodes an image's bytes from JSON: a data: URL ("data:image/png;base64,...", RFC 2397), or plain base64.
// Line breaks, which programs such as base64 write, are ignored. Returns kBadData for empty data and for a data: URL
// without base64.
Result<std::string> decode_picture_text(std::string_view text);

}  // namespace saccade
