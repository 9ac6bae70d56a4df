// Which builds of the libraries that decode pictures are loaded. A distribution mends a decoder without
// giving it another version number, and pixels may change with it: a build id is another for every build.
#pragma once

#include <map>
#include <string>

namespace saccade {

// Library -> hexadecimal GNU build id, or its file where it has none: "libjpeg.so.62" -> "3f1c...".
// Thread-safe. Cost: a pass over the loaded libraries, and libvips' start where it has not been used yet.
std::map<std::string, std::string> decoder_versions();

}  // namespace saccade
