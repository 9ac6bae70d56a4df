// Files that commands write where the user says: --overwrite, and what a command must not replace without it
// (core/output_file.h).
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "saccade/core/output_file.h"

namespace saccade::app {

// Adds --overwrite, for the files that the command's other options name.
CLI::Option* add_overwrite_option(CLI::App& command, bool& overwrite);

// Adds a dataset, as a command takes it (PATH#split=NAME), to the inputs.
void add_dataset_input(OutputRules& rules, const std::string& dataset);
// Closes the folder of a checkpoint by the name that -m takes. Names that lead nowhere are left to whoever loads
// them; an empty one is none.
void close_checkpoint(OutputRules& rules, const std::string& named);

}  // namespace saccade::app
