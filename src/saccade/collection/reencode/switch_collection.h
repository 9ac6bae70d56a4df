// Names under which collections are used while one takes the place of another. A name is a symbolic link to a folder, or an
// alias of a class in a Weaviate cluster (an address like weaviate://host/Alias). A server that serves the name follows it.
#pragma once

#include <filesystem>
#include <stop_token>

#include "saccade/core/error.h"

namespace saccade {

enum class NameLeads {
  kNowhere,  // the name is free
  kToFirst,
  kToSecond,
};

// Returns the collection that a name stands for now: a folder with its links resolved, or the address of a class. It stays
// the same one when the name is switched. A collection that does not exist yet is returned as it is named.
Result<std::filesystem::path> settled_collection(const std::filesystem::path& collection);

// Returns the collection that a name leads to. kUsage if it leads to neither, or is a folder, a file or a class itself. kUsage
// also for a name that cannot lead to `second`: a link leads to folders, and an alias to classes of its cluster.
Result<NameLeads> where_name_leads(const std::filesystem::path& name, const std::filesystem::path& first,
                                   const std::filesystem::path& second);

// Makes a name lead to `second` in one step: whoever opens it gets either collection. `second` is no copy of `first` then
// (CollectionInfo::copy_of). Errors of where_name_leads; kIo. Does nothing if that is so already.
Status switch_name(const std::filesystem::path& name, const std::filesystem::path& first,
                   const std::filesystem::path& second, const std::stop_token& stop = {});

// Checks that a collection which is being filled is not used under another name yet. kMismatch for a class that an alias
// leads to; a folder says so itself (check_copy).
Status check_has_no_alias(const std::filesystem::path& collection);

}  // namespace saccade
