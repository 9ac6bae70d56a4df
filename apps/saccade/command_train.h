// What the commands of `saccade train` share. In saccade-train alone.
#pragma once

#include <filesystem>

#include <CLI/CLI.hpp>

#include "saccade/train/loop_options.h"

#include "command.h"

namespace saccade::app {

CLI::Option* add_path(CLI::App& command, const char* name, std::filesystem::path& path, const char* help);

// -o and the options of a training loop, whatever it trains.
void add_loop_options(CLI::App& command, TrainingLoopOptions& options);
// --steps and --evaluate-every, of trainings that are not counted in epochs.
void add_step_options(CLI::App& command, TrainingLoopOptions& options);

void add_train_composed_command(CLI::App& train, Command& chosen);

void add_train_head_command(CLI::App& train, Command& chosen);

void add_train_editor_command(CLI::App& train, Command& chosen);

void add_train_visualness_command(CLI::App& train, Command& chosen);

}  // namespace saccade::app
