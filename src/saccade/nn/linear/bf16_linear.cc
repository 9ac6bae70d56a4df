#include "saccade/nn/linear/bf16_linear.h"

#include <algorithm>
#include <cstddef>

#include "saccade/nn/linear/panel_work.h"

namespace saccade::nn {

Bf16Linear::Bf16Linear(const Bf16Kernel& kernel, const Tensor& weight, const Tensor& bias,
                       Workspace* workspace)
    : kernel_(&kernel),
      in_(weight.size(1)),
      out_(weight.size(0)),
      panels_((out_ + kPanelOutputs - 1) / kPanelOutputs),
      weights_(Tensor::empty({panels_, (in_ + 1) / 2, kPanelOutputs, 2}, DType::kBF16)),
      bias_(static_cast<size_t>(panels_ * kPanelOutputs)) {
  if (bias.defined()) {
    const Tensor plain = bias.to(DType::kF32).contiguous();
    std::copy_n(plain.data<float>(), out_, bias_.begin());
  }
  for_items(workspace, panels_, [&](int64_t panel, int) {
    const int64_t first = panel * kPanelOutputs;
    const int64_t count = std::min(kPanelOutputs, out_ - first);
    const Tensor rows = weight.slice(0, first, first + count).to(DType::kBF16).contiguous();
    const auto* from = static_cast<const uint16_t*>(rows.raw());
    auto* to = static_cast<uint16_t*>(weights_.raw()) + first * ((in_ + 1) / 2 * 2);
    for (int64_t input = 0; input < in_; input += 2) {
      for (int64_t output = 0; output < kPanelOutputs; ++output, to += 2) {
        const uint16_t* pair = from + output * in_ + input;
        to[0] = output < count ? pair[0] : uint16_t{0};
        to[1] = output < count && input + 1 < in_ ? pair[1] : uint16_t{0};
      }
    }
  });
}

void Bf16Linear::run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) const {
  const int64_t rows = x.numel() / in_;
  if (rows == 0) return;
  const int64_t row_bytes = 2 * in_;
  const RowChunks chunks(kernel_->blocks, rows, row_bytes);
  for_panels(workspace_of({&x, &result}), chunks, row_bytes, panels_,
             [&](int64_t panel, int64_t first_row, int64_t last_row) {
               const int64_t first = panel * kPanelOutputs;
               Bf16PanelTask task;
               task.inputs = in_;
               task.x = static_cast<const uint16_t*>(x.raw());
               task.weights = static_cast<const uint16_t*>(weights_.raw()) + first * ((in_ + 1) / 2 * 2);
               task.results = {
                   .bias = bias_.data() + first,
                   .activation = activation,
                   .accumulate = accumulate,
                   .halves = result.dtype() == DType::kBF16,
                   .out = static_cast<std::byte*>(result.raw()) + first * dtype_size(result.dtype()),
                   .out_stride = out_,
                   .outputs = std::min(kPanelOutputs, out_ - first)};
               kernel_->multiply(task, first_row, last_row);
             });
}

}  // namespace saccade::nn
