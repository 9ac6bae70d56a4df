// Kinds of composers, one file each. Internal interface for their files and the trainers.
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/model/composers/composer.h"
#include "saccade/nn/tensor.h"

namespace saccade {

extern const ComposerKind atf_kind;
extern const ComposerKind combiner_kind;
extern const ComposerKind inversion_kind;
extern const ComposerKind sprc_kind;
extern const ComposerKind sum_kind;

// Inputs of a batch as tensors of inference or of training (nn::Tensor, Variable).
template <typename T>
struct ComposerPartsOf {
  T pictures;        // [n, dim], rows of length 1
  T texts;           // [n, dim], rows of length 1
  T picture_tokens;  // [n, picture tokens, dim]; undefined if not needed
  T text_tokens;     // [n, longest, dim], what is behind a text's end is not read; or undefined
  std::vector<int64_t> text_lengths;  // [n]
};
// Returns views of the input's memory; texts of several lengths are copied and padded.
ComposerPartsOf<nn::Tensor> composer_parts(const ComposerInput& input, nn::Workspace* workspace);

}  // namespace saccade
