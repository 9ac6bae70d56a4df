#include "saccade/hub/select.h"

#include <algorithm>
#include <array>
#include <set>

#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"

namespace saccade::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPlainFiles = {
    // model configuration
    "config.json", "open_clip_config.json", "adapter_config.json",
    // preprocessing of images and texts
    "preprocessor_config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt",
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    // reference outputs
    "io.safetensors"};

struct WeightFile {
  const char* name;
  const char* needs;  // file that the loader requires beside it, or nullptr
};
constexpr std::array kWeightFiles = {WeightFile{"open_clip_model.safetensors", "open_clip_config.json"},
                                     WeightFile{"model.safetensors", nullptr},
                                     WeightFile{"adapter_model.safetensors", "adapter_config.json"},
                                     WeightFile{"open_clip_pytorch_model.bin", "open_clip_config.json"},
                                     WeightFile{"pytorch_model.bin", nullptr}};

}  // namespace

Result<Selection> select_files(std::span<const std::string> names) {
  const std::set<std::string, std::less<>> there(names.begin(), names.end());
  Selection selection;
  for (const WeightFile& weights : kWeightFiles) {
    if (weights.needs != nullptr && !there.contains(weights.needs)) continue;
    const std::string index = std::string(weights.name) + ".index.json";
    if (there.contains(weights.name)) {
      selection.weights = weights.name;
    } else if (there.contains(index)) {
      selection.weights = selection.weights_index = index;
    } else {
      continue;
    }
    break;
  }
  if (selection.weights.empty()) {
    // Weights under the authors' own file name; accepted only if there is exactly one such file.
    int found = 0;
    for (const std::string& name : there) {
      if (!is_plain_file_name(name) || !(name.ends_with(".pt") || name.ends_with(".pth"))) continue;
      selection.weights = name;
      ++found;
    }
    if (found != 1) selection.weights.clear();
  }
  if (selection.weights.empty()) {
    return fail(ErrorCode::kUnsupported,
                "no weights among its {} files: none of model.safetensors, open_clip_model.safetensors, "
                "pytorch_model.bin, an index of these, or a single .pt or .pth file",
                names.size());
  }
  selection.files.push_back(selection.weights);
  for (const char* name : kPlainFiles) {
    if (there.contains(name)) selection.files.emplace_back(name);
  }
  std::sort(selection.files.begin(), selection.files.end());
  return selection;
}

Result<std::vector<std::string>> missing_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    // A dangling link does not count.
    if (std::error_code ignored; fs::is_regular_file(entry->path(), ignored)) {
      names.push_back(entry->path().filename().string());
    }
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  SACCADE_ASSIGN(const Selection selection, select_files(names));
  std::vector<std::string> missing;
  if (selection.weights_index.empty()) return missing;
  SACCADE_ASSIGN(const std::vector<std::string> shards, shard_names(folder / selection.weights_index));
  for (const std::string& shard : shards) {
    if (std::find(names.begin(), names.end(), shard) == names.end()) missing.push_back(shard);
  }
  return missing;
}

}  // namespace saccade::hub
