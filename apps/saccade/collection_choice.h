// -c of every command: which collection, also where none is named (collection/choose_collection.h).
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "console.h"

namespace saccade::app {

void add_collection_option(CLI::App& command, std::string& collection);

// Settles which one it is; one that was found because there is no other is named on stderr.
Status settle_collection(std::string& collection, Messages& messages);
// The same for pictures of `inputs` to be added to it; one that is yet to
// be made is named on stderr. kNotFound where it is yet to be made and none
// of the inputs is there: a mistyped path is no reason to make one.
Status settle_collection_to_fill(std::string& collection, std::span<const std::filesystem::path> inputs,
                                 Messages& messages);

}  // namespace saccade::app
