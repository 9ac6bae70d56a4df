// Contrastive objectives over a batch of paired embeddings.
#pragma once

#include "lab/train/math/sprc_weights.h"
#include "lab/train/math/torch.h"

namespace saccade::lab {

// Symmetric InfoNCE (van den Oord et al. 2018; CLIP, Radford et al. 2021, fig. 3): the mean of the
// cross-entropies image -> text and text -> image over logits exp(log_inverse_temperature) * images texts^T.
//
// images, texts: [n, d], rows of length 1, row i of each belonging together. log_inverse_temperature: scalar.
// positives: undefined, or [n, n] bool with a true diagonal. positives[i][j] means that text j belongs to
// image i as well (it is one of that image's captions). A row's target is then spread evenly over its
// positives (the "out" form of supervised contrastive learning, Khosla et al. 2020, eq. 2), so that they are
// not pushed apart.
//
// If positives are only copies (two captions of an image bring its row twice), this equals the loss without
// them, gradients included, since each copy's term stands for the other's. It differs if a text belongs to an
// image that is paired with another of its texts: captions that several images share, or images that are
// augmented separately.
torch::Tensor info_nce(const torch::Tensor& images, const torch::Tensor& texts,
                       const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives = {});

// InfoNCE from queries to candidates alone: the mean of the cross-entropies query -> candidates.
//
// queries: [n, d], candidates: [m, d], rows of length 1; or candidates [m, rows, d], whose nearest row counts
// (BLIP-2, Li et al. 2023, section 3.2). positives: [n, m] bool, with at least one in every row: the relevant
// candidates of a query. Its target is spread evenly over them.
torch::Tensor retrieval_loss(const torch::Tensor& queries, const torch::Tensor& candidates,
                             const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives);

// SPRC's objective (Bai et al. 2024, arXiv 2310.05473), as the published program has it:
//
//   retrieval_loss(queries) + prompt_weight * retrieval_loss(alone)
//     + alignment_weight * the mean over triplets and columns of (mean prompt - mean auxiliary prompt)^2
//
// The auxiliary prompt is a constant in the last term: it is learned by the second.
struct SprcTerms {
  torch::Tensor queries;    // [n, d], of length 1: of prompt and text
  torch::Tensor alone;      // [n, d], of length 1: of the auxiliary prompt and the text, without an image
  torch::Tensor prompts;    // [n, vectors, width]
  torch::Tensor auxiliary;  // [1, vectors, width]: the auxiliary prompt, one for all triplets
};
torch::Tensor sprc_loss(const SprcTerms& terms, const SprcWeights& weights, const torch::Tensor& candidates,
                        const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives);

// TIP-CLIP's objective (Verma et al. 2023, equation 1): info_nce with one NULL image as the image of every
// non-visual text.
//
// images, texts: [n, d], rows of length 1, as above; the rows of `images` at non-visual texts are ignored.
// visual: [n] bool. null_picture: [d], of length 1. pictures: undefined, or [n] int64, not negative: equal
// numbers for equal images, of the visual texts.
//
// Undefined gives the paper's literal loss. An image that is in the batch K times is in every sum K times,
// and each text is a positive of one copy and a negative of the others. A text that is nearer to the NULL
// image than other non-visual texts is pushed away from it, and the loss of an image's rows cannot fall below
// log K.
//
// With numbers, a row's positives are all texts of its image, and a text's are all copies of its image. They
// are summed inside the logarithm: -log(sum over positives exp(logit) / sum over all exp(logit)) (MIL-NCE,
// Miech et al. 2020, equation 1). No text is pushed away from its own image, and the loss falls to 0. If no
// image occurs twice, it is the literal loss. Spreading a target evenly over the positives, as info_nce does,
// would not help here: copies of an image are equal rows, so the sum would be the literal one again.
torch::Tensor null_picture_loss(const torch::Tensor& images, const torch::Tensor& texts,
                                const torch::Tensor& visual, const torch::Tensor& null_picture,
                                const torch::Tensor& log_inverse_temperature,
                                const torch::Tensor& pictures = {});

}  // namespace saccade::lab
