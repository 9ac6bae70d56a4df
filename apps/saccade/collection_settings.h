// Options for settings that are fixed when a collection is created, shared by the commands that create one from images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "saccade/engine/core.h"

namespace saccade::app {

struct CollectionSettings {
  std::optional<BackgroundPolicy> background;
  std::optional<Int8Policy> int8_rows;
  std::optional<RowPrecision> rows_precision;
  int64_t pool_rows = 0;  // 0: not given
  bool as_stored = false;
  bool convert_to_srgb = false;
  bool fast_decode = false;
  bool exact_decode = false;
};

// Adds the options under a heading of their own in the help. `settings` is borrowed until the command has run.
void add_collection_settings(CLI::App& command, CollectionSettings& settings, const std::string& heading);
// Returns the settings of a new collection as the options give them.
CollectionChoices choices_of(const CollectionSettings& settings);

}  // namespace saccade::app
