// Retrieval on held-out data during a training: the sets, their figures as JSON, and the one figure that
// selects the best checkpoint. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "lab/eval/retrieval/one_caption.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Value of "protocol" in every figure below; its name in `eval retrieval --captions`.
inline constexpr const char* kHeldOutProtocol = "one-caption";

// Returns run.json's "held_out_protocol": the protocol's name, and its description.
Json held_out_protocol_json();

// Returns {"queries", "r1", "r5", "r10"}.
Json recall_json(const Recall& recall);
// Returns [{"name", "protocol", "images", "t2i": recall_json, "i2t"}, ...], as in metrics.jsonl.
Json held_out_json(const std::vector<OneCaptionRecall>& recalls);
// Parses that form; kBadData for any other.
Result<std::vector<OneCaptionRecall>> parse_held_out(const Json& json);

// Returns the mean R@10 of both directions over the sets; 0 without sets. It is weighted by their size, so
// that a small set's noise does not decide.
double held_out_headline(const std::vector<OneCaptionRecall>& recalls);

// Returns the SHA-256 over a set's images as encoder inputs.
std::string images_sha256(const OneCaptionSet& set);

}  // namespace saccade::lab
