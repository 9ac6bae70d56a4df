// The encoder that users get of every family: what leaves it is finite, or an error that names the input.
#pragma once

#include <memory>

#include "saccade/model/encoder.h"

namespace saccade {

// `encoder`, all of whose answers (rows, states, scores, logits) are looked at before they are handed on:
// kBadData where one has a NaN or an infinity, which a ranking would lose without a word. It happens with
// damaged weights, and where a model's numbers are too large for its format. Cost: reads each number once.
std::unique_ptr<EncoderBackend> with_checked_answers(std::unique_ptr<EncoderBackend> encoder);

}  // namespace saccade
