// The names of temporary files (AtomicFile, files.h), for those who tidy up
// behind processes that were killed.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace saccade {

// The name of the file that "NAME.tmp-PROCESS-SERIAL" was to become; none for any other name.
std::optional<std::string_view> temporary_of(std::string_view name);

// Removes the temporary files that were to become `file`, best effort: for records that anybody may write anew. A process
// that is writing the file at this moment fails to.
void remove_temporaries(const std::filesystem::path& file);

}  // namespace saccade
