// Formatting of counts and sizes for people, in messages, tables and pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

// Formats as "12,345".
std::string count_text(int64_t count);
// Formats with four significant digits, and from 1,000 as a whole number: "0.1534", "282.8", "14,990".
// Infinities, NaN and values beyond a count's range are formatted as `{:.4g}` formats them.
std::string rate_text(double rate);
// Formats as "3 pictures" or "1 picture".
std::string counted(int64_t count, std::string_view singular);
// Formats as "512 bytes" or "1.4 MB" (powers of a thousand).
std::string size_text(int64_t bytes);

}  // namespace saccade
