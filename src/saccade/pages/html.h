// Escaping of untrusted text for HTML pages.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/json.h"

namespace saccade {

// Escapes text for element content and for attribute values in double or single quotes. Invalid UTF-8 and
// characters that HTML forbids become U+FFFD.
std::string escape_html(std::string_view text);

// Returns the "file:///..." URL of an absolute path, percent-encoded except for plain characters; safe in an
// attribute.
std::string file_url(std::string_view path);

// Returns a "data:image/png;base64,..." URL of any bytes.
std::string data_url(std::string_view media_type, std::string_view bytes);

// Formats JSON for a <script> element: it cannot end or open an element, or begin a comment.
std::string script_json(const Json& json);

// Returns "sha256-...", the source of the inline script with this text in a Content-Security-Policy.
std::string script_hash(std::string_view script);

}  // namespace saccade
