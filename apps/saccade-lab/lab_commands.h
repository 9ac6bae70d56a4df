// The commands of the program saccade-lab, a file each.
#pragma once

#include <array>
#include <string_view>

#include <CLI/CLI.hpp>

#include "command.h"

namespace saccade::lab::app {

using namespace saccade::app;  // the console, sessions and option types that both programs share

// Commands of the program saccade.
inline constexpr std::array<std::string_view, 10> kProductCommands = {
    "index", "search", "collection", "watch", "embed", "model", "visualness", "illustrate", "serve", "demo"};

void add_dataset_command(CLI::App& app, Command& chosen);
void add_eval_command(CLI::App& app, Command& chosen);
void add_generate_command(CLI::App& app, Command& chosen);
void add_report_command(CLI::App& app, Command& chosen);
// Adds the train command. In saccade-lab-train alone, which links libtorch.
void add_train_command(CLI::App& app, Command& chosen);

}  // namespace saccade::lab::app
