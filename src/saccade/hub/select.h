// Selection of the files of a repository that form a checkpoint for Saccade: config, tokenizer,
// preprocessing, reference outputs, and one set of weights. Copies for other frameworks, training states and
// exports are not downloaded.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::hub {

struct Selection {
  std::vector<std::string> files;  // sorted; with the index of the weights, if they are in shards
  std::string weights_index;  // one of `files`; its shards are needed too. Empty: there is one weight file
  std::string weights;        // the weight file, or weights_index
};

// Selects from `names`, all files of the repository as paths with "/". Weights are taken in the loader's
// order of preference: OpenCLIP's safetensors (if OpenCLIP's config is present too), safetensors, an
// adapter's, and torch's own format only if there is nothing else. Without weights, returns kUnsupported with
// the accepted names.
Result<Selection> select_files(std::span<const std::string> names);

// Returns the files missing from a folder that should hold a checkpoint; empty if it is complete. Returns
// kUnsupported as select_files does.
Result<std::vector<std::string>> missing_files(const std::filesystem::path& folder);

}  // namespace saccade::hub
