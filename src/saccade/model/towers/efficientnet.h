// EfficientNet (Tan and Le 2019, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks"):
// inverted bottlenecks with depthwise convolutions and squeeze-excitation, in seven stages. One factor scales
// all widths and another all depths. It is the image tower of ALIGN, without its classification head.
//
// Parameters have their names in the Hugging Face layout, below a prefix of the model's own. The reference's
// strided convolutions pad less at the left and top than at the right and bottom (TensorFlow's rule for
// images of even size), except in the blocks that the config lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/convolution.h"
#include "saccade/nn/parameters.h"

namespace saccade {

// Block with all factors already applied.
struct EfficientNetBlock {
  int64_t in = 0;
  int64_t out = 0;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t expansion = 1;
  int64_t reduced = 1;  // channels between squeeze and excitation
  bool square_padding = false;
  bool adds_input = false;
};

struct EfficientNetConfig {
  int64_t channels = 3;
  int64_t stem = 32;
  std::vector<EfficientNetBlock> blocks;
  nn::Activation activation = nn::Activation::kSilu;
  double eps = 1e-3;
  int64_t pooling_window = 2560;  // largest side of the last states that the pooling takes as one
  bool pools_maximum = false;
  [[nodiscard]] int64_t width() const { return blocks.back().out; }
};

// Reads the section of config.json, with transformers' defaults. Returns kBadData for impossible or
// contradictory shapes, and kUnsupported for unknown settings, by name.
Result<EfficientNetConfig> efficientnet_config_from_hugging_face(const Json& config);

// EfficientNet model. Forward passes are thread-safe, pack() is not.
class EfficientNet {
 public:
  static Result<EfficientNet> make(const EfficientNetConfig& config, nn::ParameterSource& source,
                                   const std::string& prefix);
  // Computes the last block's states, [n, about height / 32, about width / 32, width] float32, of pixels: [n,
  // channels, height, width] float32, of any size. hidden_1, if not null, receives the first block's states.
  [[nodiscard]] nn::Tensor states(const nn::Tensor& pixels, DType dtype,
                                  nn::Tensor* hidden_1 = nullptr) const;
  // Returns their mean (or maximum) over positions: [n, width].
  [[nodiscard]] nn::Tensor pool(const nn::Tensor& states) const;
  [[nodiscard]] const EfficientNetConfig& config() const { return config_; }
  void pack(DType dtype);

 private:
  struct Block {
    std::optional<nn::ConvolutionNorm> expand;
    nn::ConvolutionNorm depthwise;
    nn::SqueezeExcite squeeze_excite;
    nn::ConvolutionNorm project;
    bool adds_input = false;
  };
  static Result<Block> make_block(const EfficientNetConfig& config, const EfficientNetBlock& shape,
                                  nn::ParameterSource& source, const std::string& prefix);

  EfficientNetConfig config_;
  nn::ConvolutionNorm stem_;
  std::vector<Block> blocks_;
};

}  // namespace saccade
