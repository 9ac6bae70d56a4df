// saccade generate.
#pragma once

#include <CLI/CLI.hpp>

#include "command.h"

namespace saccade::app {

void add_generate_command(CLI::App& app, Command& chosen);

}  // namespace saccade::app
