// Location of files installed with the library or a program.
#pragma once

#include <filesystem>
#include <vector>

namespace saccade {

// Returns the folders that Saccade may be installed below, likeliest first: those of the shared library
// (PREFIX/lib/x86_64-linux-gnu/libsaccade.so), whose helpers are of the same build, and that of the running program
// (PREFIX/bin/saccade). None need exist.
std::vector<std::filesystem::path> install_prefixes();

}  // namespace saccade
