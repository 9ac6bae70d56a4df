// Build ids of the loaded libraries that decode images. A distribution may patch a decoder without changing
// its version number, and pixels may change with it. The build id differs for every build.
#pragma once

#include <map>
#include <string>

namespace saccade {

// Maps each library to its hexadecimal GNU build id, or to its file if it has none: "libjpeg.so.62" ->
// "3f1c...". Thread-safe. Cost: a pass over the loaded libraries, and libvips' start if it has not been used
// yet.
std::map<std::string, std::string> decoder_versions();

}  // namespace saccade
