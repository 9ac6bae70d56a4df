#include "saccade/nn/backward.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "saccade/nn/kernels/activation_lanes.h"
#include "saccade/nn/kernels/kernels.h"

namespace saccade::nn {
namespace {

constexpr int64_t kGrain = 1 << 14;  // values that are worth waking a thread for

Tensor plain(const Tensor& x) {
  return x.to(DType::kF32).contiguous();
}

void check_same(const Tensor& x, const Tensor& gradient) {
  if (x.sizes() == gradient.sizes()) return;
  throw std::logic_error(
      fmt::format("a gradient of {} for {}", shape_text(gradient.sizes()), shape_text(x.sizes())));
}

// --- in vectors -------------------------------------------------------------------------------------------

// Computes activation(x), or gradient * activation'(x) if `gradient` is not null.
template <int W, Activation kActivation>
SACCADE_INLINE void activate_all(const float* x, const float* gradient, int64_t count, float* out) {
  typename Lanes<W>::Floats v;
  typename Lanes<W>::Floats change;
  float last[W] = {};
  for (int64_t i = 0; i < count; i += W) {
    const int64_t here = std::min<int64_t>(W, count - i);
    if (here < W) std::copy_n(x + i, here, last);
    load(v, here < W ? last : x + i);
    if (gradient == nullptr) {
      activate<W, kActivation>(v);
    } else {
      slope<W, kActivation>(v);
      if (here < W) std::copy_n(gradient + i, here, last);
      load(change, here < W ? last : gradient + i);
      v *= change;
    }
    if (here == W) {
      store(out + i, v);
    } else {
      store(last, v);
      std::copy_n(last, here, out + i);
    }
  }
}

template <int W>
SACCADE_INLINE void activate_with(Activation activation, const float* x, const float* gradient, int64_t count,
                                  float* out) {
  switch (activation) {
    case Activation::kNone:
      return activate_all<W, Activation::kNone>(x, gradient, count, out);
    case Activation::kRelu:
      return activate_all<W, Activation::kRelu>(x, gradient, count, out);
    case Activation::kGelu:
      return activate_all<W, Activation::kGelu>(x, gradient, count, out);
    case Activation::kQuickGelu:
      return activate_all<W, Activation::kQuickGelu>(x, gradient, count, out);
    case Activation::kGeluTanh:
      return activate_all<W, Activation::kGeluTanh>(x, gradient, count, out);
    case Activation::kSilu:
      return activate_all<W, Activation::kSilu>(x, gradient, count, out);
  }
}

struct NormGradientTask {
  int64_t width;
  float eps;
  const float *x, *gain, *gradient;
  float* out;
};

// With y = (x - m) / s: dx = (g - mean(g) - y mean(g y)) / s, where g = gain * gradient.
template <int W>
SACCADE_INLINE void norm_rows_back(const NormGradientTask& task, int64_t first, int64_t last) {
  using Floats = typename Lanes<W>::Floats;
  const int64_t width = task.width;
  const int64_t whole = width / W * W;
  const float count = static_cast<float>(width);
  Floats v, g, gain;
  for (int64_t row = first; row < last; ++row) {
    const float* x = task.x + row * width;
    const float* change = task.gradient + row * width;
    float* to = task.out + row * width;
    Floats sums{};
    for (int64_t i = 0; i < whole; i += W) {
      load(v, x + i);
      sums += v;
    }
    float mean = sum_of<W>(sums);
    for (int64_t i = whole; i < width; ++i) mean += x[i];
    mean /= count;
    Floats squares{}, totals{}, alongs{};
    for (int64_t i = 0; i < whole; i += W) {
      load(v, x + i);
      load(g, change + i);
      load(gain, task.gain + i);
      v -= mean;
      g *= gain;
      squares += v * v;
      totals += g;
      alongs += g * v;
    }
    float square = sum_of<W>(squares);
    float total = sum_of<W>(totals);
    float along = sum_of<W>(alongs);
    for (int64_t i = whole; i < width; ++i) {
      const float centered = x[i] - mean;
      const float weighted = task.gain[i] * change[i];
      square += centered * centered;
      total += weighted;
      along += weighted * centered;
    }
    const float scale = 1 / std::sqrt(square / count + task.eps);
    total /= count;
    along *= scale * scale / count;
    for (int64_t i = 0; i < width; ++i) {
      to[i] = scale * (task.gain[i] * change[i] - total - (x[i] - mean) * along);
    }
  }
}

struct VectorKernels {
  std::string_view name;  // as Kernels::name
  void (*activate)(Activation activation, const float* x, const float* gradient, int64_t count, float* out);
  void (*norm_back)(const NormGradientTask& task, int64_t first, int64_t last);
};

SACCADE_FOR_EACH_WIDTH(void, activate, activate_with)
SACCADE_FOR_EACH_WIDTH(void, norm_back, norm_rows_back)

const VectorKernels& vector_kernels() {
  static constexpr VectorKernels kAll[] = {
#if defined(__x86_64__)
    {"avx512", activate_avx512, norm_back_avx512},
    {"avx2", activate_avx2, norm_back_avx2},
#endif
    {"portable", activate_portable, norm_back_portable},
  };
  const VectorKernels* found = std::begin(kAll);
  while (found->name != kernels().front().name) ++found;
  return *found;
}

// activation(x), or gradient * activation'(x).
Tensor activated(const Tensor& x, Activation activation, const Tensor* gradient) {
  const Tensor in = plain(x);
  const Tensor change = gradient == nullptr ? Tensor() : plain(*gradient);
  Workspace* workspace = gradient == nullptr ? x.workspace() : workspace_of({&x, gradient});
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, workspace);
  split(workspace, in.numel(), kGrain, [&](int64_t first, int64_t last) {
    const float* changes = gradient == nullptr ? nullptr : change.data<float>() + first;
    vector_kernels().activate(activation, in.data<float>() + first, changes, last - first,
                              out.data<float>() + first);
  });
  return out;
}

}  // namespace

Tensor layer_norm_backward(const Tensor& x, const Tensor& gain, double eps, const Tensor& gradient) {
  check_same(x, gradient);
  const Tensor in = plain(x);
  const Tensor change = plain(gradient);
  Workspace* workspace = workspace_of({&x, &gradient});
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, workspace);
  const int64_t width = in.size(-1);
  const NormGradientTask task{width,
                              static_cast<float>(eps),
                              in.data<float>(),
                              gain.data<float>(),
                              change.data<float>(),
                              out.data<float>()};
  split(workspace, in.numel() / width, 1 + kGrain / width,
        [&](int64_t first, int64_t last) { vector_kernels().norm_back(task, first, last); });
  return out;
}

Tensor activate(const Tensor& x, Activation activation) {
  return activated(x, activation, nullptr);
}

Tensor activation_backward(const Tensor& x, Activation activation, const Tensor& gradient) {
  check_same(x, gradient);
  return activated(x, activation, &gradient);
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
