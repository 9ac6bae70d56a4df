// The commands of the program saccade, a file each.
#pragma once

#include <CLI/CLI.hpp>

#include "command.h"

namespace saccade::app {

void add_index_command(CLI::App& app, Command& chosen);
void add_search_command(CLI::App& app, Command& chosen);
void add_collection_command(CLI::App& app, Command& chosen);
void add_embed_command(CLI::App& app, Command& chosen);
void add_model_command(CLI::App& app, Command& chosen);
void add_serve_command(CLI::App& app, Command& chosen);
void add_demo_command(CLI::App& app, Command& chosen);
void add_illustrate_command(CLI::App& app, Command& chosen);
void add_visualness_command(CLI::App& app, Command& chosen);
void add_watch_command(CLI::App& app, Command& chosen);

}  // namespace saccade::app
