// The commands below `saccade eval`, a file each.
#pragma once

#include <CLI/CLI.hpp>

#include "lab_commands.h"

namespace saccade::lab::app {

void add_eval_retrieval_command(CLI::App& eval, Command& chosen);
void add_eval_winoground_command(CLI::App& eval, Command& chosen);
void add_eval_composed_command(CLI::App& eval, Command& chosen);
void add_eval_edits_command(CLI::App& eval, Command& chosen);
void add_eval_length_command(CLI::App& eval, Command& chosen);
void add_eval_answers_command(CLI::App& eval, Command& chosen);
void add_eval_matches_command(CLI::App& eval, Command& chosen);
void add_eval_speed_command(CLI::App& eval, Command& chosen);
void add_eval_classification_command(CLI::App& eval, Command& chosen);
void add_eval_study_command(CLI::App& eval, Command& chosen);
void add_eval_advise_command(CLI::App& eval, Command& chosen);
void add_eval_visualness_command(CLI::App& eval, Command& chosen);

}  // namespace saccade::lab::app
