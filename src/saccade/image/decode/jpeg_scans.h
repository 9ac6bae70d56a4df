// Count of the scans of a JPEG, from its markers (ITU-T T.81, annex B).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace saccade {

// Counts the scans. A segment is "ff", its marker, and two bytes of length with the segment behind. The
// segment of a scan (da) is followed by coded bits, in which "ff" is followed by 00 or a restart (d0 to d7).
// Invalid bytes are skipped, as libjpeg does. Cost: one pass of memchr.
inline int64_t jpeg_scans(std::span<const std::byte> bytes) {
  const auto at = [&](size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  int64_t scans = 0;
  for (size_t i = 0; i + 1 < bytes.size();) {
    const void* found = std::memchr(bytes.data() + i, 0xff, bytes.size() - 1 - i);
    if (found == nullptr) break;
    i = static_cast<size_t>(static_cast<const std::byte*>(found) - bytes.data()) + 1;
    const unsigned marker = at(i);
    const bool has_length = marker >= 0xc0 && marker != 0xff && !(marker >= 0xd0 && marker <= 0xd9);
    if (marker == 0xda) ++scans;
    if (marker == 0xd9) break;  // what follows is not read
    if (has_length && i + 2 < bytes.size()) i += (at(i + 1) << 8) + at(i + 2);
  }
  return scans;
}

}  // namespace saccade
