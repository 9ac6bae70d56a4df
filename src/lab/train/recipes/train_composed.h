// Training of composers, which compute one embedding from a reference image and a modification text (the
// study TMCIR, arXiv 2504.10995).
//
//   stage one   both towers (or the text tower alone) by InfoNCE on (target, text) pairs, with a
//               learned temperature: real targets, or pseudo-targets that a generator made from
//               reference and text (the study's IACMA)
//   stage two   a composer (model/composers/composer.h) by InfoNCE of its embedding with the target's, over
//               frozen token states that were computed once, or with the towers trained as well
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
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "lab/train/loop_options.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/composers/atf.h"
#include "saccade/model/composers/combiner.h"
#include "saccade/model/encoder.h"
#include "saccade/progress.h"

namespace saccade::lab {

// Alignment targets of texts in stage one.
enum class AlignTargets { kNone, kReal, kPseudo };
std::span<const EnumName<AlignTargets>> enum_names(AlignTargets);
// Towers of the encoder that a stage trains.
enum class TrainedTowers { kNone, kText, kBoth };
std::span<const EnumName<TrainedTowers>> enum_names(TrainedTowers);
// Negatives of a query in stage two, beside the batch's other targets.
enum class WrongAnswers {
  kTargets,     // no others
  kReferences,  // the batch's references, the query's own among them
};
std::span<const EnumName<WrongAnswers>> enum_names(WrongAnswers);

struct ComposedTrainingOptions : TrainingLoopOptions {
  ComposedTrainingOptions() {
    steps = 4'000;
    learning_rate = 1e-3;
    weight_decay = 0.05;
  }

  std::vector<std::string> datasets;  // edit queries: PATH or PATH#split=NAME
  std::vector<std::string> held_out;  // the same: measured while training, they choose the best step
  std::vector<std::string> test;      // the same: measured once, by the checkpoint that is kept
  std::filesystem::path cache;        // computed states of images and texts; empty: <run>/cache
  std::string model;                  // the encoder's checkpoint

  std::string method = "atf";  // a composer's kind; "none" runs only stage one
  AtfOptions atf;              // the encoder's token counts are filled in
  CombinerShape combiner;      // options of the Combiner: `dim` is filled in, and published widths replace 0
  // Dropout probability; `nullopt` uses dropout_of().
  std::optional<double> dropout;

  AlignTargets align = AlignTargets::kNone;
  std::filesystem::path pseudo_targets;  // the folder that `generate edits` wrote
  // Minimum cosine similarity of a pseudo-target with the true target; others are not used (`eval edits`
  // measures it).
  std::optional<double> min_cosine;
  TrainedTowers align_towers = TrainedTowers::kBoth;
  int64_t align_steps = 1'000;
  double align_rate = 1e-4;

  TrainedTowers towers = TrainedTowers::kNone;  // towers that stage two trains
  double tower_rate = 1e-4;                     // peak learning rate of their weights

  int64_t batch = 256;
  // Number of triplets of one group (one object) that are put into a batch together, if the group has as
  // many. Its other modifications are the hardest negatives available.
  int64_t together = 4;
  WrongAnswers wrong = WrongAnswers::kReferences;
  double paraphrases = 0.5;  // probability of one of a triplet's other wordings, if it has any

  Precision precision = Precision::kFp32;  // precision of trained towers: kFp32 or kBf16
  BootstrapOptions bootstrap;
  EmbedOptions embed;  // reading of images; its `progress` and `stop` are set from the call
  BackendOptions encoder;
};

struct ComposedStageReport {
  std::string stage;  // "align" or "fuse"
  int64_t steps = 0;
  int64_t best_step = 0;
  bool finished = false;
  double last_loss = 0;
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
// Returns the published 0.5 for the Combiner and for fusion that projects with it; 0 for other fusion.
double dropout_of(const ComposedTrainingOptions& options);
// Returns the output of `train composed --json`.
Json composed_training_json(const ComposedTrainingReport& report);

// Trains composers. When `stop` is requested, it saves its state and returns with `finished` false. Errors:
// kUsage names the option; kUnsupported for an encoder that lacks what the method or the stage needs;
// kMismatch for another training's folder; kBadData for datasets with fewer triplets than a batch. Triplets
// with an unreadable image are left out and counted. Memory: the triplets' numbers and texts' tokens, about
// 200 bytes per triplet, and a few batches; states and pixels are mapped.
Result<ComposedTrainingReport> train_composed(const ComposedTrainingOptions& options,
                                              const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
