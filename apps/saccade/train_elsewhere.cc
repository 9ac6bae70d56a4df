// `saccade train` without libtorch: it is done by saccade-train, this same program with the training in it.
// libtorch brings hundreds of libraries, which no other command is to wait for.
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <fmt/ranges.h>

#include "command.h"
#include "own_process.h"

namespace saccade::app {
namespace {

// The program beside this one or where it is installed; empty where there is none.
std::filesystem::path training_program() {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"saccade-train", "../libexec/saccade/saccade-train"}) {
    if (::access((here / place).c_str(), X_OK) == 0) return here / place;
  }
  return {};
}

// The shared libraries it needs and the loader does not find: after an exec it would be too late to say
// so. The loader lists them instead of starting the program, in some hundredths of a second
// ("libc10.so.1.13 => not found").
std::vector<std::string> missing_libraries(const std::filesystem::path& program) {
  std::vector<std::string> missing;
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

constexpr std::string_view kNeeds = "training needs libtorch (Debian and Ubuntu: libtorch-dev)";

Error why_not() {
  const std::filesystem::path program = training_program();
  if (program.empty()) {
    return {
        ErrorCode::kUnsupported,
        fmt::format("{} and a program built with it, saccade-train, which is neither beside this one nor in "
                    "../libexec/saccade",
                    kNeeds)};
  }
  const std::vector<std::string> missing = missing_libraries(program);
  return {ErrorCode::kUnsupported,
          missing.empty()
              ? fmt::format("{}: {} does not start", kNeeds, program.string())
              : fmt::format("{}: {} finds no {}", kNeeds, program.string(), fmt::join(missing, ", "))};
}

}  // namespace

void hand_over(char** argv) {
  char** command = argv + 1;
  while (*command != nullptr && **command == '-') ++command;
  if (*command == nullptr) return;
  const std::string_view name = *command;
  // What is made of the table of commands is made where training's are in it.
  const bool helps = name == "help" && command[1] != nullptr && std::string_view(command[1]) == "train";
  if (name != "train" && name != "completion" && name != "man" && !helps) return;
  const std::filesystem::path program = training_program();
  if (program.empty() || !missing_libraries(program).empty()) return;
  // libtorch's threads (OpenMP's) are to sleep while they wait for each other, not to spin: beside other
  // work, spinning threads take the processors from the very threads they wait for. Their runtime reads its
  // environment when it is loaded.
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  ::execv(program.c_str(), argv);  // returns only where it failed
}

void add_train_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train an encoder (by the program saccade-train)");
  command->fallthrough(false);  // what follows is for the other program
  command->allow_extras();
  command->set_help_flag();
  command->callback(
      [&chosen] { chosen = [](Session&) -> Result<int> { return tl::unexpected(why_not()); }; });
}

}  // namespace saccade::app
