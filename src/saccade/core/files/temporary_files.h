// Names of temporary files (AtomicFile, files.h), for the removal of files left by killed processes.
#pragma once

#include <optional>
#include <string_view>

namespace saccade {

// Returns the final name of the temporary file "NAME.tmp-PROCESS-SERIAL", or nullopt for any other name.
std::optional<std::string_view> temporary_of(std::string_view name);

}  // namespace saccade
