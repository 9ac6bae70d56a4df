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
//                     the initial checkpoint's layout, with the NULL image's embedding and the threshold in
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
#include "lab/train/options/visualness_options.h"
#include "lab/train/tasks/visualness_figures.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

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
// kUnsupported for checkpoints of other families, and with a ResNet; kMismatch, naming the difference, for a folder
// with a training of other options or data. A refusal leaves everything unchanged. Cost: images are read and
// encoded once; training both towers reads them again each epoch.
Result<VisualnessTrainingReport> train_visualness(const VisualnessTrainingOptions& options,
                                                  const ProgressCallback& progress, std::stop_token stop);

// A training of the same options for each of several learning rates. The run folder holds
//   run.json          the learning rates, and as "outcome" the one that was chosen
//   rate-0.001/ ...   each training, as train_visualness() writes it
//   model/            the result of the one with the best macro F1 on the validation texts
//   lock
struct VisualnessGridPoint {
  double learning_rate = 0;
  VisualnessTrainingReport report;
};
struct VisualnessGridReport {
  bool finished = false;
  std::vector<VisualnessGridPoint> points;  // those begun, in the given order
  size_t best = 0;                          // once finished; the first of equal ones
  std::filesystem::path model;
};

// Returns the output of `train visualness --learning-rates --json`.
Json visualness_grid_json(const VisualnessGridReport& report);

// Trains with each of the learning rates, in place of the options' own, and chooses on the validation texts
// alone. Resumes like train_visualness(). Errors: its own, before anything is written; kUsage for no learning
// rate, or one given twice. Cost: that of all the trainings.
Result<VisualnessGridReport> search_learning_rates(const VisualnessTrainingOptions& options,
                                                   std::span<const double> learning_rates,
                                                   const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
