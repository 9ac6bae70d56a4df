// Training a model to classify texts as visual or not (Verma et al. 2023, "Learning the Visualness of Text
// Using Large Vision-Language Models").
//
// The initial checkpoint decides what is trained. A CLIP becomes the study's model, TIP-CLIP: a visual text
// is trained towards its image, any other towards one NULL image. A BERT becomes the study's baseline: a
// classifier of two classes over the first token's state, which sees no image. There are one or two stages:
// many texts with automatic labels, then fewer with human labels. A run folder holds
//   run.json          the options, and hashes of all training data
//   automatic/        the first stage's training (loop.h), and
//   human/            the second one's
//   model/            the result: the last stage's best checkpoint by macro F1 on the validation texts, in
//                     the Hugging Face layout, with the NULL image's embedding and the threshold in
//                     saccade.json (model/visualness.h)
//   lock              held while a process trains into the folder
// The same command on the same folder resumes. The order of texts is a function of seed and step alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/rows/embed.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/encoder.h"
#include "saccade/model/visualness.h"
#include "saccade/progress.h"

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

struct VisualnessTrainingOptions {
  // Initial checkpoint, as find_checkpoint takes it: CLIP's architecture or BERT's, in Hugging Face's layout.
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

  // Options of TIP-CLIP; a classifier takes none of the four.
  NullPicture null_picture = {};
  VisualnessObjective objective = VisualnessObjective::kOwnPictures;
  // The study's loss, which did better on validation texts wherever both were measured (docs/studies.md).
  VisualnessLoss loss = VisualnessLoss::kLiteral;
  TrainedPart part = TrainedPart::kBoth;

  // The study's values: Adam from 5e-5 on, and a batch of 32 for a classifier. It states no other batch, no
  // warm-up and no schedule; those are ours.
  double learning_rate = 5e-5;
  double warmup = 0;
  double weight_decay = 0;
  double max_gradient_norm = 1;
  int64_t batch = 0;  // 0: 128; of a classifier 32
  // Dropout probability of a classifier's input from the first token; its blocks have no dropout.
  double dropout = 0.1;
  uint64_t seed = 1;
  Precision precision = Precision::kBf16;  // precision of matrix products; evaluations and weights are fp32
  std::string device = "cpu";
  int threads = 0;
  bool dry_run = false;
  EmbedOptions embed = {};  // cache, decoders and warnings of the images' encoding
  FingerprintMemory fingerprints = {};
};

// Figures of a checkpoint on the validation texts.
struct VisualnessFigures {
  double f1 = 0;
  double precision = 0;
  double recall = 0;
  double accuracy = 0;
  double threshold = 0;  // chosen on these texts; a classifier's is 0.5
  int64_t texts = 0;
  double mrr = 0;  // MRR of each visual text's image among all; NaN without images
  int64_t pictures = 0;
};

struct VisualnessStageReport {
  std::string name;  // "automatic", "human"
  int64_t visual = 0;
  int64_t non_visual = 0;
  std::vector<Exclusion> excluded;
  int64_t steps = 0;
  int64_t best_step = 0;
  double last_loss = 0;
  VisualnessFigures best;
};

struct VisualnessTrainingReport {
  bool finished = false;
  VisualnessFigures before;                   // figures of the initial checkpoint
  std::vector<VisualnessStageReport> stages;  // those begun
  std::filesystem::path model;
};

// Returns the output of `train visualness --json`.
Json visualness_training_json(const VisualnessTrainingReport& report);

// Trains visualness. When `stop` is requested, it saves its state and returns with `finished` false. Errors:
//
// kUsage if a stage or the validation has texts of one class only, or fewer than a batch. Also if the encoder
// cannot distinguish the NULL image from one of the training's images, for datasets of other kinds, and for
// TIP-CLIP's options with a classifier.
//
// kUnsupported for checkpoints of other families and layouts; kMismatch, naming the difference, for a folder
// with a training of other options or data. A refusal leaves everything unchanged. Cost: images are read and
// encoded once; training both towers reads them again each epoch.
Result<VisualnessTrainingReport> train_visualness(const VisualnessTrainingOptions& options,
                                                  const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
