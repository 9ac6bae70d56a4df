// Names and versions of the libraries behind the layers, for reports of measurements.
#pragma once

#include <map>
#include <string>

namespace saccade::nn {

// "libtorch" (as built against) and "oneDNN" (as loaded) -> version.
std::map<std::string, std::string> library_versions();

// The instructions that products and kernels are computed with here: their last bits depend on them.
std::string instruction_set();

}  // namespace saccade::nn
