// Wrapper of every encoder given to users: its outputs are finite, or an error names the input.
#pragma once

#include <memory>

#include "saccade/model/encoder_backend.h"

namespace saccade {

// Wraps `encoder` to check all its outputs (embeddings, states, scores, logits). Returns kBadData for an
// output with a NaN or an infinity, which a ranking would silently drop. Causes are damaged weights, or
// values too large for the number format. Cost: reads each number once.
std::unique_ptr<EncoderBackend> with_checked_answers(std::unique_ptr<EncoderBackend> encoder);

}  // namespace saccade
