// A CLIP's towers on a device, by libsaccade-torch.so (device/torch_library.h). Internal to the module.
#pragma once

#include <memory>
#include <string>

#include "saccade/core/error.h"
#include "saccade/model/families/clip.h"
#include "saccade/nn/tensor.h"

struct SaccadeTorchClip;

namespace saccade {

struct DeviceSettings {
  std::string device;  // as check_device_name takes it; not the processor
  bool bf16 = false;
  int threads = 0;
};

class DeviceClip {
 public:
  // Copies the model's tensors, named as in the Hugging Face layout, to the device. The image tower is a vision
  // transformer. kUnsupported if the library, libtorch's part for the device or the device itself is missing; kLimit if
  // the device's memory does not suffice. The first call of a process loads libtorch.
  static Result<std::unique_ptr<DeviceClip>> open(const ClipConfig& config, const nn::TensorMap& tensors,
                                                  const DeviceSettings& settings);

  // Compute the same as ClipModel's functions. One call at a time. Throw std::bad_alloc if the device's memory
  // does not suffice, and std::runtime_error for its other failures.
  [[nodiscard]] nn::Tensor image_states(const nn::Tensor& pixels) const { return images(pixels, false); }
  [[nodiscard]] nn::Tensor text_states(const nn::Tensor& ids) const { return texts(ids, false); }
  [[nodiscard]] nn::Tensor image_tokens(const nn::Tensor& pixels) const { return images(pixels, true); }
  [[nodiscard]] nn::Tensor text_tokens(const nn::Tensor& ids) const { return texts(ids, true); }

 private:
  [[nodiscard]] nn::Tensor images(const nn::Tensor& pixels, bool tokens) const;
  [[nodiscard]] nn::Tensor texts(const nn::Tensor& ids, bool tokens) const;

  struct Close {
    void operator()(SaccadeTorchClip* clip) const;
  };

  std::unique_ptr<SaccadeTorchClip, Close> clip_;
  int64_t image_width_ = 0;
  int64_t text_width_ = 0;
  int64_t image_tokens_ = 0;  // of an image, with the class token
  int64_t projection_ = 0;
};

}  // namespace saccade
