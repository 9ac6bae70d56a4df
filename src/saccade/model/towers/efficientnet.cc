#include "saccade/model/towers/efficientnet.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

using nn::ConvolutionNorm;
using nn::Tensor;

constexpr int64_t kMaxBlocks = 1000;
constexpr int64_t kMaxWidth = 65'536;

// Reads a list of integers in [low, high].
Result<std::vector<int64_t>> numbers(const Json& config, const char* key, std::vector<int64_t> otherwise,
                                     int64_t low, int64_t high) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  if (!found->is_array() || found->size() > static_cast<size_t>(kMaxBlocks)) {
    return fail(ErrorCode::kBadData, "\"{}\" is {}, expected a list of up to {} numbers", key,
                json_kind(*found), kMaxBlocks);
  }
  std::vector<int64_t> result;
  for (const Json& entry : *found) {
    SACCADE_ASSIGN(const auto value, detail::json_as<int64_t>(key, entry));
    if (value < low || value > high) {
      return fail(ErrorCode::kBadData, "\"{}\" has {}, expected {} to {}", key, value, low, high);
    }
    result.push_back(value);
  }
  return result;
}

Result<double> factor(const Json& config, const char* key, double otherwise, double high) {
  SACCADE_ASSIGN(const double value, json_field_or<double>(config, key, otherwise));
  if (value > 0 && value <= high) return value;
  return fail(ErrorCode::kBadData, "\"{}\" is {}, expected above 0 and up to {}", key, value, high);
}

// Scaling of the stages in the paper's table.
struct Scaling {
  double width = 2.0;
  double depth = 3.1;
  int64_t divisor = 8;

  // Returns the nearest multiple of the divisor that is not more than a tenth below.
  [[nodiscard]] int64_t channels(int64_t count) const {
    const double wanted = static_cast<double>(count) * width;
    const double step = static_cast<double>(divisor);
    auto rounded = std::max(divisor, static_cast<int64_t>(std::floor((wanted + step / 2) / step)) * divisor);
    if (static_cast<double>(rounded) < 0.9 * wanted) rounded += divisor;
    return rounded;
  }
  [[nodiscard]] int64_t repeats(int64_t count) const {
    return static_cast<int64_t>(std::ceil(depth * static_cast<double>(count)));
  }
};

struct Stages {
  std::vector<int64_t> kernels, in, out, square, strides, repeats, expansions;
};

Result<Stages> read_stages(const Json& config) {
  Stages stages;
  SACCADE_ASSIGN(stages.kernels, numbers(config, "kernel_sizes", {3, 3, 5, 3, 5, 5, 3}, 1, 31));
  SACCADE_ASSIGN(stages.in, numbers(config, "in_channels", {32, 16, 24, 40, 80, 112, 192}, 1, kMaxWidth));
  SACCADE_ASSIGN(stages.out, numbers(config, "out_channels", {16, 24, 40, 80, 112, 192, 320}, 1, kMaxWidth));
  SACCADE_ASSIGN(stages.square, numbers(config, "depthwise_padding", {}, 0, kMaxBlocks));
  SACCADE_ASSIGN(stages.strides, numbers(config, "strides", {1, 2, 2, 2, 1, 2, 1}, 1, 2));
  SACCADE_ASSIGN(stages.repeats, numbers(config, "num_block_repeats", {1, 2, 2, 3, 3, 4, 1}, 1, kMaxBlocks));
  SACCADE_ASSIGN(stages.expansions, numbers(config, "expand_ratios", {1, 6, 6, 6, 6, 6, 6}, 1, 64));
  const std::pair<const char*, const std::vector<int64_t>*> lists[] = {{"kernel_sizes", &stages.kernels},
                                                                       {"out_channels", &stages.out},
                                                                       {"strides", &stages.strides},
                                                                       {"num_block_repeats", &stages.repeats},
                                                                       {"expand_ratios", &stages.expansions}};
  if (stages.in.empty()) return fail(ErrorCode::kBadData, "\"in_channels\" is empty");
  for (const auto& [name, list] : lists) {
    if (list->size() == stages.in.size()) continue;
    return fail(ErrorCode::kBadData, "\"{}\" has {} entries, \"in_channels\" {}", name, list->size(),
                stages.in.size());
  }
  for (const int64_t kernel : stages.kernels) {
    if (kernel % 2 == 0) return fail(ErrorCode::kUnsupported, "\"kernel_sizes\" has {}: not odd", kernel);
  }
  return stages;
}

Status add_stage(const Stages& stages, size_t stage, const Scaling& scaling, double squeeze,
                 EfficientNetConfig& result) {
  const int64_t before = result.blocks.empty() ? result.stem : result.blocks.back().out;
  const int64_t in = scaling.channels(stages.in[stage]);
  const int64_t out = scaling.channels(stages.out[stage]);
  if (in != before) {
    return fail(ErrorCode::kBadData, "\"in_channels\": stage {} takes {} channels, the one before gives {}",
                stage, in, before);
  }
  const int64_t repeats = scaling.repeats(stages.repeats[stage]);
  if (static_cast<int64_t>(result.blocks.size()) + repeats > kMaxBlocks || std::max(in, out) > kMaxWidth) {
    return fail(ErrorCode::kBadData, "more than {} blocks, or wider than {} channels", kMaxBlocks, kMaxWidth);
  }
  for (int64_t i = 0; i < repeats; ++i) {
    EfficientNetBlock block;
    block.in = i == 0 ? in : out;
    block.out = out;
    block.kernel = stages.kernels[stage];
    block.stride = i == 0 ? stages.strides[stage] : 1;
    block.expansion = stages.expansions[stage];
    block.reduced = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(block.in) * squeeze));
    block.square_padding = std::find(stages.square.begin(), stages.square.end(),
                                     static_cast<int64_t>(result.blocks.size())) != stages.square.end();
    block.adds_input = i > 0;
    result.blocks.push_back(block);
  }
  return {};
}

}  // namespace

Result<EfficientNetConfig> efficientnet_config_from_hugging_face(const Json& config) {
  if (!config.is_object()) return fail(ErrorCode::kBadData, "config is {}, not an object", json_kind(config));
  EfficientNetConfig result;
  Scaling scaling;
  SACCADE_ASSIGN(scaling.width, factor(config, "width_coefficient", 2.0, 100));
  SACCADE_ASSIGN(scaling.depth, factor(config, "depth_coefficient", 3.1, 100));
  SACCADE_ASSIGN(const double squeeze, factor(config, "squeeze_expansion_ratio", 0.25, 1));
  SACCADE_ASSIGN(scaling.divisor, json_field_or<int64_t>(config, "depth_divisor", 8));
  SACCADE_ASSIGN(result.channels, json_field_or<int64_t>(config, "num_channels", 3));
  SACCADE_ASSIGN(result.eps, json_field_or<double>(config, "batch_norm_eps", 1e-3));
  SACCADE_ASSIGN(result.pooling_window, json_field_or<int64_t>(config, "hidden_dim", 2560));
  SACCADE_ASSIGN(const auto pooling, json_field_or<std::string>(config, "pooling_type", "mean"));
  SACCADE_ASSIGN(const auto activation, json_field_or<std::string>(config, "hidden_act", "swish"));
  SACCADE_ASSIGN(result.activation, nn::activation_named(activation).in("\"hidden_act\""));
  if (scaling.divisor < 1 || scaling.divisor > 1024) {
    return fail(ErrorCode::kBadData, "\"depth_divisor\" is {}, expected 1 to 1024", scaling.divisor);
  }
  if (result.channels != 3) {
    return fail(ErrorCode::kUnsupported, "\"num_channels\" is {}, not 3", result.channels);
  }
  if (!(result.eps > 0 && result.eps < 1)) {
    return fail(ErrorCode::kBadData, "\"batch_norm_eps\" is {}, expected above 0 and below 1", result.eps);
  }
  if (result.pooling_window < 1) {
    return fail(ErrorCode::kBadData, "\"hidden_dim\" is {}", result.pooling_window);
  }
  if (pooling != "mean" && pooling != "max") {
    return fail(ErrorCode::kUnsupported, "\"pooling_type\" is \"{}\", known are mean and max", pooling);
  }
  result.pools_maximum = pooling == "max";
  result.stem = scaling.channels(32);
  SACCADE_ASSIGN(const Stages stages, read_stages(config));
  for (size_t stage = 0; stage < stages.in.size(); ++stage) {
    SACCADE_TRY(add_stage(stages, stage, scaling, squeeze, result));
  }
  return result;
}

Result<EfficientNet::Block> EfficientNet::make_block(const EfficientNetConfig& config,
                                                     const EfficientNetBlock& shape,
                                                     nn::ParameterSource& source, const std::string& prefix) {
  Block block;
  const int64_t inner = shape.in * shape.expansion;
  if (shape.expansion != 1) {
    const nn::ConvolutionShape expand{
        .in = shape.in, .out = inner, .eps = config.eps, .activation = config.activation};
    SACCADE_ASSIGN(block.expand, ConvolutionNorm::make(source, prefix + "expansion.expand_conv",
                                                       prefix + "expansion.expand_bn", expand));
  }
  const int64_t half = shape.kernel / 2;
  const int64_t less = shape.stride == 1 || shape.square_padding ? half : std::max<int64_t>(half - 1, 0);
  const nn::ConvolutionShape depthwise{.in = inner,
                                       .out = inner,
                                       .kernel = shape.kernel,
                                       .stride = shape.stride,
                                       .depthwise = true,
                                       .padding = {less, half, less, half},
                                       .eps = config.eps,
                                       .activation = config.activation};
  SACCADE_ASSIGN(block.depthwise, ConvolutionNorm::make(source, prefix + "depthwise_conv.depthwise_conv",
                                                        prefix + "depthwise_conv.depthwise_norm", depthwise));
  SACCADE_ASSIGN(block.squeeze_excite, nn::SqueezeExcite::make(source, prefix + "squeeze_excite", inner,
                                                               shape.reduced, config.activation));
  const nn::ConvolutionShape project{.in = inner, .out = shape.out, .eps = config.eps};
  SACCADE_ASSIGN(block.project, ConvolutionNorm::make(source, prefix + "projection.project_conv",
                                                      prefix + "projection.project_bn", project));
  block.adds_input = shape.adds_input;
  return block;
}

Result<EfficientNet> EfficientNet::make(const EfficientNetConfig& config, nn::ParameterSource& source,
                                        const std::string& prefix) {
  EfficientNet model;
  model.config_ = config;
  const nn::ConvolutionShape stem{.in = config.channels,
                                  .out = config.stem,
                                  .kernel = 3,
                                  .stride = 2,
                                  .padding = {0, 1, 0, 1},
                                  .eps = config.eps,
                                  .activation = config.activation};
  SACCADE_ASSIGN(model.stem_, ConvolutionNorm::make(source, prefix + "embeddings.convolution",
                                                    prefix + "embeddings.batchnorm", stem));
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    SACCADE_ASSIGN(model.blocks_.emplace_back(), make_block(config, config.blocks[i], source,
                                                            fmt::format("{}encoder.blocks.{}.", prefix, i)));
  }
  return model;
}

Tensor EfficientNet::states(const Tensor& pixels, DType dtype, Tensor* hidden_1) const {
  Tensor x = stem_.forward(pixels.permute({0, 2, 3, 1}), dtype);  // channels last from here on
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const Tensor inner = block.expand ? block.expand->forward(x, dtype) : x;
    const Tensor made =
        block.project.forward(block.squeeze_excite.forward(block.depthwise.forward(inner, dtype)), dtype);
    x = block.adds_input ? made + x : made;
    if (hidden_1 != nullptr && i == 0) *hidden_1 = x.clone();
  }
  return x;
}

Tensor EfficientNet::pool(const Tensor& states) const {
  const Tensor places = states.view({states.size(0), -1, states.size(3)});
  return config_.pools_maximum ? nn::largest(places, 1) : nn::mean(places, 1);
}

void EfficientNet::pack(DType dtype) {
  stem_.pack(dtype);
  for (Block& block : blocks_) {
    if (block.expand) block.expand->pack(dtype);
    block.depthwise.pack(dtype);
    block.squeeze_excite.pack();
    block.project.pack(dtype);
  }
}

}  // namespace saccade
