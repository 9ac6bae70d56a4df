// What adaptive token fusion is written over (model/composers/atf.h), with gradients. In torch's own
// operations, of any floating type, so that gradients can be checked in double.
#pragma once

#include "saccade/model/composers/atf.h"
#include "saccade/train/variable.h"

namespace saccade {

inline nn::Tensor plain_values(const Variable& x) {
  return borrow_torch(x.tensor().detach().to(at::kCPU, at::kFloat).contiguous());
}

inline Variable plus_constant(const Variable& x, const nn::Tensor& added) {
  return Variable(x.tensor() + torch_over(added).to(x.tensor().options()));
}

inline Variable mean_of_merged(const Variable& x, const nn::Tensor& kept) {
  const torch::Tensor counted = torch_over(kept).to(x.tensor().options()).unsqueeze(2);
  return Variable((x.tensor() * counted).sum(1) / counted.sum(1).clamp_min(1));
}

inline Variable merge_tokens(const Variable& picture_tokens, const Variable& text_tokens,
                             const TokenMerge& merge, MergeWeights weights, const Variable& share) {
  const Variable all = cat({picture_tokens, text_tokens}, 1);
  const torch::Tensor first = gather_rows(all, merge.first).tensor();
  const torch::Tensor paired = torch_over(merge.paired).to(first.options());
  if (paired.sum().item<double>() == 0) return Variable(first);
  const torch::Tensor second = gather_rows(all, merge.second).tensor();
  torch::Tensor of_text;  // [n, most]
  if (weights == MergeWeights::kSimilarity) {
    // The cosine once more, as gradients cross it.
    const torch::Tensor cosine = at::relu((normalize_rows(first) * normalize_rows(second)).sum(2));
    of_text = cosine / (1 + cosine);
  } else if (weights == MergeWeights::kLearned) {
    of_text = at::sigmoid(share.tensor());
  } else {
    of_text = torch::full({}, 0.5, first.options());
  }
  return Variable(first + (paired * of_text).unsqueeze(2) * (second - first));
}

}  // namespace saccade
