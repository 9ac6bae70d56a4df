// What a checkpoint is, from its config and the headers of its weights: quick, whatever its size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct CheckpointOutline {
  std::string family;  // as EncoderInfo has it; of an unknown family, the config's own "model_type"
  bool known = false;  // whether load_encoder can load it
  std::string layout;
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the files below
  // 0 and empty where the family is unknown; without pictures, the last three.
  int64_t dim = 0;
  int64_t context = 0;
  int image_height = 0;
  int image_width = 0;
  std::string preprocessing;  // Preprocessing::describe
  // The files that the fingerprint covers.
  std::vector<std::filesystem::path> files;
};

// Whether a folder means to be a checkpoint, whole or not: it has a config, or weights under a name that a
// layout has for them. Looks at names alone.
bool looks_like_checkpoint(const std::filesystem::path& folder);

// Errors as load_encoder's for what is no checkpoint, or one whose files contradict themselves; an unknown
// family is none. Maps the weights and reads their headers.
Result<CheckpointOutline> outline_checkpoint(const std::filesystem::path& folder);

}  // namespace saccade
