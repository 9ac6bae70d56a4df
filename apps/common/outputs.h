// Files that commands write where the user says: --overwrite, and what a command must not replace without it
// (core/files/output_file.h).
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "saccade/core/files/output_file.h"

namespace saccade::app {

// Adds --overwrite, for the files that the command's other options name.
CLI::Option* add_overwrite_option(CLI::App& command, bool& overwrite);

// Adds a dataset, as a command takes it (PATH#split=NAME), to the inputs.
void add_dataset_input(OutputRules& rules, const std::string& dataset);
// Protects the folder of a checkpoint, named as for -m, from being overwritten. Names that do not exist are
// left to the loader to report; an empty name is ignored.
void close_checkpoint(OutputRules& rules, const std::string& named);

}  // namespace saccade::app
