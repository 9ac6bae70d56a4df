// -c of every command: which collection, also where none is named (collection/choose_collection.h).
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "console.h"

namespace saccade::app {

// Collections that a command takes, as its help names them: folders, or also classes of a Weaviate cluster.
enum class CollectionKinds { kFolder, kAny };

void add_collection_option(CLI::App& command, std::string& collection,
                           CollectionKinds kinds = CollectionKinds::kAny);

// Settles which one it is; one that was found because there is no other is named on stderr.
Status settle_collection(std::string& collection, Messages& messages);
// Chooses the collection to which images of `inputs` are added, and prints the name of a new one to stderr.
// kNotFound if it would be new and no input exists: a mistyped path must not create a collection.
Status settle_collection_to_fill(std::string& collection, std::span<const std::filesystem::path> inputs,
                                 Messages& messages);

}  // namespace saccade::app
