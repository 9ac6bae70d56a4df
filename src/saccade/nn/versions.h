// Names and versions of the libraries behind the layers, for reports of measurements.
#pragma once

#include <map>
#include <string>

namespace saccade::nn {

// Returns the versions of "libtorch" (as built against) and "oneDNN" (as loaded).
std::map<std::string, std::string> library_versions();

// Returns the instruction sets of products and kernels on this machine, which affect the last bits of
// results.
std::string instruction_set();

}  // namespace saccade::nn
