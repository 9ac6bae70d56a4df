#include "saccade/nn/backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "saccade/nn/kernels.h"

namespace saccade::nn {
namespace {

constexpr int64_t kGrain = 1 << 14;  // values that are worth waking a thread for

template <typename Body>
void split(Workspace* workspace, int64_t count, int64_t grain, const Body& body) {
  if (workspace != nullptr) {
    workspace->workers().split(count, grain, [&](int64_t first, int64_t last, int) { body(first, last); });
  } else if (count > 0) {
    body(int64_t{0}, count);
  }
}

Tensor plain(const Tensor& x) {
  return x.to(DType::kF32).contiguous();
}

void check_same(const Tensor& x, const Tensor& gradient) {
  if (x.sizes() == gradient.sizes()) return;
  throw std::logic_error(
      fmt::format("a gradient of {} for {}", shape_text(gradient.sizes()), shape_text(x.sizes())));
}

double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
}

struct ValueAndSlope {
  double value, slope;
};

// x sigmoid(a x) and its derivative.
ValueAndSlope swish(double x, double a) {
  const double s = 1 / (1 + std::exp(-a * x));
  return {x * s, s + a * x * s * (1 - s)};
}

ValueAndSlope value_and_slope(double x, Activation activation) {
  switch (activation) {
    case Activation::kGelu: {
      const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
      return {x * below, below + x * normal_density(x)};
    }
    case Activation::kGeluTanh: {
      const double c = std::sqrt(2 / std::acos(-1.0));
      const double t = std::tanh(c * (x + 0.044715 * x * x * x));
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)};
    }
    case Activation::kQuickGelu:
      return swish(x, 1.702);
    case Activation::kSilu:
      return swish(x, 1);
    case Activation::kRelu:
      return {std::max(x, 0.0), x > 0 ? 1.0 : 0.0};
    case Activation::kNone:
      break;
  }
  return {x, 1};
}

}  // namespace

Tensor layer_norm_backward(const Tensor& x, const Tensor& gain, double eps, const Tensor& gradient) {
  check_same(x, gradient);
  const Tensor in = plain(x);
  const Tensor change = plain(gradient);
  Workspace* workspace = workspace_of({&x, &gradient});
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, workspace);
  const int64_t width = in.size(-1);
  const float* gains = gain.data<float>();
  // With y = (x - m) / s: dx = (g - mean(g) - y mean(g y)) / s, where g = gain * gradient.
  split(workspace, in.numel() / width, 1 + kGrain / width, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const float* values = in.data<float>() + row * width;
      const float* changes = change.data<float>() + row * width;
      float* to = out.data<float>() + row * width;
      double mean = 0;
      for (int64_t i = 0; i < width; ++i) mean += values[i];
      mean /= static_cast<double>(width);
      double square = 0;
      for (int64_t i = 0; i < width; ++i) square += (values[i] - mean) * (values[i] - mean);
      const double spread = std::sqrt(square / static_cast<double>(width) + eps);
      double sum = 0;
      double along = 0;
      for (int64_t i = 0; i < width; ++i) {
        const double g = double{gains[i]} * changes[i];
        sum += g;
        along += g * (values[i] - mean) / spread;
      }
      sum /= static_cast<double>(width);
      along /= static_cast<double>(width);
      for (int64_t i = 0; i < width; ++i) {
        const double y = (values[i] - mean) / spread;
        to[i] = static_cast<float>((double{gains[i]} * changes[i] - sum - y * along) / spread);
      }
    }
  });
  return out;
}

Tensor activate(const Tensor& x, Activation activation) {
  const Tensor in = plain(x);
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, x.workspace());
  split(x.workspace(), in.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      out.data<float>()[i] = static_cast<float>(value_and_slope(in.data<float>()[i], activation).value);
    }
  });
  return out;
}

Tensor activation_backward(const Tensor& x, Activation activation, const Tensor& gradient) {
  check_same(x, gradient);
  const Tensor in = plain(x);
  const Tensor change = plain(gradient);
  Workspace* workspace = workspace_of({&x, &gradient});
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, workspace);
  split(workspace, in.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const double slope = value_and_slope(in.data<float>()[i], activation).slope;
      out.data<float>()[i] = static_cast<float>(slope * change.data<float>()[i]);
    }
  });
  return out;
}

Tensor attention_backward(const Tensor& qkv, int64_t heads, const Tensor& gradient) {
  const Tensor in = plain(qkv);
  const Tensor change = plain(gradient);
  Workspace* workspace = workspace_of({&qkv, &gradient});
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, workspace);
  AttentionGradientTask task;
  const int64_t head_width = in.size(2) / 3 / heads;
  task.attention.set_joint(in.raw(), in.size(0), in.size(1), heads, head_width, DType::kF32);
  task.attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_width)));
  task.out_gradient = change.raw();
  task.qkv_gradient = out.raw();
  attend_back(task, workspace);
  return out;
}

Tensor key_value_backward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& gradient) {
  const Tensor change = plain(gradient);
  const int64_t batch = query.size(0);
  const int64_t heads = query.size(2);
  const int64_t depth = query.size(3);
  const int64_t keys = key.size(1);
  Workspace* workspace = workspace_of({&query, &key, &gradient});
  Tensor out = Tensor::zeros({batch, keys, 2, heads, depth}, DType::kF32, workspace);
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  const auto at = [](const Tensor& x, int64_t entry, int64_t token, int64_t head) {
    return x.data<float>() + entry * x.stride(0) + token * x.stride(1) + head * x.stride(2);
  };
  const auto dot = [&](const float* a, const float* b) {
    float sum = 0;
    for (int64_t c = 0; c < depth; ++c) sum += a[c] * b[c];
    return sum;
  };
  split(workspace, batch * heads, 1, [&](int64_t first, int64_t last) {
    std::vector<float> weights(static_cast<size_t>(keys));
    std::vector<float> changes(static_cast<size_t>(keys));
    for (int64_t pair = first; pair < last; ++pair) {
      const int64_t entry = pair / heads;
      const int64_t head = pair % heads;
      for (int64_t i = 0; i < query.size(1); ++i) {
        const float* q = at(query, entry, i, head);
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
          float* to = out.data<float>() + ((entry * keys + t) * 2 * heads + head) * depth;
          for (int64_t c = 0; c < depth; ++c) {
            to[c] += score * q[c];
            to[heads * depth + c] += weight * mixed[c];
          }
        }
      }
    }
  });
  return out;
}

Tensor attention_relevance(const RelevanceInput& input) {
  const Tensor change = plain(input.gradient);
  const Tensor counted = plain(input.weights);
  RelevanceTask task;
  task.batch = input.query.size(0);
  task.queries = input.query.size(1);
  task.heads = input.query.size(2);
  task.head_width = input.query.size(3);
  task.keys = input.key.size(1);
  task.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(task.head_width)));
  const auto strides = [](const Tensor& x) { return HeadStrides{x.stride(0), x.stride(1), x.stride(2)}; };
  task.query = input.query.data<float>();
  task.key = input.key.data<float>();
  task.value = input.value.data<float>();
  task.query_strides = strides(input.query);
  task.key_strides = strides(input.key);
  task.value_strides = strides(input.value);
  task.out_gradient = change.data<float>();
  task.weights = counted.data<float>();
  task.times_attention = input.times_attention;
  if (change.sizes() != Shape{task.batch, task.queries, task.heads * task.head_width} ||
      counted.sizes() != Shape{task.batch, task.queries} || input.key.sizes() != input.value.sizes()) {
    throw std::logic_error(fmt::format("relevance of {} queries: gradient {}, weights {}, keys {}",
                                       shape_text(input.query.sizes()), shape_text(change.sizes()),
                                       shape_text(counted.sizes()), shape_text(input.key.sizes())));
  }
  Workspace* workspace = workspace_of({&input.query, &input.gradient});
  const Tensor each = Tensor::empty({task.batch, task.heads, task.keys}, DType::kF32, workspace);
  task.out = each.data<float>();
  relate(task, workspace);
  Tensor out = Tensor::zeros({task.batch, task.keys}, DType::kF32, workspace);
  for (int64_t entry = 0; entry < task.batch; ++entry) {
    float* to = out.data<float>() + entry * task.keys;
    for (int64_t head = 0; head < task.heads; ++head) {
      const float* from = each.data<float>() + (entry * task.heads + head) * task.keys;
      for (int64_t k = 0; k < task.keys; ++k) to[k] += from[k] / static_cast<float>(task.heads);
    }
  }
  return out;
}

RelevanceInput relevance_input(const Tensor& qkv, int64_t heads) {
  const Tensor parts =
      plain(qkv).view({qkv.size(0), qkv.size(1), 3, heads, qkv.size(2) / 3 / heads}).in(qkv.workspace());
  RelevanceInput input;
  input.query = parts.select(2, 0);
  input.key = parts.select(2, 1);
  input.value = parts.select(2, 2);
  return input;
}

}  // namespace saccade::nn
