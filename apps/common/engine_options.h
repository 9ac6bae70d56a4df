// The options of commands that have pictures made (saccade/imagegen/image_engine.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/imagegen/image_engine.h"

#include "command.h"

namespace saccade::app {

struct EngineArguments {
  ImageEngineOptions options;
  std::string kind;  // empty: none was given
  std::string size;
  std::string workflow;
  std::vector<std::string> set;
  int64_t timeout = 600;
};

// Adds --engine, whose values are `kinds` and which `help` explains, and the options of engines that speak HTTP.
void add_engine_options(CLI::App& command, EngineArguments& arguments, std::vector<std::string> kinds,
                        const std::string& help);

// Opens the engine that was asked for, with its key from the environment. kUsage names the option at fault.
Result<std::unique_ptr<PictureEngine>> engine_of(const EngineArguments& arguments);

}  // namespace saccade::app
