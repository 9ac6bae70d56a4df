// Names of temporary files (AtomicFile, files.h), for the removal of files left by killed processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace saccade {

// Returns the final name of the temporary file "NAME.tmp-PROCESS-SERIAL", or nullopt for any other name.
std::optional<std::string_view> temporary_of(std::string_view name);

// Removes the temporary files that were to become `file`, best effort: for records that anybody may write anew. A process
// that is writing the file at this moment fails to.
void remove_temporaries(const std::filesystem::path& file);

}  // namespace saccade
