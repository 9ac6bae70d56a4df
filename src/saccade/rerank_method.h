// Scores by which a second model ranks the best hits of a search.
#pragma once

#include <string_view>

#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Score of the second model for the query and an image.
enum class RerankMethod {
  kStrongest,  // the last of the following that the model and the query allow
  kCosine,     // cosine similarity of one embedding each
  kMaxSim,     // late interaction
  kMatch,      // matching head, for queries of text alone (BLIP-2: its logit plus the cosine)
};

// Returns "strongest", "cosine", "maxsim" or "match". Thread-safe.
std::string_view name(RerankMethod method);
// Returns the method of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<RerankMethod> parse_rerank_method(std::string_view name);

}  // namespace saccade
#pragma GCC visibility pop
