#include "hand_over.h"

#include <sstream>
#include <unistd.h>

#include "own_process.h"

namespace saccade::app {

std::string_view named_command(char** argv) {
  if (*argv == nullptr) return {};
  char** word = argv + 1;
  const auto skip_options = [&word] {
    while (*word != nullptr && **word == '-') ++word;
  };
  skip_options();
  if (*word != nullptr && std::string_view(*word) == "help") {
    ++word;
    skip_options();
  }
  return *word == nullptr ? std::string_view() : std::string_view(*word);
}

std::filesystem::path find_own_program(std::string_view name) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : {"", "../bin", "../libexec/saccade", "../../bin"}) {
    std::filesystem::path program = here / folder / name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

std::vector<std::string> missing_libraries(const std::filesystem::path& program) {
  std::vector<std::string> missing;
  // The loader lists them instead of starting the program ("libc10.so.1.13 => not found"): after an exec it would be too
  // late to say so.
  const std::vector<std::string> listing = {"LD_TRACE_LOADED_OBJECTS=1"};
  const auto listed = run_process(program, {}, listing, {});
  if (!listed) return missing;
  std::istringstream lines(listed->out);
  for (std::string line; std::getline(lines, line);) {
    const size_t arrow = line.find(" => not found");
    const size_t begin = line.find_first_not_of(" \t");
    if (arrow != std::string::npos && begin < arrow) missing.push_back(line.substr(begin, arrow - begin));
  }
  return missing;
}

void hand_over(const std::filesystem::path& program, char** argv) {
  ::execv(program.c_str(), argv);
}

}  // namespace saccade::app
