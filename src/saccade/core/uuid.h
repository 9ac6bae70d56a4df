// UUIDs that are made from names (RFC 9562, version 5).
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// Namespace of names that are URLs (RFC 9562, section 6.6).
inline constexpr std::string_view kUrlNamespace = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";

// Returns the version 5 UUID of a name: "2ed6657d-e927-568b-95e1-2665a8aea6a2". space: a UUID in that form. The same
// name has the same UUID on every machine.
std::string name_uuid(std::string_view space, std::string_view name);

}  // namespace saccade
