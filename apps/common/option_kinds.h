// Kinds of options' values in help: a folder, a file, a number.
#pragma once

#include <CLI/CLI.hpp>

namespace saccade::app {

// Gives all options of a program, and of the commands below, a word for the kind of their values, as help shows it: FILE,
// DIR, N (a whole number), NUMBER and so on; a name of a few stays listed. Options that take several numbers or names also
// take them in one list, "fp32,int8". Paths, datasets and checkpoints are not taken empty. Call it once, after all commands
// are added.
void name_option_kinds(CLI::App& app);

}  // namespace saccade::app
