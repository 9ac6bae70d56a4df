// Convolution, batch normalization with fixed statistics, activation: what convolutional encoders are made
// of, for inference. Gradients flow before pack(), but the statistics stay as they were loaded.
//
// Unpacked, each of the three is an operation of its own, as the reference has it. pack() folds the
// normalization into the kernel, and a kernel of 1 x 1 becomes a product over weights repacked for oneDNN, in
// the dtype of layers.h.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {

// Zeros put around a picture before a convolution that adds none of its own.
struct Padding {
  int64_t left = 0;
  int64_t right = 0;
  int64_t top = 0;
  int64_t bottom = 0;
};

struct ConvolutionShape {
  int64_t in = 0;
  int64_t out = 0;
  int64_t kernel = 1;  // kernel x kernel
  int64_t stride = 1;
  bool depthwise = false;  // one kernel a channel; in == out
  Padding padding = {};
  double eps = 1e-3;  // of the normalization
  Activation activation = Activation::kNone;
};

class ConvolutionNorm {
 public:
  // Parameters "<convolution>.weight", "<norm>.weight", ".bias", ".running_mean" and ".running_var".
  static Result<ConvolutionNorm> make(ParameterSource& source, const std::string& convolution,
                                      const std::string& norm, const ConvolutionShape& shape);
  // x: [n, in, height, width] float32 -> [n, out, height', width'] float32, channels last in memory when
  // packed. `dtype` is that of the products of 1 x 1 kernels; others are made in float32.
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x, at::ScalarType dtype) const;
  void pack(at::ScalarType dtype);

 private:
  // Whether every place's row is multiplied by one matrix, and nothing else.
  [[nodiscard]] bool is_product() const;

  ConvolutionShape shape_;
  torch::Tensor kernel_, gain_, bias_, mean_, variance_;
  bool packed_ = false;
  Linear product_;  // of a packed 1 x 1 kernel
};

// Squeeze and excitation (Hu et al. 2018, "Squeeze-and-Excitation Networks"): every channel scaled by
// sigmoid(expand(activation(reduce(its mean over the picture, and the others')))).
class SqueezeExcite {
 public:
  // Parameters "<name>.reduce" and "<name>.expand" with kernels of 1 x 1 and biases.
  static Result<SqueezeExcite> make(ParameterSource& source, const std::string& name, int64_t channels,
                                    int64_t reduced, Activation activation);
  // x: [n, channels, height, width] float32.
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x) const;

 private:
  Activation activation_ = Activation::kNone;
  Linear reduce_, expand_;
};

}  // namespace saccade::nn
