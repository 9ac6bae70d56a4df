// libsaccade-torch.so: a CLIP's towers on a device of libtorch, behind C functions
// (saccade/model/device/torch_library.h). The architecture is that of the product and of training,
// model/families/clip.h, over libtorch's tensors without gradients.
#include "saccade/model/device/torch_library.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "lab/train/math/variable.h"
#include "saccade/core/error.h"
#include "saccade/model/families/clip.h"

struct SaccadeTorchClip {
  saccade::lab::TrainedClip model;
  torch::Device device;
  saccade::DType dtype = saccade::DType::kF32;  // of the products
};

namespace saccade::lab {
namespace {

// The tensors of a checkpoint on a device, in float32. In bfloat16, the blocks' weights are stored in it, so
// that they are not converted at every product.
class DeviceParameters : public nn::ParameterSourceOf<Variable> {
 public:
  DeviceParameters(std::span<const SaccadeTorchTensor> tensors, torch::Device device, DType dtype)
      : tensors_(tensors), device_(device), dtype_(dtype) {}

  Result<Variable> take(const std::string& name, const std::vector<int64_t>& shape,
                        nn::Init /*init*/) override {
    return on_device(name, shape, at::kFloat);
  }
  Result<Variable> take_stored(const std::string& name, const std::vector<int64_t>& shape,
                               nn::Init /*init*/) override {
    // The two projections are products in float32.
    const bool in_block = name.find(".encoder.layers.") != std::string::npos;
    return on_device(name, shape, in_block ? torch_type(dtype_) : at::kFloat);
  }

 private:
  Result<Variable> on_device(const std::string& name, const std::vector<int64_t>& shape,
                             at::ScalarType type) const {
    const auto found =
        std::ranges::find_if(tensors_, [&](const SaccadeTorchTensor& tensor) { return name == tensor.name; });
    if (found == tensors_.end()) return fail(ErrorCode::kBadData, "no tensor {}", name);
    const auto dimensions = static_cast<size_t>(found->dimensions);
    const std::span<const int64_t> sizes(found->sizes, dimensions);
    if (!std::ranges::equal(sizes, shape))
      return fail(ErrorCode::kBadData, "tensor {} has another shape", name);
    const at::ScalarType stored = torch_type(static_cast<DType>(found->dtype));
    // Nothing is written through the pointer.
    const torch::Tensor there =
        torch::from_blob(const_cast<void*>(found->data), at::IntArrayRef(found->sizes, dimensions),
                         at::IntArrayRef(found->strides, dimensions), stored);
    // A copy also on the processor: the caller's memory is a mapped file.
    return Variable(there.to(device_, type, false, true).contiguous());
  }

  std::span<const SaccadeTorchTensor> tensors_;
  torch::Device device_;
  DType dtype_;
};

nn::TransformerShape shape_of(const SaccadeTorchTower& tower) {
  return {.width = tower.width,
          .layers = tower.layers,
          .heads = tower.heads,
          .mlp_width = tower.mlp_width,
          .activation = static_cast<nn::Activation>(tower.activation),
          .eps = tower.eps,
          .attention_bias = tower.attention_bias != 0};
}

ClipConfig config_of(const SaccadeTorchClipShape& shape) {
  ClipConfig config;
  config.vision = shape_of(shape.vision);
  config.text = shape_of(shape.text);
  config.image_size = shape.image_size;
  config.patch_size = shape.patch_size;
  config.channels = shape.channels;
  config.vocabulary = shape.vocabulary;
  config.positions = shape.positions;
  if (shape.end_id >= 0) config.end_id = shape.end_id;
  config.projection = shape.projection;
  return config;
}

Result<torch::Device> device_named(const std::string& name) {
  const torch::Device device(name);
  if (!device.is_cuda()) return device;
  const auto gpus = torch::cuda::is_available() ? static_cast<int64_t>(torch::cuda::device_count()) : 0;
  if (gpus == 0) {
    return fail(
        ErrorCode::kUnsupported,
        "libtorch {} finds no GPU: install NVIDIA's driver, and saccade-lab built with a libtorch for "
        "CUDA (the one inside PyPI's torch serves), or use device cpu",
        TORCH_VERSION);
  }
  if (device.has_index() && device.index() >= gpus) {
    return fail(ErrorCode::kUnsupported, "there are {} GPUs, numbered from 0", gpus);
  }
  return device;
}

Result<std::unique_ptr<SaccadeTorchClip>> open_clip(const SaccadeTorchClipShape& shape,
                                                    std::span<const SaccadeTorchTensor> tensors,
                                                    const SaccadeTorchSettings& settings) {
  SACCADE_ASSIGN(const torch::Device device, device_named(settings.device));
  if (device.is_cpu() && settings.threads > 0) at::set_num_threads(settings.threads);
  const DType dtype = settings.bf16 != 0 ? DType::kBF16 : DType::kF32;
  DeviceParameters source(tensors, device, dtype);
  SACCADE_ASSIGN(TrainedClip model, TrainedClip::make(config_of(shape), source));
  return std::make_unique<SaccadeTorchClip>(SaccadeTorchClip{std::move(model), device, dtype});
}

// Copies the states to `out`, which has room for [rows, tokens, width] values, or for [rows, width] with tokens 0. kInternal
// for another shape.
Status copy_to_host(const torch::Tensor& states, int64_t count, int64_t tokens, int64_t width, float* out) {
  const std::vector<int64_t> shape =
      tokens > 0 ? std::vector{count, tokens, width} : std::vector{count, width};
  if (states.sizes() != at::IntArrayRef(shape)) {
    return fail(ErrorCode::kInternal, "the model's states are not of shape [{}]", fmt::join(shape, ", "));
  }
  const torch::Tensor rows = states.to(at::kCPU, at::kFloat).contiguous();
  std::memcpy(out, rows.data_ptr<float>(), static_cast<size_t>(rows.numel()) * sizeof(float));
  return {};
}

void tell(const Error& error, SaccadeTorchError& out) {
  out.code = static_cast<int32_t>(error.code);
  const size_t length = error.message.copy(out.message, sizeof out.message - 1);
  out.message[length] = 0;
}

// Runs body(), without gradients and by libtorch's operators alone. Returns false, and why in `error`, for its
// error or exception.
template <typename Body>
bool run(SaccadeTorchError& error, const Body& body) {
  try {
    const torch::NoGradGuard no_gradients;
    const PlainOperators plain;
    const Status done = body();
    if (!done) tell(done.error(), error);
    return done.has_value();
  } catch (const std::bad_alloc&) {
    tell({ErrorCode::kLimit, "out of memory"}, error);
  } catch (const std::exception& exception) {
    // libtorch's messages go on with a stack trace. Its type for a full GPU differs between versions.
    const std::string_view text = exception.what();
    const std::string_view line = text.substr(0, text.find('\n'));
    const bool full = text.find("out of memory") != std::string_view::npos;
    tell({full ? ErrorCode::kLimit : ErrorCode::kInternal, std::string(line)}, error);
  } catch (...) {
    tell({ErrorCode::kInternal, "an exception of an unknown type"}, error);
  }
  return false;
}

}  // namespace
}  // namespace saccade::lab

int32_t saccade_torch_interface() {
  return kSaccadeTorchInterface;
}

SaccadeTorchClip* saccade_torch_clip_open(const SaccadeTorchClipShape* shape,
                                          const SaccadeTorchTensor* tensors, int64_t count,
                                          const SaccadeTorchSettings* settings, SaccadeTorchError* error) {
  std::unique_ptr<SaccadeTorchClip> clip;
  saccade::lab::run(*error, [&]() -> saccade::Status {
    SACCADE_ASSIGN(clip, saccade::lab::open_clip(*shape, {tensors, static_cast<size_t>(count)}, *settings));
    return {};
  });
  return clip.release();
}

void saccade_torch_clip_close(SaccadeTorchClip* clip) {
  delete clip;
}

int32_t saccade_torch_clip_images(SaccadeTorchClip* clip, const float* pixels, int64_t images, int64_t stride,
                                  int32_t of_tokens, float* states, SaccadeTorchError* error) {
  const bool done = saccade::lab::run(*error, [&]() -> saccade::Status {
    const saccade::ClipConfig& config = clip->model.config();
    const int64_t side = config.image_size;
    const torch::Tensor host =
        torch::from_blob(const_cast<float*>(pixels), {images, config.channels, side, side},
                         {stride, side * side, side, 1}, at::kFloat);
    const saccade::lab::Variable input(host.to(clip->device));
    if (of_tokens == 0) {
      return saccade::lab::copy_to_host(clip->model.image_states(input, clip->dtype).tensor(), images, 0,
                                        config.vision.width, states);
    }
    const int64_t patches = side / config.patch_size;
    return saccade::lab::copy_to_host(clip->model.image_tokens(input, clip->dtype).tensor(), images,
                                      patches * patches + 1, config.projection, states);
  });
  return done ? 1 : 0;
}

int32_t saccade_torch_clip_texts(SaccadeTorchClip* clip, const int64_t* ids, int64_t texts, int64_t tokens,
                                 int32_t of_tokens, float* states, SaccadeTorchError* error) {
  const bool done = saccade::lab::run(*error, [&]() -> saccade::Status {
    const auto rows = saccade::nn::Tensor::borrow(ids, {texts, tokens}, saccade::DType::kI64);
    if (of_tokens == 0) {
      return saccade::lab::copy_to_host(clip->model.text_states(rows, clip->dtype).tensor(), texts, 0,
                                        clip->model.config().text.width, states);
    }
    return saccade::lab::copy_to_host(clip->model.text_tokens(rows, clip->dtype).tensor(), texts, tokens,
                                      clip->model.config().projection, states);
  });
  return done ? 1 : 0;
}
