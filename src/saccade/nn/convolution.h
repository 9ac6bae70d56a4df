// Layers of convolutional encoders for inference: convolution, batch normalization with fixed statistics,
// activation. Images are in channels-last layout: [n, height, width, channels].
//
// pack() folds the normalization into the kernel. A 1 x 1 kernel then runs as a matrix product over weights
// repacked for oneDNN, in the dtype of layers.h. Other kernels run as oneDNN convolutions in float32, on
// bands of rows of each image.
#pragma once

#include <memory>
#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

// Zero padding around an image, applied before a convolution that has none of its own.
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
  double eps = 1e-3;  // epsilon of the normalization
  Activation activation = Activation::kNone;
};

// Convolution larger than 1 x 1 with bias and activation, over oneDNN.
class PackedConvolution;

class ConvolutionNorm {
 public:
  // Loads the parameters "<convolution>.weight", "<norm>.weight", ".bias", ".running_mean" and
  // ".running_var".
  static Result<ConvolutionNorm> make(ParameterSource& source, const std::string& convolution,
                                      const std::string& norm, const ConvolutionShape& shape);
  // Applies the layer to x: [n, height, width, in] float32 -> [n, height', width', out] float32. Requires
  // pack(). `dtype` is that of the products of 1 x 1 kernels; others run in float32.
  [[nodiscard]] Tensor forward(const Tensor& x, DType dtype) const;
  void pack(DType dtype);

 private:
  // Returns true if the convolution is a plain matrix product at each position.
  [[nodiscard]] bool is_product() const;

  ConvolutionShape shape_;
  Tensor kernel_, gain_, bias_, mean_, variance_;
  Linear product_;                                        // packed 1 x 1 kernel
  std::shared_ptr<const PackedConvolution> convolution_;  // any other packed kernel
};

// Squeeze and excitation (Hu et al. 2018, "Squeeze-and-Excitation Networks"). Scales each channel by its
// entry of sigmoid(expand(activation(reduce(means of all channels over the image)))).
class SqueezeExcite {
 public:
  // Loads the parameters "<name>.reduce" and "<name>.expand", 1 x 1 kernels with biases.
  static Result<SqueezeExcite> make(ParameterSource& source, const std::string& name, int64_t channels,
                                    int64_t reduced, Activation activation);
  // Scales x: [n, height, width, channels] float32 in place. Requires pack().
  [[nodiscard]] Tensor forward(Tensor x) const;
  void pack();

 private:
  Activation activation_ = Activation::kNone;
  Linear reduce_, expand_;
};

// Computes means over non-overlapping squares of side x side. Ignores a remainder at the right and bottom
// edges. x: [n, height, width, channels] float32.
Tensor average_pool(const Tensor& x, int64_t side);

}  // namespace saccade::nn
