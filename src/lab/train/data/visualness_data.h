// Training data of visualness: the initial checkpoint, texts, images and their embeddings. Internal to the
// module.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lab/train/math/torch.h"
#include "lab/train/options/visualness_options.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/families/clip.h"
#include "saccade/model/towers/bert.h"
#include "saccade/progress.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

inline constexpr const char* kVisualnessKind = "train visualness";
inline constexpr const char* kVisualnessStageKind = "train visualness, a stage";

// A classifier's classes, in the order of its logits.
inline constexpr std::array<std::string_view, 2> kVisualnessLabels = {"non-visual", "visual"};

struct VisualnessExample {
  TokenizedText text;
  bool visual = false;
  int64_t picture = -1;  // in VisualnessData::pictures; -1: none, or the NULL image
};

struct VisualnessExamples {
  std::string name;
  double epochs = 0;
  std::vector<VisualnessExample> items;
  std::vector<Exclusion> excluded;
  Json described;  // datasets and their hashes
  [[nodiscard]] int64_t count(bool visual) const;
  void exclude(const std::string& reason, const std::string& example);
};

struct VisualnessData {
  std::filesystem::path checkpoint;      // empty: a classifier from random weights
  Layout layout = Layout::kHuggingFace;  // of the checkpoint, and of the result
  bool classifier = false;
  LoadedEncoder loaded;  // unused for a classifier, like everything about images
  ClipConfig config;
  BertConfig bert;                           // config of a classifier
  std::unique_ptr<Tokenizer> own_tokenizer;  // tokenizer of a classifier
  const Tokenizer* tokenizer = nullptr;
  int64_t context = 0;
  std::map<std::string, std::string> files;  // the result's files beside the weights: name -> content
  int64_t batch = 0;
  std::vector<VisualnessExamples> stages;  // those asked for, in order
  VisualnessExamples validation;

  std::vector<ImageRef> pictures;  // each once
  Matrix<float> picture_rows;      // [pictures, dim], by the checkpoint
  std::vector<float> null_pixels;  // [3 * side * side]
  std::vector<float> null_row;     // [dim], by the checkpoint
  int64_t common_picture = -1;     // image of kOnePicture
  Json description;                // run.json without the stages' own parts
};

// Returns the contents of a checkpoint's config and tokenizer files by name: all files but the weights.
Result<std::map<std::string, std::string>> read_files_beside_weights(const Checkpoint& checkpoint);

// Reads and checks everything. Writes only the cache of embeddings.
Result<VisualnessData> load_visualness_data(const VisualnessTrainingOptions& options, ThreadPool& pool,
                                            const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
