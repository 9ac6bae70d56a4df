// Numbers of things, as people read them: in messages, tables and pages alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

// "12,345".
std::string count_text(int64_t count);
// "3 pictures", "1 picture".
std::string counted(int64_t count, std::string_view singular);
// "512 bytes", "1.4 MB" (powers of a thousand).
std::string size_text(int64_t bytes);

}  // namespace saccade
