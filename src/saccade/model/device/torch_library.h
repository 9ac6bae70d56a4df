// Interface of libsaccade-torch.so, which runs an encoder's towers by libtorch, on a GPU or, for tests, on the
// processor (docs/adr/0021-encoding-on-a-device.md). device_clip.cc loads it at its first use;
// lab/train/device/torch_library.cc implements it. Plain C types alone cross it: the two sides are linked
// with other libraries, and share no memory that one allocates and the other frees.
#pragma once

#include <cstdint>

extern "C" {

// A tensor in the caller's memory.
struct SaccadeTorchTensor {
  const char* name;  // in the Hugging Face layout
  const void* data;
  int32_t dtype;  // a DType (core/files/safetensors.h)
  int32_t dimensions;
  const int64_t* sizes;
  const int64_t* strides;  // in elements
};

// A transformer's shape (nn::TransformerShape).
struct SaccadeTorchTower {
  int64_t width;
  int64_t layers;
  int64_t heads;
  int64_t mlp_width;
  int32_t activation;      // an nn::Activation
  int32_t attention_bias;  // 1 if query, key and value have biases
  double eps;
};

// A CLIP with a vision transformer (ClipConfig).
struct SaccadeTorchClipShape {
  SaccadeTorchTower vision;
  SaccadeTorchTower text;
  int64_t image_size;
  int64_t patch_size;
  int64_t channels;
  int64_t vocabulary;
  int64_t positions;
  int64_t end_id;  // -1: texts are read at their highest id
  int64_t projection;
};

struct SaccadeTorchSettings {
  const char* device;  // libtorch's name of it: "cuda", "cuda:1", "cpu"
  int32_t bf16;        // 1: products in bfloat16; 0: in float32
  int32_t threads;     // of libtorch on the processor; 0: as many as it takes itself
};

// Reason of a failed call.
struct SaccadeTorchError {
  int32_t code;        // an ErrorCode
  char message[1000];  // one line, ends in 0
};

struct SaccadeTorchClip;  // a model on its device

#pragma GCC visibility push(default)
// Returns kSaccadeTorchInterface as it was when the library was built.
int32_t saccade_torch_interface();
// Copies the tensors of a CLIP to the device. Returns nullptr, and why in `error`, if that fails.
SaccadeTorchClip* saccade_torch_clip_open(const SaccadeTorchClipShape* shape,
                                          const SaccadeTorchTensor* tensors, int64_t count,
                                          const SaccadeTorchSettings* settings, SaccadeTorchError* error);
void saccade_torch_clip_close(SaccadeTorchClip* clip);
// Computes the states that the model projects, as ClipModel::image_states: states [images, vision width] float32. With
// of_tokens 1, those of every token, projected, as ClipModel::image_tokens: [images, 1 + patches, projection]. pixels:
// [images, channels, image_size, image_size] float32, `stride` values from one image to the next. Returns 1, or 0 and why in
// `error`. Calls on one model may not run at the same time.
int32_t saccade_torch_clip_images(SaccadeTorchClip* clip, const float* pixels, int64_t images, int64_t stride,
                                  int32_t of_tokens, float* states, SaccadeTorchError* error);
// As above, for texts: ids [texts, tokens]; states [texts, text width], or [texts, tokens, projection].
int32_t saccade_torch_clip_texts(SaccadeTorchClip* clip, const int64_t* ids, int64_t texts, int64_t tokens,
                                 int32_t of_tokens, float* states, SaccadeTorchError* error);
#pragma GCC visibility pop

}  // extern "C"

// Changes with every change of this file.
constexpr int32_t kSaccadeTorchInterface = 2;
// Name for the loader.
constexpr const char* kSaccadeTorchFile = "libsaccade-torch.so";

// Functions above, for core/process/late_library.h.
#define SACCADE_TORCH_FUNCTIONS(use)                                                      \
  use(saccade_torch_interface) use(saccade_torch_clip_open) use(saccade_torch_clip_close) \
      use(saccade_torch_clip_images) use(saccade_torch_clip_texts)
