#include "saccade/model/device/device_clip.h"

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "saccade/core/files/installed.h"
#include "saccade/core/process/late_library.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/device/torch_library.h"
#include "saccade/nn/parameters.h"

namespace saccade {
namespace {

SACCADE_TORCH_FUNCTIONS(SACCADE_LATE_DEFINE)

// Returns the library's file for the loader: beside an installed program, or in the build folder of a program
// that is run from there.
std::string library_file() {
  std::error_code error;
  const std::filesystem::path built = SACCADE_BUILD_LIBRARIES;
  if (!bundled_libraries(kSaccadeTorchFile) && !built.empty() &&
      std::filesystem::is_regular_file(built / kSaccadeTorchFile, error)) {
    return built / kSaccadeTorchFile;
  }
  return kSaccadeTorchFile;
}

std::string load_library() {
  LateLibrary library(library_file().c_str());
#define SACCADE_BIND(name) library.bind(name, #name);
  SACCADE_TORCH_FUNCTIONS(SACCADE_BIND)
#undef SACCADE_BIND
  if (!library.failure().empty()) return library.failure();
  if (saccade_torch_interface() != kSaccadeTorchInterface) return "it is of another version";
  return {};
}

// Loads the library at the first call of the process.
Status need_library(const std::string& device) {
  static const std::string failure = load_library();
  if (failure.empty()) return {};
  return fail(
      ErrorCode::kUnsupported,
      "device {}: {} cannot be loaded ({}); install saccade-lab of this version, built with a libtorch "
      "for this device, or use device cpu",
      device, kSaccadeTorchFile, failure);
}

SaccadeTorchTower tower_of(const nn::TransformerShape& shape) {
  return {.width = shape.width,
          .layers = shape.layers,
          .heads = shape.heads,
          .mlp_width = shape.mlp_width,
          .activation = static_cast<int32_t>(shape.activation),
          .attention_bias = shape.attention_bias ? 1 : 0,
          .eps = shape.eps};
}

[[noreturn]] void throw_error(const SaccadeTorchError& error) {
  if (error.code == static_cast<int32_t>(ErrorCode::kLimit)) throw std::bad_alloc();
  throw std::runtime_error(error.message);
}

}  // namespace

void DeviceClip::Close::operator()(SaccadeTorchClip* clip) const {
  saccade_torch_clip_close(clip);
}

Result<std::unique_ptr<DeviceClip>> DeviceClip::open(const ClipConfig& config, const nn::TensorMap& tensors,
                                                     const DeviceSettings& settings) {
  SACCADE_TRY(need_library(settings.device));
  const SaccadeTorchClipShape shape = {.vision = tower_of(config.vision),
                                       .text = tower_of(config.text),
                                       .image_size = config.image_size,
                                       .patch_size = config.patch_size,
                                       .channels = config.channels,
                                       .vocabulary = config.vocabulary,
                                       .positions = config.positions,
                                       .end_id = config.end_id.value_or(-1),
                                       .projection = config.projection};
  std::vector<SaccadeTorchTensor> given;
  given.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    given.push_back({.name = name.c_str(),
                     .data = tensor.raw(),
                     .dtype = static_cast<int32_t>(tensor.dtype()),
                     .dimensions = static_cast<int32_t>(tensor.dim()),
                     .sizes = tensor.sizes().data(),
                     .strides = tensor.strides().data()});
  }
  const std::string device = torch_name(settings.device);
  const SaccadeTorchSettings asked = {
      .device = device.c_str(), .bf16 = settings.bf16 ? 1 : 0, .threads = settings.threads};
  SaccadeTorchError error{};
  auto result = std::make_unique<DeviceClip>();
  result->clip_.reset(saccade_torch_clip_open(&shape, given.data(), std::ssize(given), &asked, &error));
  for (const auto& [name, tensor] : tensors) nn::release_borrowed(tensor);
  if (!result->clip_) {
    return fail(static_cast<ErrorCode>(error.code), "device {}: {}", settings.device, error.message);
  }
  result->image_width_ = config.vision.width;
  result->text_width_ = config.text.width;
  const int64_t side = config.image_size / config.patch_size;
  result->image_tokens_ = side * side + 1;
  result->projection_ = config.projection;
  return result;
}

// One row for each image, or one for each of its tokens.
nn::Tensor DeviceClip::images(const nn::Tensor& pixels, bool tokens) const {
  const int64_t images = pixels.size(0);
  nn::Tensor states =
      tokens ? nn::Tensor::empty({images, image_tokens_, projection_}, DType::kF32, pixels.workspace())
             : nn::Tensor::empty({images, image_width_}, DType::kF32, pixels.workspace());
  if (images == 0) return states;
  const nn::Tensor given = pixels[0].is_contiguous() ? pixels : pixels.contiguous();
  SaccadeTorchError error{};
  if (saccade_torch_clip_images(clip_.get(), given.data<float>(), images, given.stride(0), tokens ? 1 : 0,
                                states.data<float>(), &error) == 0) {
    throw_error(error);
  }
  return states;
}

nn::Tensor DeviceClip::texts(const nn::Tensor& ids, bool tokens) const {
  const nn::Tensor rows = ids.contiguous();
  const int64_t texts = rows.size(0);
  nn::Tensor states =
      tokens ? nn::Tensor::empty({texts, rows.size(1), projection_}, DType::kF32, ids.workspace())
             : nn::Tensor::empty({texts, text_width_}, DType::kF32, ids.workspace());
  SaccadeTorchError error{};
  if (saccade_torch_clip_texts(clip_.get(), rows.data<int64_t>(), texts, rows.size(1), tokens ? 1 : 0,
                               states.data<float>(), &error) == 0) {
    throw_error(error);
  }
  return states;
}

}  // namespace saccade
