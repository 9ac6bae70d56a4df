// How a picture and a text are to be made one query, as people say it: a method, one
// weight, and words for what was there.
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
