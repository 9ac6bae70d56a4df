#include "saccade/model/towers/clip_resnet.h"

namespace saccade {
namespace {

using nn::ConvolutionNorm;
using nn::Tensor;

constexpr double kNormEps = 1e-5;
constexpr double kResNetInitStd = 0.02;  // these towers are loaded, not trained here

Result<ConvolutionNorm> make_convolution(nn::ParameterSource& source, const std::string& prefix,
                                         const std::string& convolution, const std::string& norm, int64_t in,
                                         int64_t out, int64_t kernel, int64_t stride,
                                         nn::Activation activation) {
  const int64_t around = kernel / 2;
  nn::ConvolutionShape shape;
  shape.in = in;
  shape.out = out;
  shape.kernel = kernel;
  shape.stride = stride;
  shape.padding = {around, around, around, around};
  shape.eps = kNormEps;
  shape.activation = activation;
  return ConvolutionNorm::make(source, prefix + convolution, prefix + norm, shape);
}

Tensor average(const Tensor& x, int64_t side) {
  return side == 1 ? x : nn::average_pool(x, side);
}

}  // namespace

Result<ResNetBlock> ResNetBlock::make(nn::ParameterSource& source, const std::string& prefix, int64_t in,
                                      int64_t planes, int64_t stride) {
  using nn::Activation;
  ResNetBlock block;
  block.stride_ = stride;
  block.reshaped_ = stride > 1 || in != 4 * planes;
  SACCADE_ASSIGN(block.reduce_,
                 make_convolution(source, prefix, "conv1", "bn1", in, planes, 1, 1, Activation::kRelu));
  SACCADE_ASSIGN(block.spatial_,
                 make_convolution(source, prefix, "conv2", "bn2", planes, planes, 3, 1, Activation::kRelu));
  SACCADE_ASSIGN(block.expand_, make_convolution(source, prefix, "conv3", "bn3", planes, 4 * planes, 1, 1,
                                                 Activation::kNone));
  if (block.reshaped_) {
    SACCADE_ASSIGN(block.carried_, make_convolution(source, prefix, "downsample.0", "downsample.1", in,
                                                    4 * planes, 1, 1, Activation::kNone));
  }
  return block;
}

Tensor ResNetBlock::forward(const Tensor& x, DType dtype) const {
  Tensor y = spatial_.forward(reduce_.forward(x, dtype), dtype);
  y = expand_.forward(average(y, stride_), dtype);
  return nn::relu(y + (reshaped_ ? carried_.forward(average(x, stride_), dtype) : x));
}

void ResNetBlock::pack(DType dtype) {
  for (ConvolutionNorm* part : {&reduce_, &spatial_, &expand_}) part->pack(dtype);
  if (reshaped_) carried_.pack(dtype);
}

Result<ResNetTower> ResNetTower::make(nn::ParameterSource& source, const ResNetShape& shape,
                                      int64_t image_size, int64_t projection) {
  using nn::Activation;
  const int64_t channels = 32 * shape.width;
  if (shape.layers.size() != 4) {
    return fail(ErrorCode::kBadData, "a ResNet of {} stages, expected 4", shape.layers.size());
  }
  if (shape.width % 2 != 0 || shape.heads < 1 || channels % shape.heads != 0) {
    return fail(ErrorCode::kBadData,
                "ResNet width {}: it must be even, and 32 times it a multiple of {} heads", shape.width,
                shape.heads);
  }
  if (image_size % kResNetStride != 0) {
    return fail(ErrorCode::kUnsupported, "image size {} is not a multiple of {}", image_size, kResNetStride);
  }
  ResNetTower tower;
  tower.heads_ = shape.heads;
  const std::string prefix = "visual.";
  const int64_t half = shape.width / 2;
  const int64_t stem[3][3] = {{3, half, 2}, {half, half, 1}, {half, shape.width, 1}};  // in, out, stride
  for (int i = 0; i < 3; ++i) {
    SACCADE_ASSIGN(tower.stem_.emplace_back(),
                   make_convolution(source, prefix, fmt::format("conv{}", i + 1), fmt::format("bn{}", i + 1),
                                    stem[i][0], stem[i][1], 3, stem[i][2], Activation::kRelu));
  }
  int64_t in = shape.width;
  for (size_t stage = 0; stage < shape.layers.size(); ++stage) {
    std::vector<ResNetBlock>& blocks = tower.stages_.emplace_back();
    const int64_t planes = shape.width << stage;
    for (int64_t i = 0; i < shape.layers[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      SACCADE_ASSIGN(
          blocks.emplace_back(),
          ResNetBlock::make(source, fmt::format("{}layer{}.{}.", prefix, stage + 1, i), in, planes, stride));
      in = 4 * planes;
    }
  }
  const std::string pool = prefix + "attnpool.";
  const int64_t side = image_size / kResNetStride;
  SACCADE_ASSIGN(tower.positions_, source.take(pool + "positional_embedding", {side * side + 1, channels},
                                               {0, kResNetInitStd}));
  SACCADE_ASSIGN(tower.query_key_value_,
                 nn::Linear::make_joint(source, {pool + "q_proj", pool + "k_proj", pool + "v_proj"}, channels,
                                        channels, kResNetInitStd));
  SACCADE_ASSIGN(tower.output_,
                 nn::Linear::make(source, pool + "c_proj", channels, projection, kResNetInitStd));
  return tower;
}

Tensor ResNetTower::forward(const Tensor& pixels, DType dtype, std::pair<Tensor, Tensor>* stages) const {
  Tensor x = pixels.permute({0, 2, 3, 1});  // channels last from here on
  for (const ConvolutionNorm& part : stem_) x = part.forward(x, dtype);
  x = average(x, 2);
  for (size_t i = 0; i < stages_.size(); ++i) {
    for (const ResNetBlock& block : stages_[i]) x = block.forward(x, dtype);
    if (stages != nullptr && i == 0) stages->first = x.permute({0, 3, 1, 2}).contiguous();
  }
  if (stages != nullptr) stages->second = x.permute({0, 3, 1, 2}).contiguous();
  const int64_t n = x.size(0);
  const int64_t channels = x.size(3);
  x = x.view({n, -1, channels});  // x: [n, places, channels]
  x = nn::cat({nn::mean(x, 1).unsqueeze(1), x}, 1) + positions_;
  // Only the first query's result is read; computing all of them is a small part of the cost of the
  // convolutions.
  const Tensor parts =
      query_key_value_.forward(x.to(dtype)).view({n, x.size(1), 3, heads_, channels / heads_});
  const Tensor mixed =
      nn::attention(parts.select(2, 0).slice(1, 0, 1), parts.select(2, 1), parts.select(2, 2), {});
  return output_.forward(mixed.view({n, channels}).to(DType::kF32));
}

void ResNetTower::pack(DType dtype) {
  for (ConvolutionNorm& part : stem_) part.pack(dtype);
  for (std::vector<ResNetBlock>& blocks : stages_) {
    for (ResNetBlock& block : blocks) block.pack(dtype);
  }
  query_key_value_.pack(dtype);
  output_.pack(DType::kF32);  // one row per image, as in the other kind of tower
}

}  // namespace saccade
