#include "lab/train/math/atf_operations.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

namespace saccade::lab {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using TensorList = torch::autograd::variable_list;
using MaybeTensor = c10::optional<Tensor>;

// Number of parts in which gradients of shared inputs are summed, whatever the number of threads.
constexpr int64_t kParts = 8;

int64_t none_of(const Variable& table) {
  return table.defined() ? table.size(0) - 1 : 0;
}

// Calls body(part, first entry, last entry, scratch memory) for each part, on torch's threads.
template <typename Body>
void for_parts(const nn::TokenPoolTask& task, bool gradient, const Body& body) {
  const auto floats = static_cast<size_t>(nn::token_pool_scratch(task, gradient));
  at::parallel_for(0, kParts, 1, [&](int64_t first, int64_t last) {
    std::vector<float> scratch(floats);
    for (int64_t part = first; part < last; ++part) {
      body(part, task.entries * part / kParts, task.entries * (part + 1) / kParts, scratch.data());
    }
  });
}

// Values that the backward pass needs from the forward pass.
struct PoolKept : torch::CustomClassHolder {
  Tensor picture_tokens, text_tokens;  // memory that `tokens` points into
  std::vector<nn::PooledToken> tokens;
  std::vector<int64_t> begin;
  std::array<Tensor, 2> tables;
  Tensor gain, bias, query, share;
  int64_t heads = 1;

  [[nodiscard]] nn::TokenPoolTask task() const {
    nn::TokenPoolTask task;
    task.entries = picture_tokens.size(0);
    task.width = picture_tokens.size(2);
    task.heads = heads;
    task.tokens = tokens;
    task.begin = begin;
    for (size_t side = 0; side < 2; ++side) {
      if (tables[side].defined()) task.tables[side] = tables[side].data_ptr<float>();
    }
    task.gain = gain.data_ptr<float>();
    task.bias = bias.data_ptr<float>();
    task.eps = static_cast<float>(kMergedNormEps);
    if (query.defined()) task.query = query.data_ptr<float>();
    task.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(task.width)));
    return task;
  }
};

Tensor plain_of(const MaybeTensor& x) {
  return x ? x->detach().contiguous() : Tensor();
}

class PoolFunction : public torch::autograd::Function<PoolFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gain, const Tensor& bias,
                        const MaybeTensor& query, const MaybeTensor& pictures, const MaybeTensor& texts,
                        const MaybeTensor& share, const MergedPoolOf<Variable>& pool) {
    auto kept = c10::make_intrusive<PoolKept>();
    kept->picture_tokens = pool.picture_tokens.tensor().detach().contiguous();
    kept->text_tokens = pool.text_tokens.tensor().detach().contiguous();
    kept->share = plain_of(share);
    kept->tokens =
        pooled_tokens(borrow_torch(kept->picture_tokens), borrow_torch(kept->text_tokens), *pool.merge,
                      pool.weights, kept->share.defined() ? kept->share.item<float>() : 0.0F,
                      none_of(pool.picture_places), none_of(pool.text_places));
    kept->begin = pool.merge->begin;
    kept->tables = {plain_of(pictures), plain_of(texts)};
    kept->gain = gain.detach().contiguous();
    kept->bias = bias.detach().contiguous();
    kept->query = plain_of(query);
    kept->heads = pool.heads;
    nn::TokenPoolTask task = kept->task();
    Tensor out = torch::empty({task.entries, task.heads * task.width});
    task.out = out.data_ptr<float>();
    for_parts(task, false, [&](int64_t, int64_t first, int64_t last, float* scratch) {
      nn::token_pool_kernels().front().pool(task, first, last, scratch);
    });
    context->saved_data["kept"] = c10::IValue::make_capsule(std::move(kept));
    return out;
  }

  static TensorList backward(AutogradContext* context, const TensorList& gradients) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const PoolKept&>(*capsule);
    const Tensor out_gradient = gradients[0].contiguous();
    nn::TokenPoolGradientTask task;
    task.pool = kept.task();
    task.out_gradient = out_gradient.data_ptr<float>();
    Tensor query;
    if (kept.query.defined()) {
      query = torch::empty_like(kept.query);
      task.query = query.data_ptr<float>();
    }
    // Each part has its own sum; they are added in order.
    const auto parts_like = [](const Tensor& x) {
      if (!x.defined()) return Tensor();
      std::vector<int64_t> shape = {kParts};
      shape.insert(shape.end(), x.sizes().begin(), x.sizes().end());
      return torch::zeros(shape);
    };
    const std::array<Tensor, 5> sums = {parts_like(kept.gain), parts_like(kept.bias),
                                        parts_like(kept.tables[0]), parts_like(kept.tables[1]),
                                        parts_like(kept.share)};
    for_parts(task.pool, true, [&](int64_t part, int64_t first, int64_t last, float* scratch) {
      nn::TokenPoolGradientTask own = task;
      const auto of_part = [&](const Tensor& x) {
        return x.defined() ? x.data_ptr<float>() + part * (x.numel() / kParts) : nullptr;
      };
      own.gain = of_part(sums[0]);
      own.bias = of_part(sums[1]);
      own.tables = {of_part(sums[2]), of_part(sums[3])};
      own.shares = of_part(sums[4]);
      nn::token_pool_kernels().front().pool_back(own, first, last, scratch);
    });
    const auto sum_of = [](const Tensor& x) { return x.defined() ? x.sum(0) : Tensor(); };
    Tensor share = sum_of(sums[4]);
    if (share.defined()) {
      const Tensor s = at::sigmoid(kept.share);
      share = share * s * (1 - s);
    }
    return {sum_of(sums[0]), sum_of(sums[1]), query, sum_of(sums[2]), sum_of(sums[3]), share, Tensor()};
  }
};

// Inputs of the plain operations: row numbers, by places of a batch padded to its longest entry.
struct PaddedMerge {
  Tensor first, second;                // int64 [n, most]: rows of [picture tokens; text tokens]
  Tensor paired;                       // bool [n, most]
  Tensor picture_places, text_places;  // int64 [n, most]
  Tensor kept;                         // bool [n, most]

  PaddedMerge(const TokenMerge& merge, int64_t picture_tokens, int64_t picture_none, int64_t text_none) {
    const auto n = std::ssize(merge.begin) - 1;
    int64_t most = 1;
    for (size_t e = 0; e + 1 < merge.begin.size(); ++e) {
      most = std::max(most, merge.begin[e + 1] - merge.begin[e]);
    }
    for (Tensor* numbers : {&first, &second, &picture_places, &text_places}) {
      *numbers = torch::zeros({n, most}, at::kLong);
    }
    for (Tensor* flags : {&paired, &kept}) *flags = torch::zeros({n, most}, at::kBool);
    for (int64_t e = 0; e < n; ++e) {
      const int64_t begin = merge.begin[static_cast<size_t>(e)];
      for (int64_t k = begin; k < merge.begin[static_cast<size_t>(e) + 1]; ++k) {
        const MergedToken& token = merge.tokens[static_cast<size_t>(k)];
        const int64_t at = e * most + k - begin;
        const int64_t text_row = picture_tokens + token.text;
        first.data_ptr<int64_t>()[at] = token.picture >= 0 ? token.picture : text_row;
        second.data_ptr<int64_t>()[at] = token.text >= 0 ? text_row : token.picture;
        paired.data_ptr<bool>()[at] = token.is_average();
        picture_places.data_ptr<int64_t>()[at] = token.picture >= 0 ? token.picture : picture_none;
        text_places.data_ptr<int64_t>()[at] = token.text >= 0 ? token.text : text_none;
        kept.data_ptr<bool>()[at] = true;
      }
    }
  }
};

Tensor merged_of(const Tensor& picture_tokens, const Tensor& text_tokens, const PaddedMerge& padded,
                 MergeWeights weights, const Tensor& share) {
  const Variable all(torch::cat({picture_tokens, text_tokens}, 1));
  const Tensor first = gather_rows(all, borrow_torch(padded.first)).tensor();
  const Tensor second = gather_rows(all, borrow_torch(padded.second)).tensor();
  Tensor of_text;  // [n, most] or a scalar
  if (weights == MergeWeights::kSimilarity) {
    // Computes the cosine again, so that gradients pass through it.
    const Tensor cosine = at::relu((normalize_rows(first) * normalize_rows(second)).sum(2));
    of_text = cosine / (1 + cosine);
  } else if (weights == MergeWeights::kLearned) {
    of_text = at::sigmoid(share);
  } else {
    of_text = torch::full({}, 0.5, first.options());
  }
  return first + (padded.paired.to(first.options()) * of_text).unsqueeze(2) * (second - first);
}

}  // namespace

nn::Tensor plain_values(const Variable& x) {
  return borrow_torch(x.tensor().detach().to(at::kCPU, at::kFloat).contiguous());
}

Variable constant_beside(const Variable& x, const nn::Tensor& table) {
  return Variable(torch_over(table.contiguous()).to(x.tensor().options()));
}

Tensor merged_tokens(const Tensor& picture_tokens, const Tensor& text_tokens, const TokenMerge& merge,
                     MergeWeights weights, const Tensor& share) {
  return merged_of(picture_tokens, text_tokens, PaddedMerge(merge, picture_tokens.size(1), 0, 0), weights,
                   share);
}

Variable pool_merged_plainly(const MergedPoolOf<Variable>& pool) {
  const Tensor& pictures = pool.picture_tokens.tensor();
  const int64_t n = pictures.size(0);
  const int64_t dim = pictures.size(2);
  const PaddedMerge padded(*pool.merge, pictures.size(1), none_of(pool.picture_places),
                           none_of(pool.text_places));
  Variable x(merged_of(pictures, pool.text_tokens.tensor(), padded, pool.weights, pool.share.tensor()));
  if (pool.picture_places.defined()) {
    x = x + embedding(pool.picture_places, borrow_torch(padded.picture_places));
  }
  if (pool.text_places.defined()) x = x + embedding(pool.text_places, borrow_torch(padded.text_places));
  const Tensor& gain = pool.gain.tensor();
  const Tensor tokens = at::layer_norm(x.tensor(), gain.sizes(), gain, pool.bias.tensor(), kMergedNormEps);
  const Tensor kept = padded.kept.to(tokens.device());
  if (!pool.query.defined()) {
    const Tensor counted = kept.to(tokens.scalar_type()).unsqueeze(2);
    return Variable((tokens * counted).sum(1) / counted.sum(1));
  }
  const Tensor asked = pool.query.tensor().view({n, pool.heads, dim});
  const Tensor scores =
      at::matmul(asked / std::sqrt(static_cast<double>(dim)), tokens.transpose(1, 2))
          .masked_fill(kept.logical_not().unsqueeze(1), -std::numeric_limits<double>::infinity());
  return Variable(at::matmul(at::softmax(scores, -1), tokens).reshape({n, pool.heads * dim}));
}

Variable pool_merged(const MergedPoolOf<Variable>& pool) {
  const Tensor& pictures = pool.picture_tokens.tensor();
  const Tensor& texts = pool.text_tokens.tensor();
  const bool of_tokens = at::GradMode::is_enabled() && (pictures.requires_grad() || texts.requires_grad());
  for (const Tensor* x : {&pictures, &texts, &pool.gain.tensor()}) {
    if (of_tokens || !x->is_cpu() || x->scalar_type() != at::kFloat) return pool_merged_plainly(pool);
  }
  const auto maybe = [](const Variable& x) { return x.defined() ? MaybeTensor(x.tensor()) : c10::nullopt; };
  return Variable(PoolFunction::apply(pool.gain.tensor(), pool.bias.tensor(), maybe(pool.query),
                                      maybe(pool.picture_places), maybe(pool.text_places), maybe(pool.share),
                                      pool));
}

}  // namespace saccade::lab
