// Training a model to tell texts that picture something from others (Verma et al. 2023, "Learning the
// Visualness of Text Using Large Vision-Language Models").
//
// What it begins with decides what is trained. A CLIP becomes the study's model, TIP-CLIP: a visual text is
// trained towards its picture, any other towards one NULL picture. A BERT becomes the study's baseline: a
// classifier of two classes over the first token's state, which sees no picture. In one stage or two: many
// texts with labels that a program gave, then fewer that people gave. A run folder holds
//   run.json          the options, and hashes of all that is trained on
//   automatic/        the first stage's training (loop.h), and
//   human/            the second one's
//   model/            the result: the last stage's best checkpoint by macro F1 on the validation texts, in
//                     the Hugging Face layout, with the NULL picture's row and the threshold in
//                     saccade.json (model/visualness.h)
//   lock              held while a process trains into the folder
// The same command on the same folder goes on where it was. The order of texts is a
// function of seed and step alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "saccade/core/enum_names.h"
#include "lab/data/dataset.h"
#include "lab/eval/rows/embed.h"
#include "saccade/model/encoder.h"
#include "saccade/model/visualness.h"

namespace saccade::lab {

enum class VisualnessObjective {
  kOwnPictures,  // a visual text's picture is its own
  // All visual texts have one picture: the study's alternative, which tells classes apart and no pictures.
  kOnePicture,
};
std::span<const EnumName<VisualnessObjective>> enum_names(VisualnessObjective);
enum class VisualnessLoss {
  kLiteral,  // equation 1 as it is printed: in a batch, a pair alone is right
  // Texts of one picture, the NULL picture among them, are right together: none is another's negative.
  kMultiPositive,
};
std::span<const EnumName<VisualnessLoss>> enum_names(VisualnessLoss);
enum class TrainedPart {
  kBoth,  // both towers, as the study
  kText,  // the text tower and the temperature; pictures are encoded once, and an index of them stays good
};
std::span<const EnumName<TrainedPart>> enum_names(TrainedPart);

struct VisualnessStage {
  std::vector<DatasetSource> datasets;  // of rated texts; none: no such stage
  double epochs = 0;                    // 0: the study's, 5 and then 2; of a classifier 7 and then 3
};

struct VisualnessTrainingOptions {
  // To begin with, as find_checkpoint takes it: CLIP's architecture or BERT's, in Hugging Face's layout.
  std::string checkpoint;
  // In its place, for a classifier from random weights: {"model": config.json of BERT, "tokenizer": folder};
  // the folder is relative to the file, and the vocabulary's size in "model" is the tokenizer's.
  std::filesystem::path config;
  VisualnessStage automatic;
  VisualnessStage human;
  std::vector<DatasetSource>
      validation;  // choose the threshold and the best checkpoint; their texts are not trained on
  std::filesystem::path run;

  // Of TIP-CLIP: a classifier takes none of the four.
  NullPicture null_picture = {};
  VisualnessObjective objective = VisualnessObjective::kOwnPictures;
  // The study's, which did better on validation texts wherever both were measured (docs/studies.md).
  VisualnessLoss loss = VisualnessLoss::kLiteral;
  TrainedPart part = TrainedPart::kBoth;

  // The study's: Adam from 5e-5 on, and a classifier's batch of 32. It states no other batch, no warm-up
  // and no schedule: these are ours.
  double learning_rate = 5e-5;
  double warmup = 0;
  double weight_decay = 0;
  double max_gradient_norm = 1;
  int64_t batch = 0;  // 0: 128; of a classifier 32
  // Share of what a classifier reads of the first token that is left out in
  // training; its blocks drop nothing.
  double dropout = 0.1;
  uint64_t seed = 1;
  Precision precision = Precision::kBf16;  // of the matrix products; evaluations and weights are fp32
  std::string device = "cpu";
  int threads = 0;
  bool dry_run = false;
  EmbedOptions embed = {};  // cache, decoders and warnings of the pictures' encoding
  FingerprintMemory fingerprints = {};
};

// What the validation texts said of a checkpoint.
struct VisualnessFigures {
  double f1 = 0;
  double precision = 0;
  double recall = 0;
  double accuracy = 0;
  double threshold = 0;  // chosen on these texts; a classifier's is 0.5
  int64_t texts = 0;
  double mrr = 0;  // of each visual text's picture among those of all; NaN without pictures
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
  VisualnessFigures before;                   // of the checkpoint that it began with
  std::vector<VisualnessStageReport> stages;  // those begun
  std::filesystem::path model;
};

// As `train visualness --json` prints it.
Json visualness_training_json(const VisualnessTrainingReport& report);

// Stops cleanly, its state saved, when `stop` is requested: `finished` is false then. kUsage where a stage or
// the validation has texts of one class only, or fewer than a batch; where the NULL picture is, for the
// encoder, one of the training's pictures; for datasets of other sorts; and for TIP-CLIP's options with a
// classifier. kUnsupported for checkpoints of other families and layouts. A folder with a training of other
// options or data is refused (kMismatch, naming what differs). What is refused leaves all as it was. Cost:
// pictures are read and encoded once; training both towers reads them again each epoch.
Result<VisualnessTrainingReport> train_visualness(const VisualnessTrainingOptions& options,
                                                  const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
