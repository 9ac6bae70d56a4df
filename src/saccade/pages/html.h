// Words from anywhere, made safe to stand in an HTML page.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/json.h"

namespace saccade {

// Escapes text for element content and for attribute values in double or single quotes. Invalid UTF-8 and
// characters that HTML forbids become U+FFFD.
std::string escape_html(std::string_view text);

// "file:///..." of an absolute path, every byte that is not
// plain percent-encoded: safe in an attribute as it is.
std::string file_url(std::string_view path);

// "data:image/png;base64,..." of any bytes.
std::string data_url(std::string_view media_type, std::string_view bytes);

// JSON that can stand inside a <script> element: nothing in it ends or opens one, or begins a comment.
std::string script_json(const Json& json);

// "sha256-..." as a Content-Security-Policy names the inline script with this text.
std::string script_hash(std::string_view script);

}  // namespace saccade
