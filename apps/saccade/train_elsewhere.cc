// `saccade train` without libtorch: it is done by saccade-train, this same program with the training in it.
// libtorch brings hundreds of libraries, which no other command is to wait for.
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <unistd.h>

#include "command.h"

namespace saccade::app {

void hand_over(char** argv) {
  char** command = argv + 1;
  while (*command != nullptr && **command == '-') ++command;
  if (*command == nullptr || std::string_view(*command) != "train") return;
  // libtorch's threads (OpenMP's) are to sleep while they wait for each other, not to spin: beside other work,
  // spinning threads take the processors from the very threads they wait for. Their runtime reads its
  // environment when it is loaded.
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"saccade-train", "../libexec/saccade/saccade-train"}) {
    ::execv((here / place).c_str(), argv);  // returns only where it failed
  }
}

void add_train_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train an encoder (by the program saccade-train)");
  command->fallthrough(false);  // what follows is for the other program
  command->allow_extras();
  command->set_help_flag();
  command->callback([&chosen] {
    chosen = [](Session&) -> Result<int> {
      return fail(
          ErrorCode::kUnsupported,
          "training is a program of its own, saccade-train, and it is neither beside this one nor in "
          "../libexec/saccade: build it where libtorch is installed (Debian and Ubuntu: libtorch-dev)");
    };
  });
}

}  // namespace saccade::app
