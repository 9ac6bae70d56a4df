// Shared common prefixes of texts (prefix tree). In a causal tower a token's state depends only on the tokens
// up to it, so a common prefix is computed once. A batch of captions shares at least the start token; prompts
// ("a photo of a ...") share most tokens. Tokens after a text's end are omitted.
#pragma once

#include "saccade/nn/layers.h"

namespace saccade {

struct BegunAlike {
  nn::Tensor ids;        // [rows] int64: the different tokens, in the order in which they are first met
  nn::Tensor positions;  // [rows] int64: each one's place in its texts
  nn::Tensor ends;       // [texts] int64: the row of each text's last token
  nn::SharedTokens shared;
};
// Finds common prefixes. ids: [texts, tokens] int64; ends: [texts] int64, the position of each text's last
// token. Cost: one look-up per token.
BegunAlike begun_alike(const nn::Tensor& ids, const nn::Tensor& ends);

// Returns true if a mask (undefined, or [texts, tokens] int64, 0 for excluded tokens) keeps all tokens up to
// the ends.
bool keeps_up_to_end(const nn::Tensor& mask, const nn::Tensor& ends);

}  // namespace saccade
