// Scores by which a second model ranks the best hits of a search.
#pragma once

namespace saccade {

// Score of the second model for the query and an image.
enum class RerankMethod {
  kStrongest,  // the last of the following that the model and the query allow
  kCosine,     // cosine similarity of one embedding each
  kMaxSim,     // late interaction
  kMatch,      // matching head, for queries of text alone (BLIP-2: its logit plus the cosine)
};

}  // namespace saccade
