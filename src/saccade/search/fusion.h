// User-facing options of combining an image and a text into one query: a method, one weight, and a
// description of the reference image.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "saccade/core/error.h"
#include "saccade/search/search_query.h"

namespace saccade {

// Creates a fusion. weight: as in compose_weights, 0 to 1; `nullopt` selects the method's default. kUsage for
// another weight, and for `was` with a method that uses no description.
Result<Fusion> make_fusion(Compose method, std::optional<double> weight, std::string was);

// Returns the folder of a composer by its name (find_composer). kUsage if there is no such folder.
Result<std::filesystem::path> composer_folder(const std::string& named);

}  // namespace saccade
