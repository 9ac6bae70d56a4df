// Location of files installed with the library or a program.
#pragma once

#include <filesystem>
#include <vector>

namespace saccade {

// Returns the folders that Saccade may be installed below, likeliest first: that of the running program (PREFIX/bin/saccade)
// and that of the shared library (PREFIX/lib/x86_64-linux-gnu/libsaccade.so). None need exist.
std::vector<std::filesystem::path> install_prefixes();

}  // namespace saccade
