// Texts from a file, for the commands that take many.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::app {

// A text a line, line ends of either sort; kBadData for an empty file.
Result<std::vector<std::string>> read_texts(const std::filesystem::path& path);

}  // namespace saccade::app
