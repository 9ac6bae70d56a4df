// Which files of a repository make a checkpoint for Saccade: config,
// tokenizer, preprocessing, reference answers, and one set of weights. Copies
// for other frameworks, training states and exports stay where they are.
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

// `names`: all files of the repository, paths with "/". Weights in the order the loader prefers them:
// OpenCLIP's safetensors (where OpenCLIP's config is there too), safetensors, an adapter's, and torch's own
// format only where there is nothing else. kUnsupported names what would do where there are no weights.
Result<Selection> select_files(std::span<const std::string> names);

// The files still missing from a folder that should hold a
// checkpoint; empty: it is whole. kUnsupported as select_files.
Result<std::vector<std::string>> missing_files(const std::filesystem::path& folder);

}  // namespace saccade::hub
