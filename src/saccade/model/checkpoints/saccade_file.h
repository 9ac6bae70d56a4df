// Saccade's own data beside a checkpoint's weights: saccade.json, an object with one member per kind of data
// (effective_length.h, visualness.h). Internal to the module.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade {

std::filesystem::path saccade_file(const std::filesystem::path& checkpoint);
// Reads the file's object; empty without the file.
Result<Json> read_saccade_file(const std::filesystem::path& checkpoint);
Status write_saccade_file(const std::filesystem::path& checkpoint, const Json& json);

}  // namespace saccade
