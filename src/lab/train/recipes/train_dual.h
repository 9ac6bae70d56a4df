// Training a dual encoder (CLIP's architecture) from datasets of images and captions.
//
// A run folder holds
//   run.json           options, and hashes of all training data: captions, images as decoded, held-out data,
//                      tokenizer, initial weights
//   metrics.jsonl      a line per evaluation: step, loss, learning rate, held-out recall and its protocol
//   state.safetensors  weights, optimizer and position, written atomically: read by a resumed training
//   model/             the best checkpoint so far, in the Hugging Face layout
//   cache/             decoded images, if no other folder is given for them
//   lock               held while a process trains into the folder
// The same command on the same folder resumes. run.json is compared first, and a difference in anything it
// names is refused. Data order, augmentation and captions are functions of seed and step alone. So a training
// that was stopped and resumed ends with the same weights as an uninterrupted one (on the same machine with
// the same number of threads).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/retrieval/one_caption.h"
#include "lab/train/options/dual_options.h"
#include "lab/train/training_summary.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

// Result of a dry run: the data, and the estimated cost of the training from two trial steps.
struct DualTrainingPlan {
  int64_t pictures = 0;  // number that can be decoded and have a caption
  int64_t captions = 0;  // number of their captions
  int64_t held_out = 0;  // images
  int64_t parameters = 0;
  int64_t steps = 0;
  int64_t memory_bytes = 0;   // peak of this process, with the optimizer's state; without a GPU's memory
  double seconds_a_step = 0;  // of the second; steps late in the training may look at more (patch_dropout)
  double seconds = 0;         // time of all steps, without evaluations
};

struct DualTrainingReport : TrainingSummary {
  std::vector<OneCaptionRecall> best;  // figures of the checkpoint in model/
  double images_per_second = 0;        // rate of this call
  std::vector<std::string> left_out;   // images that could not be decoded
  // Held-out sets with images that are trained on, by file name; a sentence each.
  std::vector<std::string> also_trained;
  std::filesystem::path model;
  std::optional<DualTrainingPlan> plan;  // result of a dry run, which has only exclusions beside it
};

// Returns the output of `train dual --json`.
Json dual_training_json(const DualTrainingReport& report);

// Trains a dual encoder. When `stop` is requested, it saves its state and returns with `finished` false.
// Errors name the file and line or option. Refused are: a folder with a training of other options or data
// (kMismatch, naming the difference), one with other files and no training (kUsage), and a state.safetensors
// that is damaged (kBadData) or of another training (kMismatch). A refusal leaves everything unchanged.
Result<DualTrainingReport> train_dual(const DualTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop);

}  // namespace saccade::lab
