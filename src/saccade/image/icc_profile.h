// ICC colour profiles, as far as it takes to know which need no conversion.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace saccade {

// Returns the description in a profile (ICC.1:2022, tag "desc"), as ASCII: other characters are left out. "" for a
// broken profile. Bounds-checked: `profile` is foreign.
std::string profile_description(std::span<const std::byte> profile);

// Returns true for a profile of sRGB by its description ("sRGB IEC61966-2.1", "sRGB built-in", ...).
bool is_srgb_profile(std::span<const std::byte> profile);

}  // namespace saccade
