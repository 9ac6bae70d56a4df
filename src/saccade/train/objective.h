// Contrastive objectives over a batch of paired rows.
#pragma once

#include "saccade/train/torch.h"

namespace saccade {

// Symmetric InfoNCE (van den Oord et al. 2018; CLIP, Radford et al. 2021, fig. 3): the mean of the
// cross-entropies image -> text and text -> image over logits exp(log_inverse_temperature) * images texts^T.
//
// images, texts: [n, d], rows of length 1, row i of each belonging together. log_inverse_temperature: scalar.
// positives: undefined, or [n, n] bool with a true diagonal: positives[i][j] says that text j belongs to
// image i as well (it is one of that image's captions). A row's target is then spread evenly over its
// positives (the "out" form of supervised contrastive learning, Khosla et al. 2020, eq. 2), so that they are
// not pushed apart.
torch::Tensor info_nce(const torch::Tensor& images, const torch::Tensor& texts,
                       const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives = {});

// TIP-CLIP's objective (Verma et al. 2023, equation 1): info_nce where the picture of every text that pictures nothing
// is one NULL picture.
//
// images, texts: [n, d], rows of length 1, as above; what stands in `images` at a non-visual text is not read.
// visual: [n] bool. null_picture: [d], of length 1.
// pictures: undefined, or [n] int64: equal numbers for equal pictures, of the visual texts. Undefined is the paper's
// literal loss: of several non-visual texts in a batch only its own pair is right for each copy of the NULL picture,
// and they push each other away from it. With numbers, all pairs of a text with a copy of its own picture are right,
// the NULL picture's among them.
torch::Tensor null_picture_loss(const torch::Tensor& images, const torch::Tensor& texts,
                                const torch::Tensor& visual, const torch::Tensor& null_picture,
                                const torch::Tensor& log_inverse_temperature,
                                const torch::Tensor& pictures = {});

}  // namespace saccade
