#pragma once

#include "command.h"

namespace saccade::app {

void add_watch_command(CLI::App& app, Command& chosen);

}  // namespace saccade::app
