#include "saccade/nn/attention_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "saccade/nn/operations.h"
#include "saccade/nn/workspace.h"

namespace saccade::nn {

AttentionGradient attention_gradient(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& gradient) {
  const Tensor change = gradient.to(DType::kF32).contiguous();
  const int64_t batch = query.size(0);
  const int64_t heads = query.size(2);
  const int64_t depth = query.size(3);
  const int64_t keys = key.size(1);
  Workspace* workspace = workspace_of({&query, &key, &gradient});
  AttentionGradient result;
  result.query = Tensor::zeros({batch, query.size(1), heads, depth}, DType::kF32, workspace);
  result.key_value = Tensor::zeros({batch, keys, 2, heads, depth}, DType::kF32, workspace);
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  const auto at = [](const Tensor& x, int64_t entry, int64_t token, int64_t head) {
    return x.data<float>() + entry * x.stride(0) + token * x.stride(1) + head * x.stride(2);
  };
  const auto dot = [&](const float* a, const float* b) {
    float sum = 0;
    for (int64_t c = 0; c < depth; ++c) sum += a[c] * b[c];
    return sum;
  };
  const auto one_head = [&](int64_t entry, int64_t head) {
    std::vector<float> weights(static_cast<size_t>(keys));
    std::vector<float> changes(static_cast<size_t>(keys));
    for (int64_t i = 0; i < query.size(1); ++i) {
      const float* q = at(query, entry, i, head);
      float* to_query = at(result.query, entry, i, head);
      const float* mixed = change.data<float>() + ((entry * query.size(1) + i) * heads + head) * depth;
      float most = -std::numeric_limits<float>::infinity();
      for (int64_t t = 0; t < keys; ++t) {
        weights[static_cast<size_t>(t)] = scale * dot(q, at(key, entry, t, head));
        changes[static_cast<size_t>(t)] = dot(mixed, at(value, entry, t, head));
        most = std::max(most, weights[static_cast<size_t>(t)]);
      }
      float sum = 0;
      for (float& weight : weights) sum += weight = std::exp(weight - most);
      float mean = 0;
      for (size_t t = 0; t < weights.size(); ++t) {
        weights[t] /= sum;
        mean += weights[t] * changes[t];
      }
      for (int64_t t = 0; t < keys; ++t) {
        const float weight = weights[static_cast<size_t>(t)];
        const float score = scale * weight * (changes[static_cast<size_t>(t)] - mean);
        const float* k = at(key, entry, t, head);
        float* to = result.key_value.data<float>() + ((entry * keys + t) * 2 * heads + head) * depth;
        for (int64_t c = 0; c < depth; ++c) {
          to_query[c] += score * k[c];
          to[c] += score * q[c];
          to[heads * depth + c] += weight * mixed[c];
        }
      }
    }
  };
  split(workspace, batch * heads, 1, [&](int64_t first, int64_t last) {
    for (int64_t pair = first; pair < last; ++pair) one_head(pair / heads, pair % heads);
  });
  return result;
}

Tensor key_value_backward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& gradient) {
  return attention_gradient(query, key, value, gradient).key_value;
}

// Queries become entries of their own, over the same keys.
Tensor relevance_matrix(const RelevanceInput& input) {
  const int64_t queries = input.query.size(1);
  const Tensor gradient = input.gradient.to(DType::kF32).contiguous();
  std::vector<Tensor> matrices;
  for (int64_t entry = 0; entry < input.query.size(0); ++entry) {
    const auto repeated = [&](const Tensor& x) {
      return x.slice(0, entry, entry + 1).expand({queries, x.size(1), x.size(2), x.size(3)});
    };
    RelevanceInput each;
    each.query = input.query[entry].unsqueeze(1);
    each.key = repeated(input.key);
    each.value = repeated(input.value);
    each.gradient = gradient[entry].unsqueeze(1);
    each.weights = Tensor::full({queries, 1}, 1);
    each.times_attention = input.times_attention;
    matrices.push_back(attention_relevance(each).unsqueeze(0));
  }
  return cat(matrices);
}

}  // namespace saccade::nn
