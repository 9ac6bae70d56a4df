// Checkpoint folder: its layout, its config, and its weights under one naming scheme.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/weights/torch_file.h"

namespace saccade {

// Weights are one safetensors file, shards with `<file>.index.json`, or, without either, the same in torch's
// own format (torch_file.h).
enum class Layout {
  kHuggingFace,  // config.json + model.safetensors or pytorch_model.bin
  kOpenClip,     // open_clip_config.json + open_clip_model.safetensors or open_clip_pytorch_model.bin
  kOpenAi,       // model.safetensors or a single *.pt or *.pth under OpenAI's names, mostly without a config:
                 // OpenAI's TorchScript archives, Long-CLIP's own files
};
std::string_view layout_name(Layout layout);

// Image preprocessing config of the checkpoint: "image_processor" of processor_config.json (written by
// transformers 5) if present, else preprocessor_config.json. This is transformers' order too. `json` is null
// if there is neither; `where` is the source to name in errors, also in that case.
struct PictureConfig {
  Json json;
  std::string where;
};

struct Checkpoint {
  std::filesystem::path folder;
  Layout layout = Layout::kHuggingFace;
  Json config;  // config.json, or open_clip_config.json; null without one
  PictureConfig pictures;
  // Sorted files that affect the encoder's output; the fingerprint covers them.
  std::vector<std::filesystem::path> files;
};

// Detects the layout and reads the configs. kNotFound lists the files that would form a checkpoint.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& folder);

// Mapped weights. Tensors borrow from `files`, which must outlive them.
struct Weights {
  std::vector<std::unique_ptr<SafeTensors>> files;
  std::vector<std::unique_ptr<TorchFile>> torch_files;
  nn::TensorMap tensors;
};
Result<Weights> map_weights(const Checkpoint& checkpoint);

// Converts OpenAI's and OpenCLIP's tensor names to Hugging Face's. Joint query-key-value tensors are split
// and projections transposed. Long-CLIP's two position tensors are joined (first 20 rows of one, the rest of
// the other). Uses views where possible. Long-CLIP's rule: beichenzbc/Long-CLIP, model_longclip.py (mask1,
// mask2).
Result<nn::TensorMap> rename_to_hugging_face(nn::TensorMap tensors);
// Converts back, to the names that OpenAI and OpenCLIP share: projections and joint tensors are copied. Returns
// kBadData for a block without all three of query, key and value.
Result<nn::TensorMap> rename_to_open_clip(const nn::TensorMap& tensors);

// Returns true if a folder appears to be a checkpoint, complete or not: it has a config, or a weight file
// name of some layout. Reads file names only.
bool looks_like_checkpoint(const std::filesystem::path& folder);

}  // namespace saccade
