// Formatting of counts and sizes for people, in messages, tables and pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

// Formats as "12,345".
std::string count_text(int64_t count);
// Formats as "3 pictures" or "1 picture".
std::string counted(int64_t count, std::string_view singular);
// Formats as "512 bytes" or "1.4 MB" (powers of a thousand).
std::string size_text(int64_t bytes);

}  // namespace saccade
