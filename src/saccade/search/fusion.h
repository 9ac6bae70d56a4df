// User-facing options of combining an image and a text into one query: a method, one weight, and a
// description of the reference image.
#pragma once

#include <optional>
#include <string>

#include "saccade/core/error.h"
#include "saccade/search/query.h"

namespace saccade {

// weight: as compose_weights takes it, 0 to 1; nothing: the method's default. kUsage for another weight, and
// for `was` with a method that does not start from words.
Result<Fusion> make_fusion(Compose method, std::optional<double> weight, std::string was);

}  // namespace saccade
