// What texts that begin with the same tokens have in common. In a causal tower a token's state depends on
// the tokens up to it alone, so that it is worked through once for all of them: of a batch of captions at
// least the start token, of prompts ("a photo of a ...") most. What follows a text's end is left out.
#pragma once

#include "saccade/nn/layers.h"

namespace saccade {

struct BegunAlike {
  nn::Tensor ids;        // [rows] int64: the different tokens, in the order in which they are first met
  nn::Tensor positions;  // [rows] int64: each one's place in its texts
  nn::Tensor ends;       // [texts] int64: the row of each text's last token
  nn::SharedTokens shared;
};
// ids: [texts, tokens] int64; ends: [texts] int64, the place of each text's last token. Cost: a
// look-up a token.
BegunAlike begun_alike(const nn::Tensor& ids, const nn::Tensor& ends);

// Whether a mask (undefined, or [texts, tokens] int64, 0 for what is left out) leaves out nothing up
// to the ends.
bool keeps_up_to_end(const nn::Tensor& mask, const nn::Tensor& ends);

}  // namespace saccade
