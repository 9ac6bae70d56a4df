// Help, shell completion and manual pages of the program, generated from the parser's table of commands and
// options.
#pragma once

#include <initializer_list>
#include <string>

#include <CLI/CLI.hpp>

#include "command.h"

namespace saccade::app {

// `help`, `completion` and `man`. The app is borrowed until the command has run.
void add_help_commands(CLI::App& app, Command& chosen);

// Options under headings of their own in the help; the rest stays under "Options". Every name must be one.
struct OptionGroup {
  std::string heading;
  std::initializer_list<const char*> options;
};
void group_options(CLI::App& command, std::initializer_list<OptionGroup> groups);

}  // namespace saccade::app
