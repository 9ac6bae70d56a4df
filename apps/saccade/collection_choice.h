// -c of every command: which collection, also where none is named (collection/choose_collection.h).
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "console.h"

namespace saccade::app {

void add_collection_option(CLI::App& command, std::string& collection);

// Settles which one it is; one that was found because there is no other is named on stderr.
Status settle_collection(std::string& collection, Messages& messages);
// The same for pictures to be added to it; one that is yet to be made is named on stderr.
Status settle_collection_to_fill(std::string& collection, Messages& messages);

}  // namespace saccade::app
