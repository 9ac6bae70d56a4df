// Training of composers, which compute one embedding from a reference image and a modification text (the
// study TMCIR, arXiv 2504.10995).
//
//   stage one   both towers (or the text tower alone) by InfoNCE on (target, text) pairs, with a
//               learned temperature: real targets, or pseudo-targets that a generator made from
//               reference and text (the study's IACMA)
//   stage two   a composer (model/composers/composer.h) by InfoNCE of its embedding with the target's, over
//               frozen token states that were computed once, or with the towers trained as well; or SPRC, the
//               Q-Former of a BLIP-2 over the frozen states of its vision tower
//
// A run folder holds
//   run.json      options, and hashes of all training data; "outcome": the results on the test sets
//   cache/        the frozen encoder's states of images and texts, or its input images
//                 (item_file.h)
//   align/        stage one's run; align/model: the trained encoder
//   fuse/         stage two's run; fuse/model: the composer, with the encoder in it if that was trained
// and each run the files of the loop (loop.h). The same command on the same folder resumes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/train/options/composed_options.h"
#include "lab/train/training_summary.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct ComposedStageReport : TrainingSummary {
  std::string stage;               // "align" or "fuse"
  double triplets_per_second = 0;  // rate of this call, evaluations included
  Json held_out = Json::array();   // figures of the best step
  Json test = Json::array();       // figures of the best step, once the last stage is finished
  std::filesystem::path model;
};
struct ComposedTrainingReport {
  std::vector<ComposedStageReport> stages;
  int64_t triplets = 0;
  std::vector<std::string> left_out;  // images that could not be read
  bool finished = false;
};
// Returns the output of `train composed --json`.
Json composed_training_json(const ComposedTrainingReport& report);

// Checks the options. Returns kUsage naming the option at fault; kUnsupported for an unknown method.
Status check_composed_options(const ComposedTrainingOptions& options);

// Trains composers. When `stop` is requested, it saves its state and returns with `finished` false. Errors:
// kUsage names the option; kUnsupported for an encoder that lacks what the method or the stage needs;
// kMismatch for another training's folder; kBadData for datasets with fewer triplets than a batch. Triplets
// with an unreadable image are left out and counted. Memory: the triplets' numbers and texts' tokens, about
// 200 bytes per triplet, and a few batches; states and pixels are mapped.
Result<ComposedTrainingReport> train_composed(const ComposedTrainingOptions& options,
                                              const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
