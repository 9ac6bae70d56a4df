#include "saccade/nn/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "saccade/core/half.h"
#include "saccade/nn/kernels/convert.h"
#include "saccade/nn/kernels/kernels.h"

namespace saccade::nn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Minimum number of values per piece; smaller pieces cost less than waking a thread.
constexpr int64_t kGrain = 1 << 14;

[[noreturn]] void refuse(const char* what, const Tensor& a, const Tensor& b) {
  throw std::logic_error(fmt::format("{}: {} {} and {} {}", what, dtype_name(a.dtype()),
                                     shape_text(a.sizes()), dtype_name(b.dtype()), shape_text(b.sizes())));
}

// Reduces along one dimension, in order: result = step(result, value), from `start`.
template <typename Step>
Tensor reduced(const Tensor& x, int64_t dimension, float start, const Step& step) {
  const Tensor in = x.to(DType::kF32).contiguous();
  const int64_t count = x.size(dimension);
  Shape shape = in.sizes();
  const auto d = shape.begin() + (dimension < 0 ? dimension + in.dim() : dimension);
  int64_t inner = 1;
  for (auto side = d + 1; side != shape.end(); ++side) inner *= *side;
  shape.erase(d);
  Tensor out = Tensor::empty(shape, DType::kF32, x.workspace());
  out.fill(start);
  split(x.workspace(), inner == 0 ? 0 : out.numel() / inner, 1, [&](int64_t first, int64_t last) {
    for (int64_t outer = first; outer < last; ++outer) {
      float* to = out.data<float>() + outer * inner;
      for (int64_t i = 0; i < count; ++i) {
        const float* from = in.data<float>() + (outer * count + i) * inner;
        for (int64_t j = 0; j < inner; ++j) to[j] = step(to[j], from[j]);
      }
    }
  });
  return out;
}

int64_t rows_of_grain(int64_t width) {
  return 1 + kGrain / std::max<int64_t>(width, 1);
}

Tensor plain(const Tensor& x) {
  return x.to(DType::kF32).contiguous();
}

// out[i] = function(x[i]) for float32.
template <typename Function>
Tensor mapped(const Tensor& x, const Function& function) {
  const Tensor in = plain(x);
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, in.workspace());
  const float* from = in.data<float>();
  float* to = out.data<float>();
  split(in.workspace(), in.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = function(from[i]);
  });
  return out;
}

Shape broadcast(const Tensor& a, const Tensor& b) {
  const size_t dims = std::max(a.sizes().size(), b.sizes().size());
  Shape shape(dims, 1);
  for (size_t i = 0; i < dims; ++i) {
    for (const Tensor* tensor : {&a, &b}) {
      const Shape& sides = tensor->sizes();
      if (i >= sides.size()) continue;
      const int64_t side = sides[sides.size() - 1 - i];
      int64_t& whole = shape[dims - 1 - i];
      if (side == whole || side == 1) continue;
      if (whole != 1) refuse("a sum", a, b);
      whole = side;
    }
  }
  return shape;
}

// Checks that b's shape, without leading dimensions of 1, is a suffix of a's.
bool is_suffix(const Shape& b, const Shape& a) {
  const auto first = std::find_if(b.begin(), b.end(), [](int64_t side) { return side != 1; });
  return b.end() - first <= static_cast<std::ptrdiff_t>(a.size()) &&
         std::equal(b.rbegin(), std::make_reverse_iterator(first), a.rbegin());
}

NormTask norm_task(const Tensor& x, const Tensor& gain, double eps, const Tensor& out) {
  NormTask task;
  task.width = gain.numel();
  task.rows = task.width == 0 ? 0 : x.numel() / task.width;
  task.x = x.data<float>();
  task.gain = gain.data<float>();
  task.eps = static_cast<float>(eps);
  task.out_type = out.dtype();
  task.out = out.raw();
  return task;
}

HeadStrides head_strides(const Tensor& x, int64_t batch) {
  return {x.size(0) == batch ? x.stride(0) : 0, x.stride(1), x.stride(2)};
}

// Sets the task's mask, which afterwards points into `mask`.
void describe_mask(Tensor& mask, AttentionTask& task) {
  if (!mask.defined()) return;
  mask = mask.to(DType::kF32).expand({task.batch, task.heads, task.queries, task.keys});
  if (mask.stride(3) != 1 && task.keys != 1) mask = mask.clone();  // broadcast along the keys
  task.mask = mask.data<float>();
  for (int64_t i = 0; i < 3; ++i) task.mask_strides[i] = mask.stride(i);
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::kF32 || b.dtype() != DType::kF32) refuse("a sum", a, b);
  const Shape shape = broadcast(a, b);
  Workspace* workspace = workspace_of({&a, &b});
  Tensor sum = Tensor::empty(shape, DType::kF32, workspace);
  float* out = sum.data<float>();
  if (a.sizes() == shape && a.is_contiguous() && b.is_contiguous() && is_suffix(b.sizes(), shape)) {
    const int64_t width = b.numel();
    if (width == 0) return sum;
    const float* x = a.data<float>();
    const float* y = b.data<float>();
    split(workspace, sum.numel(), kGrain, [&](int64_t first, int64_t last) {
      for (int64_t at = first; at < last;) {
        const int64_t column = at % width;
        const int64_t end = std::min(last, at + width - column);
        for (const float* added = y + column; at < end; ++at, ++added) out[at] = x[at] + *added;
      }
    });
    return sum;
  }
  sum.copy_from(a.expand(shape));
  const Tensor other = b.expand(shape).contiguous();
  const float* y = other.data<float>();
  for (int64_t i = 0; i < sum.numel(); ++i) out[i] += y[i];
  return sum;
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) refuse("a product", a, b);
  if (a.dtype() != DType::kF32 && a.dtype() != DType::kBF16) refuse("a product", a, b);
  const Tensor x = a.contiguous();
  const Tensor y = b.contiguous();
  Workspace* workspace = workspace_of({&a, &b});
  Tensor out = Tensor::empty(a.sizes(), a.dtype(), workspace);
  split(workspace, out.numel(), kGrain, [&](int64_t first, int64_t last) {
    if (a.dtype() == DType::kF32) {
      const float* left = x.data<float>();
      const float* right = y.data<float>();
      float* to = out.data<float>();
      for (int64_t i = first; i < last; ++i) to[i] = left[i] * right[i];
      return;
    }
    const uint16_t* left = x.data<uint16_t>();
    const uint16_t* right = y.data<uint16_t>();
    uint16_t* to = out.data<uint16_t>();
    for (int64_t i = first; i < last; ++i) {
      to[i] = float_to_bf16(bf16_to_float(left[i]) * bf16_to_float(right[i]));
    }
  });
  return out;
}

Tensor operator*(const Tensor& a, double factor) {
  const auto by = static_cast<float>(factor);
  return mapped(a, [by](float value) { return value * by; });
}

Tensor tanh(const Tensor& x) {
  return mapped(x, [](float value) { return std::tanh(value); });
}

Tensor sigmoid(const Tensor& x) {
  return mapped(x, [](float value) { return 1 / (1 + std::exp(-value)); });
}

Tensor relu(const Tensor& x) {
  return mapped(x, [](float value) { return value < 0 ? 0.F : value; });
}

Tensor cat(const std::vector<Tensor>& tensors, int64_t dimension) {
  const Tensor& front = tensors.front();
  const int64_t d = dimension < 0 ? dimension + front.dim() : dimension;
  Shape shape = front.sizes();
  Workspace* workspace = nullptr;
  int64_t whole = 0;
  for (const Tensor& tensor : tensors) {
    whole += tensor.size(d);
    if (workspace == nullptr) workspace = tensor.workspace();
  }
  shape[static_cast<size_t>(d)] = whole;
  Tensor joint = Tensor::empty(shape, front.dtype(), workspace);
  int64_t first = 0;
  for (const Tensor& tensor : tensors) {
    joint.slice(d, first, first + tensor.size(d)).copy_from(tensor);
    first += tensor.size(d);
  }
  return joint;
}

Tensor embedding(const Tensor& table, const Tensor& ids) {
  const int64_t width = table.size(1);
  Shape shape = ids.sizes();
  shape.push_back(width);
  const Tensor places = ids.contiguous();
  Tensor out = Tensor::empty(shape, DType::kF32, workspace_of({&ids, &table}));
  const auto* rows = static_cast<const std::byte*>(table.raw());
  const int64_t row_bytes = table.stride(0) * dtype_size(table.dtype());
  split(out.workspace(), places.numel(), rows_of_grain(width), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      convert(rows + places.data<int64_t>()[i] * row_bytes, table.dtype(), table.stride(1),
              out.data<float>() + i * width, DType::kF32, 1, width);
    }
  });
  return out;
}

Tensor pick_rows(const Tensor& x, const Tensor& which) {
  const Tensor rows = x.contiguous();
  const Tensor places = which.contiguous();
  Shape shape = which.sizes();
  shape.push_back(rows.size(1));
  Tensor out = Tensor::empty(shape, rows.dtype(), rows.workspace());
  const auto row_bytes = static_cast<size_t>(rows.size(1) * dtype_size(rows.dtype()));
  const auto* from = static_cast<const std::byte*>(rows.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  split(out.workspace(), places.numel(), rows_of_grain(rows.size(1)), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto place = static_cast<size_t>(places.data<int64_t>()[i]);
      std::memcpy(to + static_cast<size_t>(i) * row_bytes, from + place * row_bytes, row_bytes);
    }
  });
  return out;
}

Tensor take_rows(const Tensor& x, const Tensor& positions) {
  const Tensor places = positions.contiguous();
  Tensor out = Tensor::empty({x.size(0), x.size(2)}, x.dtype(), x.workspace());
  for (int64_t i = 0; i < x.size(0); ++i) {
    out[i].copy_from(x[i][places.integers()[static_cast<size_t>(i)]]);
  }
  return out;
}

Tensor gather_rows(const Tensor& x, const Tensor& which) {
  const Tensor places = which.contiguous();
  const int64_t kept = places.size(1);
  Tensor out = Tensor::empty({x.size(0), kept, x.size(2)}, x.dtype(), x.workspace());
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t k = 0; k < kept; ++k) {
      out[i][k].copy_from(x[i][places.integers()[static_cast<size_t>(i * kept + k)]]);
    }
  }
  return out;
}

Tensor patches(const Tensor& pixels, int64_t patch) {
  const int64_t channels = pixels.size(1);
  const int64_t rows = pixels.size(2) / patch;
  const int64_t columns = pixels.size(3) / patch;
  const Tensor in = pixels.stride(3) == 1 ? pixels : pixels.contiguous();
  Tensor out =
      Tensor::empty({in.size(0), rows * columns, channels * patch * patch}, DType::kF32, in.workspace());
  const size_t bytes = static_cast<size_t>(patch) * sizeof(float);
  split(in.workspace(), in.size(0) * rows, 1, [&](int64_t first, int64_t last) {
    for (int64_t line = first; line < last; ++line) {
      const int64_t picture = line / rows;
      const int64_t row = line % rows;
      float* to = out.data<float>() + line * columns * channels * patch * patch;
      for (int64_t column = 0; column < columns; ++column) {
        for (int64_t channel = 0; channel < channels; ++channel) {
          const float* from = in.data<float>() + picture * in.stride(0) + channel * in.stride(1) +
                              row * patch * in.stride(2) + column * patch;
          for (int64_t y = 0; y < patch; ++y, to += patch) std::memcpy(to, from + y * in.stride(2), bytes);
        }
      }
    }
  });
  return out;
}

Tensor mean(const Tensor& x, int64_t dimension) {
  const auto count = static_cast<float>(x.size(dimension));
  return reduced(x, dimension, 0, [](float sum, float value) { return sum + value; }) * (1 / count);
}

Tensor mean_of_kept(const Tensor& x, const Tensor& mask) {
  const Tensor in = plain(x);
  const Tensor kept = mask.contiguous();
  const int64_t tokens = in.size(1);
  const int64_t width = in.size(2);
  Tensor out = Tensor::zeros({in.size(0), width}, DType::kF32, x.workspace());
  split(x.workspace(), in.size(0), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      float* to = out.data<float>() + i * width;
      int64_t count = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        if (kept.data<int64_t>()[i * tokens + t] == 0) continue;
        ++count;
        const float* from = in.data<float>() + (i * tokens + t) * width;
        for (int64_t c = 0; c < width; ++c) to[c] += from[c];
      }
      for (int64_t c = 0; c < width; ++c) to[c] /= static_cast<float>(std::max<int64_t>(count, 1));
    }
  });
  return out;
}

Tensor largest(const Tensor& x, int64_t dimension) {
  return reduced(x, dimension, -kInfinity, [](float most, float value) {
    return std::isnan(most) || value <= most ? most : value;  // a NaN stays
  });
}

Tensor normalize_rows(const Tensor& rows) {
  const Tensor in = plain(rows);
  const int64_t width = in.size(-1);
  Tensor out = Tensor::empty(in.sizes(), DType::kF32, in.workspace());
  const int64_t count = width == 0 ? 0 : in.numel() / width;
  split(in.workspace(), count, rows_of_grain(width), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const float* x = in.data<float>() + row * width;
      double square = 0;
      for (int64_t i = 0; i < width; ++i) square += static_cast<double>(x[i]) * x[i];
      const auto length = static_cast<float>(std::sqrt(square));
      const float divisor = length < 1e-12F ? 1e-12F : length;
      for (int64_t i = 0; i < width; ++i) out.data<float>()[row * width + i] = x[i] / divisor;
    }
  });
  return out;
}

Tensor row_products(const Tensor& a, const Tensor& b) {
  const Tensor x = plain(a);
  const Tensor y = plain(b);
  const int64_t width = x.size(-1);
  if (y.dim() != 2 || y.size(1) != width) refuse("products of rows", a, b);
  Shape shape = x.sizes();
  shape.back() = y.size(0);
  Tensor out = Tensor::empty(shape, DType::kF32, workspace_of({&a, &b}));
  for (int64_t i = 0; i < out.numel(); ++i) {
    const float* row = x.data<float>() + i / y.size(0) * width;
    const float* other = y.data<float>() + i % y.size(0) * width;
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += static_cast<double>(row[c]) * other[c];
    out.data<float>()[i] = static_cast<float>(sum);
  }
  return out;
}

Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps, DType dtype) {
  if (x.dtype() != DType::kF32 || x.size(-1) != gain.numel()) refuse("a normalization", x, gain);
  const Tensor input = x.contiguous();
  Tensor out = Tensor::empty(input.sizes(), dtype, x.workspace());
  NormTask task = norm_task(input, gain, eps, out);
  task.bias = bias.data<float>();
  normalize(task, x.workspace());
  return out;
}

Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps, DType dtype) {
  if (x.dtype() != DType::kF32 || x.size(-1) != gain.numel()) refuse("a normalization", x, gain);
  const Tensor input = x.contiguous();
  Tensor out = Tensor::empty(input.sizes(), dtype, x.workspace());
  NormTask task = norm_task(input, gain, eps, out);
  task.centered = false;
  normalize(task, x.workspace());
  return out;
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 std::optional<double> scale) {
  const auto whole = [](const Tensor& x) { return x.stride(3) == 1 || x.size(3) == 1 ? x : x.contiguous(); };
  const Tensor q = whole(query);
  const Tensor k = whole(key);
  const Tensor v = whole(value);
  if (k.sizes() != v.sizes() || k.dtype() != v.dtype()) refuse("keys and values", key, value);
  if (q.dtype() != k.dtype() || q.size(3) != k.size(3) || q.size(2) % k.size(2) != 0 ||
      (k.size(0) != q.size(0) && k.size(0) != 1)) {
    refuse("queries and keys", query, key);
  }
  AttentionTask task;
  task.batch = q.size(0);
  task.queries = q.size(1);
  task.heads = q.size(2);
  task.head_width = q.size(3);
  task.keys = k.size(1);
  task.key_heads = k.size(2);
  task.type = q.dtype();
  task.scale = static_cast<float>(scale.value_or(1 / std::sqrt(static_cast<double>(task.head_width))));
  task.query = q.raw();
  task.key = k.raw();
  task.value = v.raw();
  task.query_strides = head_strides(q, task.batch);
  task.key_strides = head_strides(k, task.batch);
  task.value_strides = head_strides(v, task.batch);
  Tensor added = mask;
  describe_mask(added, task);
  Workspace* workspace = workspace_of({&query, &key, &value});
  Tensor out = Tensor::empty({task.batch, task.queries, task.heads * task.head_width}, q.dtype(), workspace);
  task.out = out.raw();
  attend(task, workspace);
  return out;
}

Tensor attention(const Tensor& qkv, int64_t heads, const Tensor& mask, std::optional<double> scale) {
  const Tensor parts = qkv.contiguous().view({qkv.size(0), qkv.size(1), 3, heads, qkv.size(2) / 3 / heads});
  return attention(parts.select(2, 0), parts.select(2, 1), parts.select(2, 2), mask, scale);
}

Tensor attention_weights(const Tensor& qkv, int64_t heads, const Tensor& mask) {
  const int64_t batch = qkv.size(0);
  const int64_t tokens = qkv.size(1);
  const int64_t head_width = qkv.size(2) / 3 / heads;
  const Tensor parts = plain(qkv).view({batch, tokens, 3, heads, head_width});
  const Shape shape = {batch, heads, tokens, tokens};
  Tensor weights = mask.defined() ? mask.to(DType::kF32).expand(shape).clone().in(qkv.workspace())
                                  : Tensor::zeros(shape, DType::kF32, qkv.workspace());
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_width)));
  split(qkv.workspace(), batch * heads * tokens, 16, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t entry = row / (heads * tokens);
      const int64_t head = row / tokens % heads;
      const auto at = [&](int64_t token, int64_t part) {
        return parts.data<float>() + (((entry * tokens + token) * 3 + part) * heads + head) * head_width;
      };
      float* scores = weights.data<float>() + row * tokens;
      const float* query = at(row % tokens, 0);
      float most = -kInfinity;
      for (int64_t t = 0; t < tokens; ++t) {
        const float* key = at(t, 1);
        float sum = 0;
        for (int64_t c = 0; c < head_width; ++c) sum += query[c] * key[c];
        scores[t] += scale * sum;
        most = std::max(most, scores[t]);
      }
      float sum = 0;
      for (int64_t t = 0; t < tokens; ++t) sum += scores[t] = std::exp(scores[t] - most);
      for (int64_t t = 0; t < tokens; ++t) scores[t] /= sum;
    }
  });
  return weights;
}

Tensor causal_mask(int64_t tokens) {
  Tensor mask = Tensor::zeros({tokens, tokens});
  for (int64_t row = 0; row < tokens; ++row) {
    for (int64_t column = row + 1; column < tokens; ++column) {
      mask.data<float>()[row * tokens + column] = -kInfinity;
    }
  }
  return mask;
}

Tensor padding_mask(const Tensor& attention_mask) {
  const Tensor kept = attention_mask.contiguous();
  Tensor mask = Tensor::empty({kept.size(0), 1, 1, kept.size(1)}, DType::kF32, kept.workspace());
  for (int64_t i = 0; i < kept.numel(); ++i) {
    mask.data<float>()[i] = kept.integers()[static_cast<size_t>(i)] == 0 ? -kInfinity : 0.F;
  }
  return mask;
}

}  // namespace saccade::nn
