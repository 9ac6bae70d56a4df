// The run of a program: parses the command line, runs one command, and turns its outcome into a line and an exit code.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "command.h"

namespace saccade::app {

struct Program {
  std::string name;         // "saccade"
  std::string description;  // one sentence, for --help and the manual page
  // Adds the program's commands to the parser.
  std::function<void(CLI::App&, Command&)> add_commands;
  // Commands of the other program, for the message to who gives one to this program.
  std::span<const std::string_view> elsewhere = {};
  std::string other = {};  // its name
};

// Runs the program and returns its exit code. Installs handlers for SIGINT and SIGTERM, ignores SIGPIPE, and catches
// every exception. Call it once, from main().
int run_program(const Program& program, int argc, char** argv);

}  // namespace saccade::app
