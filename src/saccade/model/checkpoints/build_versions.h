// Names and versions of the libraries that an encoder's results depend on, for reports of measurements.
#pragma once

#include <map>
#include <string>

namespace saccade {

// Returns the versions of "oneDNN", "libvips" and "ICU".
std::map<std::string, std::string> library_versions();

// Returns the instruction sets in use on this machine ("oneDNN 0xfef, kernels avx512").
std::string instruction_set();

}  // namespace saccade
