// The parts of `saccade model`, each in a file of its own.
#pragma once

#include "command.h"

namespace saccade::app {

void add_model_pull_command(CLI::App& group, Command& chosen);
void add_model_list_command(CLI::App& group, Command& chosen);
void add_model_alias_command(CLI::App& group, Command& chosen);

}  // namespace saccade::app
