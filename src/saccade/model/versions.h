// The libraries whose numbers an encoder's rows depend on, for what is written beside figures.
#pragma once

#include <map>
#include <string>

namespace saccade {

// "libtorch", "oneDNN", "libvips", "ICU" -> version.
std::map<std::string, std::string> library_versions();

}  // namespace saccade
