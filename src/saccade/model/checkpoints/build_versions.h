// Names and versions of the libraries that an encoder's results depend on, for reports of measurements.
#pragma once

#include <map>
#include <string>

namespace saccade {

// "oneDNN", "libvips", "ICU" -> version.
std::map<std::string, std::string> library_versions();

// The instructions that rows are computed with here ("oneDNN 0xfef, kernels avx512").
std::string instruction_set();

}  // namespace saccade
