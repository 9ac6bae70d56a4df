// Handing a command line over to another program of Saccade, which goes on in this process's place.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace saccade::app {

// Returns the command that a command line names: its first argument that is not an option; empty if there is none.
// `help NAME` counts as NAME.
std::string_view named_command(char** argv);

// Finds a program of Saccade beside this one, or in ../bin or ../libexec/saccade. Empty if there is none.
std::filesystem::path find_own_program(std::string_view name);

// Lists the shared libraries that a program needs and that the loader does not find. Starts the loader alone, which
// takes some hundredths of a second.
std::vector<std::string> missing_libraries(const std::filesystem::path& program);

// Replaces this process by the program, with the same arguments. Returns only if that failed.
void hand_over(const std::filesystem::path& program, char** argv);

}  // namespace saccade::app
