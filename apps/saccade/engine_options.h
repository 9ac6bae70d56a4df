// The options of commands that have pictures made (saccade/generate/engine.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "saccade/generate/engine.h"

#include "checkpoint.h"
#include "command.h"

namespace saccade::app {

struct EngineArguments {
  EngineOptions options;
  std::string kind;  // empty: none is given
  std::string size;
  std::string editor;
  std::string workflow;
  std::vector<std::string> set;
  int64_t timeout = 600;
  EncoderChoice encoder;  // threads and precision of the editor of our own
};

// --engine and what goes with it; for pictures of texts without the options of an editor of our own, which
// makes none.
enum class EngineFor { kEdits, kTexts };
void add_engine_options(CLI::App& command, EngineArguments& arguments, EngineFor use);

// The engine that was asked for, its key from the environment. kUsage names the option at fault.
Result<std::unique_ptr<PictureEngine>> engine_of(const EngineArguments& arguments);

}  // namespace saccade::app
