// Aliases of classes in a Weaviate cluster, by its REST interface /v1/aliases. Not for use outside this module.
//
// A class is opened through an alias like through its own name (open_class).
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/weaviate/weaviate_client.h"
#include "saccade/core/error.h"

namespace saccade::weaviate {

// Returns the class that an alias leads to; `nullopt` if there is no such alias.
Result<std::optional<std::string>> class_of_alias(const Client& client, const std::string& alias);
// Returns the aliases that lead to a class.
Result<std::vector<std::string>> aliases_of_class(const Client& client, const std::string& class_name);
// Makes an alias lead to a class, in one step for all clients. Creates it if it is missing. kBadData with the engine's
// message for a name that a class has, or a class that is missing.
Status set_alias(const Client& client, const std::string& alias, const std::string& class_name,
                 const std::stop_token& stop = {});

}  // namespace saccade::weaviate
