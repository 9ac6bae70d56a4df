// Location of files installed with the library or a program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace saccade {

// Returns the folders that Saccade may be installed below, likeliest first: those of the shared library
// (PREFIX/lib/x86_64-linux-gnu/libsaccade.so), whose helpers are of the same build, and that of the running program
// (PREFIX/bin/saccade, PREFIX/libexec/saccade/saccade-decode). None need exist.
std::vector<std::filesystem::path> install_prefixes();

// Returns the folder of shared libraries that were installed together with Saccade, PREFIX/lib/saccade, if it has `file`.
// The Python wheels bring the libraries that are loaded late there; a Debian package uses those of the system.
std::optional<std::filesystem::path> bundled_libraries(
    const std::string& file, const std::vector<std::filesystem::path>& prefixes = install_prefixes());

}  // namespace saccade
