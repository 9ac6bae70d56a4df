// Options of the training of visualness (recipes/train_visualness.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/rows/embed.h"
#include "lab/train/options/loop_options.h"
#include "saccade/core/enum_names.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/visualness.h"

namespace saccade::lab {

enum class VisualnessObjective {
  kOwnPictures,  // a visual text's image is its own
  // All visual texts have one image: the study's alternative, which separates classes but not images.
  kOnePicture,
};
std::span<const EnumName<VisualnessObjective>> enum_names(VisualnessObjective);
enum class VisualnessLoss {
  kLiteral,  // equation 1 as it is printed: in a batch, a pair alone is right
  // Texts of one image, or of the NULL image, are positives together. None is another's negative.
  kMultiPositive,
};
std::span<const EnumName<VisualnessLoss>> enum_names(VisualnessLoss);
enum class TrainedPart {
  kBoth,  // both towers, as the study
  kText,  // text tower and temperature; images are encoded once, and an existing index stays valid
};
std::span<const EnumName<TrainedPart>> enum_names(TrainedPart);

struct VisualnessStage {
  std::vector<DatasetSource> datasets;  // datasets of rated texts; empty: no such stage
  double epochs = 0;                    // 0: the study's, 5 and then 2; of a classifier 7 and then 3
};

struct VisualnessTrainingOptions : OptimizerOptions, ActivationOptions {
  VisualnessTrainingOptions() {
    // The study's Adam from 5e-5 on, without weight decay. It states no warm-up and no schedule; those are
    // ours.
    learning_rate = 5e-5;
    warmup = 0;
    weight_decay = 0;
  }

  // Initial checkpoint, as find_checkpoint takes it: CLIP's architecture in any layout, or BERT's.
  std::string checkpoint;
  // Path of a config used in its place, for a classifier with random weights: {"model": config.json of BERT,
  // "tokenizer": folder}. The folder is relative to the file. The vocabulary's size in "model" is replaced by
  // the tokenizer's.
  std::filesystem::path config;
  VisualnessStage automatic;
  VisualnessStage human;
  std::vector<DatasetSource>
      validation;  // choose the threshold and the best checkpoint; their texts are not trained on
  std::filesystem::path run;

  // Options of TIP-CLIP; a classifier takes none of the four, and no `checkpoint_activations`.
  NullPicture null_picture = {};
  VisualnessObjective objective = VisualnessObjective::kOwnPictures;
  // The study's loss, which did better on validation texts wherever both were measured (docs/studies/visualness.md).
  VisualnessLoss loss = VisualnessLoss::kLiteral;
  TrainedPart part = TrainedPart::kBoth;

  // 0: 128, which is ours; of a classifier 32, the study's.
  int64_t batch = 0;
  // Number of micro-batches of a step, from 1 to the batch size (TrainingLoopOptions::accumulate).
  int64_t accumulate = 1;
  // Dropout probability of a classifier's input from the first token; its blocks have no dropout.
  double dropout = 0.1;
  uint64_t seed = 1;
  // Precision of matrix products: the study states none, so fp32. Evaluations and weights are fp32 always.
  Precision precision = Precision::kFp32;
  TrainingDevice device = TrainingDevice::kCpu;
  int threads = 0;
  bool dry_run = false;
  EmbedOptions embed = {};  // cache, decoders and warnings of the images' encoding
  FingerprintMemory fingerprints = {};
};

}  // namespace saccade::lab
