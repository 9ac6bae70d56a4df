// Convolutional vision tower of CLIP (Radford et al. 2021, "Learning Transferable Visual Models From Natural
// Language Supervision", section 2.4), for inference. It is a ResNet with a stem of three convolutions and
// average pooling instead of strides (Zhang 2019, "Making Convolutional Networks Shift-Invariant Again"). Its
// last layer is attention over all positions with their mean as the query.
//
// Parameters have the published names, "visual.layer1.0.conv1.weight": only these layouts have such towers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/nn/convolution.h"
#include "saccade/nn/layers.h"

namespace saccade {

struct ResNetShape {
  std::vector<int64_t> layers;  // blocks of the four stages
  int64_t width = 64;           // channels after the stem; the last stage has 32 times as many
  int64_t heads = 32;           // heads of the attention pooling
};

// Ratio of the input's side to that of the feature map after the last stage.
constexpr int64_t kResNetStride = 32;

// Residual block of two or three convolutions.
class ResNetBlock {
 public:
  static Result<ResNetBlock> make(nn::ParameterSource& source, const std::string& prefix, int64_t in,
                                  int64_t planes, int64_t stride);
  [[nodiscard]] nn::Tensor forward(const nn::Tensor& x, DType dtype) const;
  void pack(DType dtype);

 private:
  int64_t stride_ = 1;
  bool reshaped_ = false;  // the carried input goes through a convolution of its own
  nn::ConvolutionNorm reduce_, spatial_, expand_, carried_;
};

class ResNetTower {
 public:
  // Makes the tower; kBadData for a number of stages other than four, and for widths and heads that do not
  // divide.
  static Result<ResNetTower> make(nn::ParameterSource& source, const ResNetShape& shape, int64_t image_size,
                                  int64_t projection);
  // Encodes pixels: [n, 3, image_size, image_size] float32 -> [n, projection] float32, not normalized.
  // `stages`, if not null, receives the outputs of the first and the last stage, [n, channels, rows, columns]
  // as in the reference.
  [[nodiscard]] nn::Tensor forward(const nn::Tensor& pixels, DType dtype,
                                   std::pair<nn::Tensor, nn::Tensor>* stages = nullptr) const;
  void pack(DType dtype);

 private:
  int64_t heads_ = 1;
  std::vector<nn::ConvolutionNorm> stem_;
  std::vector<std::vector<ResNetBlock>> stages_;
  nn::Tensor positions_;  // [1 + places, channels]
  nn::Linear query_key_value_, output_;
};

}  // namespace saccade
