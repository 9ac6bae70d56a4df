// Programs in processes of their own; most of all this one once more.
#pragma once

#include <filesystem>
#include <span>
#include <stop_token>
#include <string>

#include "saccade/core/error.h"

namespace saccade::app {

struct OwnProcess {
  int code = 0;     // its exit code, or 128 + the signal that ended it
  std::string out;  // what it wrote to stdout
};

// Runs the program with these arguments (its name not among them); its stderr is ours. Asked to stop, it is
// sent SIGTERM, once, and waited for: Ctrl-C does not reach it otherwise. kIo where it cannot be started.
Result<OwnProcess> run_own_process(std::span<const std::string> arguments, const std::stop_token& stop);

// Ends this process with SIGTERM once the process that started it by run_own_process() has gone, even by a kill. Does nothing
// in other processes. Call first, on the main thread.
void end_with_starter();

// Runs another program in the same way; environment: "NAME=value", in addition to that of this process.
Result<OwnProcess> run_process(const std::filesystem::path& program, std::span<const std::string> arguments,
                               std::span<const std::string> environment, const std::stop_token& stop);

}  // namespace saccade::app
