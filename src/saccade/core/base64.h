// Bytes as text.
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// RFC 4648's base64, padded, on one line.
std::string encode_base64(std::string_view bytes);

}  // namespace saccade
