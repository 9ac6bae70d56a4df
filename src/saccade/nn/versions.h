// Which libraries the layers compute with, for what is written beside figures.
#pragma once

#include <map>
#include <string>

namespace saccade::nn {

// "libtorch" (as built against) and "oneDNN" (as loaded) -> version.
std::map<std::string, std::string> library_versions();

}  // namespace saccade::nn
