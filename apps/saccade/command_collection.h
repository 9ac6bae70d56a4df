// The parts of `saccade collection` that have a file of their own.
#pragma once

#include "command.h"

namespace saccade::app {

void add_collection_reencode_command(CLI::App& group, Command& chosen);

}  // namespace saccade::app
