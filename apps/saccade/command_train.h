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

}  // namespace saccade::app
