// Retrieval on what is held out, while a training runs: the sets, their figures as JSON, and the one figure
// that decides which checkpoint is best. Internal to the module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "lab/eval/retrieval/one_caption.h"

namespace saccade::lab {

// The value of "protocol" in every figure below: the name that `eval retrieval --captions` has for it.
inline constexpr const char* kHeldOutProtocol = "one-caption";

// run.json's "held_out_protocol": the protocol's name, and in words how the figures come about.
Json held_out_protocol_json();

// [{"name", "protocol", "images", "t2i": {"queries", "r1", "r5", "r10"}, "i2t"}, ...]: as in metrics.jsonl.
Json held_out_json(const std::vector<OneCaptionRecall>& recalls);
// kBadData for what is not of that form.
Result<std::vector<OneCaptionRecall>> parse_held_out(const Json& json);

// Mean R@10 of both directions over the sets, weighed by their size, so that a small set's noise does not
// choose; 0 where there are none.
double held_out_headline(const std::vector<OneCaptionRecall>& recalls);

// SHA-256 over a set's pictures as the encoder takes them.
std::string pictures_sha256(const OneCaptionSet& set);

}  // namespace saccade::lab
