#include "lab/train/math/objective.h"

#include <limits>

namespace saccade::lab {
namespace {

// Returns the mean over rows of the cross-entropy, with the target spread over each row's positives.
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& positives) {
  const torch::Tensor log_share = at::log_softmax(logits, 1);
  if (!positives.defined()) return -log_share.diagonal().mean();
  const torch::Tensor target = positives.to(logits.scalar_type());
  return -((log_share * target).sum(1) / target.sum(1)).mean();
}

// Returns the mean over rows of -log of the total probability of a row's positives.
torch::Tensor cross_entropy_together(const torch::Tensor& logits, const torch::Tensor& positives) {
  const torch::Tensor right =
      at::logsumexp(logits.masked_fill(positives.logical_not(), -std::numeric_limits<double>::infinity()), 1);
  return (at::logsumexp(logits, 1) - right).mean();
}

// Returns [n, m] dot products of queries [n, d] with candidates [m, d], or with the nearest row of candidates
// [m, rows, d].
torch::Tensor cosines(const torch::Tensor& queries, const torch::Tensor& candidates) {
  if (candidates.dim() == 2) return at::matmul(queries, candidates.t());
  const int64_t m = candidates.size(0);
  return at::matmul(queries, candidates.flatten(0, 1).t()).view({queries.size(0), m, -1}).amax(2);
}

}  // namespace

torch::Tensor info_nce(const torch::Tensor& images, const torch::Tensor& texts,
                       const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives) {
  const torch::Tensor logits = at::matmul(images, texts.t()) * log_inverse_temperature.exp();
  const torch::Tensor transposed = positives.defined() ? positives.t() : positives;
  return (cross_entropy(logits, positives) + cross_entropy(logits.t(), transposed)) / 2;
}

torch::Tensor retrieval_loss(const torch::Tensor& queries, const torch::Tensor& candidates,
                             const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives) {
  return cross_entropy(cosines(queries, candidates) * log_inverse_temperature.exp(), positives);
}

torch::Tensor sprc_loss(const SprcTerms& terms, const SprcWeights& weights, const torch::Tensor& candidates,
                        const torch::Tensor& log_inverse_temperature, const torch::Tensor& positives) {
  const torch::Tensor distance = terms.prompts.mean(1) - terms.auxiliary.detach().mean(1);
  return retrieval_loss(terms.queries, candidates, log_inverse_temperature, positives) +
         weights.prompt * retrieval_loss(terms.alone, candidates, log_inverse_temperature, positives) +
         weights.alignment * distance.square().mean();
}

torch::Tensor null_picture_loss(const torch::Tensor& images, const torch::Tensor& texts,
                                const torch::Tensor& visual, const torch::Tensor& null_picture,
                                const torch::Tensor& log_inverse_temperature, const torch::Tensor& pictures) {
  const torch::Tensor rows =
      at::where(visual.unsqueeze(1), images, null_picture.unsqueeze(0).expand_as(images));
  if (!pictures.defined()) return info_nce(rows, texts, log_inverse_temperature);
  const torch::Tensor numbers = at::where(visual, pictures, at::full_like(pictures, -1));
  const torch::Tensor positives = numbers.unsqueeze(0) == numbers.unsqueeze(1);  // its own transpose
  const torch::Tensor logits = at::matmul(rows, texts.t()) * log_inverse_temperature.exp();
  return (cross_entropy_together(logits, positives) + cross_entropy_together(logits.t(), positives)) / 2;
}

}  // namespace saccade::lab
