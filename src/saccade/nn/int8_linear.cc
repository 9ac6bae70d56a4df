#include "saccade/nn/int8_linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "saccade/nn/int8_kernels.h"

namespace saccade::nn {
namespace {

// body(item, worker), on the workspace's threads where there is one.
template <typename Body>
void for_items(Workspace* workspace, int64_t count, const Body& body) {
  if (workspace != nullptr) return workspace->workers().run(count, body);
  for (int64_t item = 0; item < count; ++item) body(item, 0);
}

// An output's weights, each + 128, four by four: between two fours lie those of the panel's other outputs.
// Returns the scale.
float quantize_output(const float* weights, std::span<const float> factors, uint8_t* to) {
  // In double: the inverse of a number that float32 can still hold may be none of its numbers.
  double largest = 0;
  bool finite = true;
  const auto count = static_cast<int64_t>(factors.size());
  const auto scaled = [&](int64_t i) {
    return static_cast<double>(weights[i]) / factors[static_cast<size_t>(i)];
  };
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(scaled(i)));
    finite = finite && std::isfinite(weights[i]);
  }
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  if (largest == 0) return 0;
  const double inverse = 127 / largest;
  for (int64_t i = 0; i < count; ++i) {
    const auto digit = static_cast<int>(std::nearbyint(inverse * scaled(i)));
    to[i / 4 * 4 * kPanelOutputs + i % 4] = static_cast<uint8_t>(128 + digit);
  }
  return static_cast<float>(largest / 127);
}

// Of each input: the length of its weights, those of each output as parts of the output's largest; as a part of the
// largest such length. Outputs that hold what is not finite are left out: all their results are NaN.
std::vector<float> factors_of(const Tensor& weight) {
  const int64_t in = weight.size(1);
  std::vector<float> factors(static_cast<size_t>(in));
  for (int64_t output = 0; output < weight.size(0); ++output) {
    const Tensor row = weight.slice(0, output, output + 1).to(DType::kF32).contiguous();
    const float* values = row.data<float>();
    float largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < in; ++i) {
      largest = std::max(largest, std::abs(values[i]));
      finite = finite && std::isfinite(values[i]);
    }
    if (!finite || largest == 0) continue;
    for (int64_t i = 0; i < in; ++i) {
      const float part = values[i] / largest;
      factors[static_cast<size_t>(i)] += part * part;
    }
  }
  const float most = factors.empty() ? 0 : *std::max_element(factors.begin(), factors.end());
  constexpr float kSmallest = 1.F / 16384;
  for (float& factor : factors) factor = factor == 0 ? 1 : std::max(std::sqrt(factor / most), kSmallest);
  return factors;
}

}  // namespace

Int8Linear::Int8Linear(const Tensor& weight, const Tensor& bias)
    : in_(weight.size(1)),
      out_(weight.size(0)),
      groups_((in_ + 3) / 4),
      panels_((out_ + kPanelOutputs - 1) / kPanelOutputs),
      weights_(Tensor::empty({panels_, groups_, kPanelOutputs, 4}, DType::kU8)),
      factors_(factors_of(weight)),
      scales_(static_cast<size_t>(panels_ * kPanelOutputs)),
      bias_(static_cast<size_t>(panels_ * kPanelOutputs)) {
  if (in_ > kMostInt8Inputs) throw std::logic_error(fmt::format("a layer of {} inputs in int8", in_));
  auto* bytes = weights_.data<uint8_t>();
  std::memset(bytes, 128, static_cast<size_t>(weights_.nbytes()));
  for (int64_t first = 0; first < out_; first += kPanelOutputs) {
    const int64_t count = std::min(kPanelOutputs, out_ - first);
    const Tensor rows = weight.slice(0, first, first + count).to(DType::kF32).contiguous();
    uint8_t* panel = bytes + first * 4 * groups_;
    for (int64_t output = 0; output < count; ++output) {
      scales_[static_cast<size_t>(first + output)] =
          quantize_output(rows.data<float>() + output * in_, factors_, panel + 4 * output);
    }
  }
  if (bias.defined()) {
    const Tensor plain = bias.to(DType::kF32).contiguous();
    std::copy_n(plain.data<float>(), out_, bias_.begin());
  }
}

void Int8Linear::run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) const {
  if (!x.is_contiguous() || x.dtype() != DType::kF32 || x.size(-1) != in_ || !result.is_contiguous() ||
      result.dtype() != DType::kF32 || result.size(-1) != out_ || result.numel() / out_ != x.numel() / in_) {
    throw std::logic_error(fmt::format("a layer of {} to {} in int8: {} to {}", in_, out_,
                                       shape_text(x.sizes()), shape_text(result.sizes())));
  }
  const int64_t rows = x.numel() / in_;
  if (rows == 0) return;
  Workspace* workspace = workspace_of({&x, &result});
  const auto memory = [&](int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    return workspace != nullptr ? workspace->allocate(size) : allocate_plain(size);
  };
  const int64_t row_bytes = 4 * groups_;
  const std::shared_ptr<void> low = memory(rows * row_bytes);
  const std::shared_ptr<void> high =
      memory(rows * most_second_digits(groups_) * static_cast<int64_t>(sizeof(SecondDigits)));
  const std::shared_ptr<void> about = memory(rows * static_cast<int64_t>(sizeof(Int8Row)));
  QuantizeTask quantizing;
  quantizing.width = in_;
  quantizing.groups = groups_;
  quantizing.x = x.data<float>();
  quantizing.factors = factors_.data();
  quantizing.low = static_cast<int8_t*>(low.get());
  quantizing.high = static_cast<SecondDigits*>(high.get());
  quantizing.rows = static_cast<Int8Row*>(about.get());
  const Int8Kernels& kernel = int8_kernel();
  if (workspace == nullptr) {
    kernel.quantize(quantizing, 0, rows);
  } else {
    const int64_t grain = 1 + (int64_t{1} << 14) / in_;  // less does not pay for waking a thread
    workspace->workers().split(
        rows, grain, [&](int64_t first, int64_t last, int) { kernel.quantize(quantizing, first, last); });
  }

  // An item: some panels by some rows, few enough for their values to stay in a core's own cache, and enough
  // work (some 20 microseconds of it) for taking an item to cost nothing beside it.
  constexpr int64_t kBytesAtOnce = int64_t{256} << 10;
  constexpr int64_t kProductsAtOnce = int64_t{1} << 22;
  const int64_t chunks = (rows * row_bytes + kBytesAtOnce - 1) / kBytesAtOnce;
  const int64_t panel_products = (rows + chunks - 1) / chunks * row_bytes * kPanelOutputs;
  const int64_t threads = workspace == nullptr ? 1 : workspace->workers().size();
  const int64_t fewest = std::min(panels_, (4 * threads + chunks - 1) / chunks);
  const int64_t shares = std::clamp(panels_ * panel_products / kProductsAtOnce, fewest, panels_);
  for_items(workspace, chunks * shares, [&](int64_t item, int) {
    const int64_t chunk = item / shares;
    const int64_t share = item % shares;
    Int8PanelTask task;
    task.groups = groups_;
    task.low = quantizing.low;
    task.high = quantizing.high;
    task.rows = quantizing.rows;
    task.activation = activation;
    task.accumulate = accumulate;
    task.out_stride = out_;
    for (int64_t panel = panels_ * share / shares; panel < panels_ * (share + 1) / shares; ++panel) {
      const int64_t first = panel * kPanelOutputs;
      task.weights = weights_.data<uint8_t>() + first * row_bytes;
      task.scales = scales_.data() + first;
      task.bias = bias_.data() + first;
      task.out = result.data<float>() + first;
      task.outputs = std::min(kPanelOutputs, out_ - first);
      kernel.multiply(task, rows * chunk / chunks, rows * (chunk + 1) / chunks);
    }
  });
}

}  // namespace saccade::nn
