// HTML character references, read as Python's html.unescape reads them.
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// "&lt;b&gt; &#38; &eacute" -> "<b> & é": numeric references, and all named ones of HTML5 including those
// that need no semicolon and the longest name that begins a longer word ("&notit;" -> "¬it;"). Once, so
// "&amp;lt;" -> "&lt;". The text is valid UTF-8. Linear.
std::string html_unescape(std::string_view text);

}  // namespace saccade
