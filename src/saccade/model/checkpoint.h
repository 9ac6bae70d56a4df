// A checkpoint folder: which layout it has, its config, its weights under one set of names.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/safetensors.h"
#include "saccade/nn/parameters.h"

namespace saccade {

enum class Layout {
  kHuggingFace,  // config.json + model.safetensors (or shards with model.safetensors.index.json)
  kOpenClip,     // open_clip_config.json + open_clip_model.safetensors
  kOpenAi,       // model.safetensors under OpenAI's names without a config: Long-CLIP's own layout
};
std::string_view layout_name(Layout layout);

struct Checkpoint {
  std::filesystem::path folder;
  Layout layout = Layout::kHuggingFace;
  Json config;  // config.json, or open_clip_config.json; null without one
  // The files that decide what the encoder answers, sorted: what the fingerprint covers.
  std::vector<std::filesystem::path> files;
};

// Recognizes the layout and reads the config. kNotFound says which files would make a checkpoint.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& folder);

// The weights, mapped. Tensors borrow from `files`, which must outlive them.
struct Weights {
  std::vector<std::unique_ptr<SafeTensors>> files;
  nn::TensorMap tensors;
};
Result<Weights> map_weights(const Checkpoint& checkpoint);

// OpenAI's and OpenCLIP's tensor names to Hugging Face's: joint query-key-value tensors are split,
// projections transposed, the two position tensors of Long-CLIP joined (first 20 rows of one, the rest of the
// other). Views where possible. Long-CLIP's rule: beichenzbc/Long-CLIP, model_longclip.py (mask1, mask2).
Result<nn::TensorMap> rename_to_hugging_face(nn::TensorMap tensors);

}  // namespace saccade
