#include "saccade/nn/linear/int8_linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "saccade/nn/kernels/int8_packing.h"
#include "saccade/nn/kernels/int8_product_kernels.h"
#include "saccade/nn/linear/panel_work.h"

namespace saccade::nn {
namespace {

// Returns the factor of each input: the norm of its weights, each relative to its output's largest, divided
// by the largest such norm. An input without weights gets 0, so it can have any magnitude without costing the
// others precision. squares: [panels, in], one row per panel of outputs.
std::vector<float> factors_of(const std::vector<double>& squares, int64_t in) {
  const auto width = static_cast<size_t>(in);
  std::vector<double> sums(width);
  for (size_t at = 0; at < squares.size(); ++at) sums[at % width] += squares[at];
  const double most = sums.empty() ? 0 : *std::max_element(sums.begin(), sums.end());
  constexpr double kSmallest = 1. / 16384;
  std::vector<float> factors(width);
  for (size_t i = 0; i < width; ++i) {
    if (sums[i] > 0) factors[i] = static_cast<float>(std::max(std::sqrt(sums[i] / most), kSmallest));
  }
  return factors;
}

// Computes the sum of each output's weights, which is the result for a row of ones. float32 holds it exactly.
void sum_weights(const uint8_t* panel, int64_t groups, int32_t* sums) {
  const std::vector<int8_t> ones(static_cast<size_t>(4 * groups), 1);
  const float bias[kPanelOutputs] = {};
  float scales[kPanelOutputs];
  std::fill_n(scales, kPanelOutputs, 1.F);
  const int32_t none[kPanelOutputs] = {};
  Int8Row row;
  row.scale = 1;
  row.low_sum = static_cast<int32_t>(4 * groups);
  float found[kPanelOutputs];
  Int8PanelTask task;
  task.groups = groups;
  task.weights = panel;
  task.sums = none;
  task.scales = scales;
  task.results.bias = bias;
  task.low = ones.data();
  task.rows = &row;
  task.results.out = found;
  task.results.out_stride = kPanelOutputs;
  int8_kernel().multiply(task, 0, 1);
  std::transform(found, found + kPanelOutputs, sums, [](float sum) { return static_cast<int32_t>(sum); });
}

}  // namespace

Int8Linear::Int8Linear(const Tensor& weight, const Tensor& bias, Workspace* workspace)
    : in_(weight.size(1)),
      out_(weight.size(0)),
      groups_((in_ + 3) / 4),
      panels_((out_ + kPanelOutputs - 1) / kPanelOutputs),
      weights_(Tensor::empty({panels_, groups_, kPanelOutputs, 4}, DType::kU8)),
      scales_(static_cast<size_t>(panels_ * kPanelOutputs)),
      bias_(static_cast<size_t>(panels_ * kPanelOutputs)),
      sums_(static_cast<size_t>(panels_ * kPanelOutputs)) {
  if (in_ > kMostInt8Inputs) throw std::logic_error(fmt::format("a layer of {} inputs in int8", in_));
  if (bias.defined()) {
    const Tensor plain = bias.to(DType::kF32).contiguous();
    std::copy_n(plain.data<float>(), out_, bias_.begin());
  }
  const Int8Packer& packer = int8_packers().front();
  // Calls body(output, its weights) for all outputs of a panel.
  const auto for_outputs = [&](int64_t panel, const auto& body) {
    const int64_t first = panel * kPanelOutputs;
    const int64_t count = std::min(kPanelOutputs, out_ - first);
    const Tensor rows = weight.slice(0, first, first + count).to(DType::kF32).contiguous();
    for (int64_t row = 0; row < count; ++row) body(first + row, rows.data<float>() + row * in_);
  };
  std::vector<float> largest(static_cast<size_t>(out_));
  std::vector<double> squares(static_cast<size_t>(panels_ * in_));
  for_items(workspace, panels_, [&](int64_t panel, int) {
    for_outputs(panel, [&](int64_t output, const float* weights) {
      largest[static_cast<size_t>(output)] = packer.weigh(weights, in_, squares.data() + panel * in_);
    });
  });
  factors_ = factors_of(squares, in_);
  std::vector<float> divisors = factors_;
  std::replace(divisors.begin(), divisors.end(), 0.F, 1.F);
  for_items(workspace, panels_, [&](int64_t panel, int) {
    uint8_t* bytes = weights_.data<uint8_t>() + panel * 4 * groups_ * kPanelOutputs;
    std::memset(bytes, 128, static_cast<size_t>(4 * groups_ * kPanelOutputs));
    std::vector<float> scratch(static_cast<size_t>(in_));
    for_outputs(panel, [&](int64_t output, const float* weights) {
      scales_[static_cast<size_t>(output)] =
          packer.quantize(weights, divisors.data(), in_, largest[static_cast<size_t>(output)], scratch.data(),
                          bytes + 4 * (output % kPanelOutputs));
    });
    sum_weights(bytes, groups_, sums_.data() + panel * kPanelOutputs);
  });
}

void Int8Linear::run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) const {
  const auto takes = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  const bool halves = result.dtype() == DType::kBF16;
  if (!x.is_contiguous() || !takes(x.dtype()) || x.size(-1) != in_ || !result.is_contiguous() ||
      !takes(result.dtype()) || (accumulate && halves) || result.size(-1) != out_ ||
      result.numel() / out_ != x.numel() / in_) {
    throw std::logic_error(fmt::format("a layer of {} to {} in int8: {} {} to {} {}", in_, out_,
                                       dtype_name(x.dtype()), shape_text(x.sizes()),
                                       dtype_name(result.dtype()), shape_text(result.sizes())));
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
  quantizing.x = x.raw();
  quantizing.halves = x.dtype() == DType::kBF16;
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

  const RowChunks chunks(kernel.blocks, rows, row_bytes);
  for_panels(workspace, chunks, row_bytes, panels_, [&](int64_t panel, int64_t first_row, int64_t last_row) {
    const int64_t first = panel * kPanelOutputs;
    Int8PanelTask task;
    task.groups = groups_;
    task.weights = weights_.data<uint8_t>() + first * row_bytes;
    task.sums = sums_.data() + first;
    task.scales = scales_.data() + first;
    task.low = quantizing.low;
    task.high = quantizing.high;
    task.rows = quantizing.rows;
    task.results = {.bias = bias_.data() + first,
                    .activation = activation,
                    .accumulate = accumulate,
                    .halves = halves,
                    .out = static_cast<std::byte*>(result.raw()) + first * dtype_size(result.dtype()),
                    .out_stride = out_,
                    .outputs = std::min(kPanelOutputs, out_ - first)};
    kernel.multiply(task, first_row, last_row);
  });
}

}  // namespace saccade::nn
