// HTML character references, decoded as by Python's html.unescape.
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// Decodes HTML character references: "&lt;b&gt; &#38; &eacute" -> "<b> & é". Supports numeric references and
// all named ones of HTML5, including those without a semicolon and the longest name that is a prefix of a
// word ("&notit;" -> "¬it;"). Decodes once, so "&amp;lt;" -> "&lt;". The text is valid UTF-8. Cost: linear.
std::string html_unescape(std::string_view text);

}  // namespace saccade
