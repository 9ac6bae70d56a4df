#include "saccade/nn/convolution.h"

namespace saccade::nn {
namespace {

constexpr double kInitStd = 0.02;

// A 1 x 1 kernel seen as a matrix.
Result<Linear> pointwise(ParameterSource& source, const std::string& name, int64_t in, int64_t out) {
  SACCADE_ASSIGN(const torch::Tensor weight, source.take(name + ".weight", {out, in, 1, 1}, {0, kInitStd}));
  SACCADE_ASSIGN(const torch::Tensor bias, source.take(name + ".bias", {out}, {}));
  return Linear(weight.view({out, in}), bias);
}

}  // namespace

Result<ConvolutionNorm> ConvolutionNorm::make(ParameterSource& source, const std::string& convolution,
                                              const std::string& norm, const ConvolutionShape& shape) {
  ConvolutionNorm layer;
  layer.shape_ = shape;
  const int64_t in_each = shape.depthwise ? 1 : shape.in;
  SACCADE_ASSIGN(layer.kernel_, source.take(convolution + ".weight",
                                            {shape.out, in_each, shape.kernel, shape.kernel}, {0, kInitStd}));
  SACCADE_ASSIGN(layer.gain_, source.take(norm + ".weight", {shape.out}, {1, 0}));
  SACCADE_ASSIGN(layer.bias_, source.take(norm + ".bias", {shape.out}, {}));
  SACCADE_ASSIGN(layer.mean_, source.take(norm + ".running_mean", {shape.out}, {}));
  SACCADE_ASSIGN(layer.variance_, source.take(norm + ".running_var", {shape.out}, {1, 0}));
  return layer;
}

bool ConvolutionNorm::is_product() const {
  const Padding& around = shape_.padding;
  return shape_.kernel == 1 && shape_.stride == 1 && !shape_.depthwise && around.left == 0 &&
         around.right == 0 && around.top == 0 && around.bottom == 0;
}

torch::Tensor ConvolutionNorm::forward(const torch::Tensor& x, at::ScalarType dtype) const {
  if (packed_ && is_product()) {
    // [n, height, width, in], which is how the memory lies.
    const torch::Tensor rows = x.permute({0, 2, 3, 1}).contiguous().to(dtype);
    return product_.forward(rows, shape_.activation).to(at::kFloat).permute({0, 3, 1, 2});
  }
  const Padding& around = shape_.padding;
  const bool even = around.left == around.right && around.top == around.bottom;
  const torch::Tensor input =
      even ? x : at::constant_pad_nd(x, {around.left, around.right, around.top, around.bottom});
  const std::vector<int64_t> added =
      even ? std::vector<int64_t>{around.top, around.left} : std::vector<int64_t>{0, 0};
  const torch::Tensor convolved =
      at::conv2d(packed_ ? input.contiguous(at::MemoryFormat::ChannelsLast) : input, kernel_,
                 packed_ ? bias_ : torch::Tensor(), {shape_.stride, shape_.stride}, added, {1, 1},
                 shape_.depthwise ? shape_.in : 1);
  if (packed_) return activate(convolved, shape_.activation);
  return activate(at::batch_norm(convolved, gain_, bias_, mean_, variance_, false, 0, shape_.eps, false),
                  shape_.activation);
}

void ConvolutionNorm::pack(at::ScalarType dtype) {
  // gain * (w x - mean) / sqrt(variance + eps) + bias, in double until it is one kernel and one bias.
  const torch::Tensor scale = gain_.to(at::kDouble) / (variance_.to(at::kDouble) + shape_.eps).sqrt();
  bias_ = (bias_.to(at::kDouble) - mean_.to(at::kDouble) * scale).to(at::kFloat);
  kernel_ = (kernel_.to(at::kDouble) * scale.view({-1, 1, 1, 1})).to(at::kFloat);
  packed_ = true;
  for (torch::Tensor* folded : {&gain_, &mean_, &variance_}) folded->reset();
  if (!is_product()) {
    kernel_ = kernel_.contiguous(at::MemoryFormat::ChannelsLast);
    return;
  }
  product_ = Linear(kernel_.view({shape_.out, shape_.in}), bias_);
  product_.pack(dtype);
  kernel_.reset();
  bias_.reset();
}

Result<SqueezeExcite> SqueezeExcite::make(ParameterSource& source, const std::string& name, int64_t channels,
                                          int64_t reduced, Activation activation) {
  SqueezeExcite layer;
  layer.activation_ = activation;
  SACCADE_ASSIGN(layer.reduce_, pointwise(source, name + ".reduce", channels, reduced));
  SACCADE_ASSIGN(layer.expand_, pointwise(source, name + ".expand", reduced, channels));
  return layer;
}

torch::Tensor SqueezeExcite::forward(const torch::Tensor& x) const {
  const torch::Tensor means = x.mean({2, 3});  // [n, channels]
  const torch::Tensor scale = expand_.forward(reduce_.forward(means, activation_)).sigmoid();
  return x * scale.unsqueeze(2).unsqueeze(3);
}

}  // namespace saccade::nn
