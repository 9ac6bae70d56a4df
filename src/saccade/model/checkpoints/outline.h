// Summary of a checkpoint from its config and the headers of its weights; fast for any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct CheckpointOutline {
  std::string family;  // as EncoderInfo has it; of an unknown family, the config's own "model_type"
  bool known = false;  // true if load_encoder can load it
  std::string layout;
  int64_t parameters = 0;
  int64_t bytes = 0;  // total size of the files below
  // 0 or empty for an unknown family. The last three are also empty for a model without images.
  int64_t dim = 0;
  int64_t context = 0;
  int image_height = 0;
  int image_width = 0;
  std::string preprocessing;  // Preprocessing::describe
  // Files that the fingerprint covers.
  std::vector<std::filesystem::path> files;
};

// Reads the outline of a checkpoint. Returns the errors of load_encoder for a folder without a checkpoint, or
// with contradictory files; an unknown family is not an error. Maps the weights and reads their headers.
Result<CheckpointOutline> outline_checkpoint(const std::filesystem::path& folder);

}  // namespace saccade
