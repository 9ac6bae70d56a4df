// Parts of `saccade dataset` that make datasets, one a file.
#pragma once

#include <CLI/CLI.hpp>

#include "lab_commands.h"

namespace saccade::lab::app {

void add_dataset_fetch(CLI::App& group, Command& chosen);
void add_dataset_from_pdf(CLI::App& group, Command& chosen);
void add_dataset_label(CLI::App& group, Command& chosen);

}  // namespace saccade::lab::app
