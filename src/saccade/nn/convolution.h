// Convolution, batch normalization with fixed statistics, activation: what convolutional encoders are made
// of, for inference. Pictures lie with their channels last: [n, height, width, channels].
//
// pack() folds the normalization into the kernel. A kernel of 1 x 1 then is a product over weights repacked
// for oneDNN, in the dtype of layers.h; others run as oneDNN's
// convolutions in float32, by bands of rows of each picture.
#pragma once

#include <memory>
#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

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

// A kernel of more than 1 x 1 with bias and activation, over oneDNN.
class PackedConvolution;

class ConvolutionNorm {
 public:
  // Parameters "<convolution>.weight", "<norm>.weight", ".bias", ".running_mean" and ".running_var".
  static Result<ConvolutionNorm> make(ParameterSource& source, const std::string& convolution,
                                      const std::string& norm, const ConvolutionShape& shape);
  // After pack(). x: [n, height, width, in] float32 -> [n, height', width', out] float32. `dtype` is that of
  // the products of 1 x 1 kernels; others are made in float32.
  [[nodiscard]] Tensor forward(const Tensor& x, DType dtype) const;
  void pack(DType dtype);

 private:
  // Whether every place's row is multiplied by one matrix, and nothing else.
  [[nodiscard]] bool is_product() const;

  ConvolutionShape shape_;
  Tensor kernel_, gain_, bias_, mean_, variance_;
  Linear product_;                                        // of a packed 1 x 1 kernel
  std::shared_ptr<const PackedConvolution> convolution_;  // of another
};

// Squeeze and excitation (Hu et al. 2018, "Squeeze-and-Excitation Networks"): every channel scaled by
// sigmoid(expand(activation(reduce(its mean over the picture, and the others')))).
class SqueezeExcite {
 public:
  // Parameters "<name>.reduce" and "<name>.expand" with kernels of 1 x 1 and biases.
  static Result<SqueezeExcite> make(ParameterSource& source, const std::string& name, int64_t channels,
                                    int64_t reduced, Activation activation);
  // After pack(). x: [n, height, width, channels] float32, scaled where it lies.
  [[nodiscard]] Tensor forward(Tensor x) const;
  void pack();

 private:
  Activation activation_ = Activation::kNone;
  Linear reduce_, expand_;
};

// Means over squares of side x side, which do not overlap; what is left at the right and at the bottom is not
// looked at. x: [n, height, width, channels] float32.
Tensor average_pool(const Tensor& x, int64_t side);

}  // namespace saccade::nn
