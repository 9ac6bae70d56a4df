// Contrastive objectives over a batch of paired rows.
#pragma once

#include "lab/train/math/torch.h"

namespace saccade::lab {

// Symmetric InfoNCE (van den Oord et al. 2018; CLIP, Radford et al. 2021, fig. 3): the mean of the
// cross-entropies image -> text and text -> image over logits exp(log_inverse_temperature) * images texts^T.
//
// images, texts: [n, d], rows of length 1, row i of each belonging together. log_inverse_temperature: scalar.
// positives: undefined, or [n, n] bool with a true diagonal: positives[i][j] says that text j belongs to
// image i as well (it is one of that image's captions). A row's target is then spread evenly over its
// positives (the "out" form of supervised contrastive learning, Khosla et al. 2020, eq. 2), so that they are
// not pushed apart. Where positives are only copies (two captions of a picture bring its row twice) this is
// the loss without them, gradients and all: each copy's term stands for the other's. It is another loss where
// a text belongs to a picture that stands beside another of its texts: captions that several pictures share,
// pictures that are augmented each in its own way.
torch::Tensor info_nce(const torch::Tensor& images, const torch::Tensor& texts,
                       const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives = {});

// The same from queries to candidates alone: the mean of the cross-entropies query -> candidates.
//
// queries: [n, d], candidates: [m, d], rows of length 1. positives: [n, m] bool, with one in every row at
// least: the candidates that are right for a query. Its target is spread evenly over them.
torch::Tensor retrieval_loss(const torch::Tensor& queries, const torch::Tensor& candidates,
                             const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives);

// TIP-CLIP's objective (Verma et al. 2023, equation 1): info_nce where the picture of every text that
// pictures nothing is one NULL picture.
//
// images, texts: [n, d], rows of length 1, as above; what stands in `images` at a non-visual text is not
// read. visual: [n] bool. null_picture: [d], of length 1. pictures: undefined, or [n] int64, not negative:
// equal numbers for equal pictures, of the visual texts.
//
// Undefined is the paper's literal loss. A picture that is in the batch K times is in every sum K times, and
// each text is right for one copy and wrong for the others: a text nearer to the NULL picture than its like
// is pushed away from it, and the loss of a picture's rows cannot fall below log K.
//
// With numbers, a row's positives are all texts of its picture, and a text's all copies of its
// picture, summed inside the logarithm: -log(sum over positives exp(logit) / sum over all exp(logit))
// (MIL-NCE, Miech et al. 2020, equation 1). No text is pushed away from its own picture, and the loss
// falls to 0. Without a picture that is there twice it is the literal loss. To spread a target evenly
// over the positives, as info_nce does, would mend nothing here: copies of a picture are equal rows,
// so the sum is the literal one again.
torch::Tensor null_picture_loss(const torch::Tensor& images, const torch::Tensor& texts,
                                const torch::Tensor& visual, const torch::Tensor& null_picture,
                                const torch::Tensor& log_inverse_temperature,
                                const torch::Tensor& pictures = {});

}  // namespace saccade::lab
