// Options of the training of composers (recipes/train_composed.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "lab/train/math/sprc_weights.h"
#include "lab/train/options/loop_options.h"
#include "saccade/core/enum_names.h"
#include "saccade/model/composers/atf.h"
#include "saccade/model/composers/combiner.h"
#include "saccade/model/encoder_backend.h"

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

// Text of a triplet whose modification is several texts, as Fashion-IQ's two captions. It is drawn again for
// every example. One text stays as it is.
enum class TrainedJoin {
  kAnd,         // "C1 and c2", always: as `eval composed` joins them
  kBothOrders,  // "C1 and c2" or "C2 and c1", equally often
  kParts,       // one of the two orders or one text alone, equally often (CLIP4Cir's training on Fashion-IQ)
};
std::span<const EnumName<TrainedJoin>> enum_names(TrainedJoin);

struct ComposedTrainingOptions : TrainingLoopOptions, ActivationOptions {
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
  AtfOptions atf;              // the study's fusion; the encoder's token counts are filled in
  CombinerShape combiner;      // options of the Combiner: `dim` is filled in, and published widths replace 0
  SprcWeights sprc;            // SPRC's weights of its objective's terms
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
  // Folder of stage one's run, which trainings of the same stage one share; empty: <run>/align.
  std::filesystem::path stage_one;

  TrainedTowers towers = TrainedTowers::kNone;  // towers that stage two trains
  double tower_rate = 1e-4;                     // peak learning rate of their weights, and of SPRC's Q-Former

  int64_t batch = 256;
  // Number of triplets of one group (one object) that are put into a batch together, if the group has as
  // many. Its other modifications are the hardest negatives available.
  int64_t together = 4;
  WrongAnswers wrong = WrongAnswers::kReferences;
  TrainedJoin join = TrainedJoin::kBothOrders;
  double paraphrases = 0.5;  // probability of one of a triplet's other wordings, if it has any

  Precision precision = Precision::kFp32;  // precision of trained towers: kFp32 or kBf16
  BootstrapOptions bootstrap;
  EmbedOptions embed;  // reading of images; its `progress` and `stop` are set from the call
  BackendOptions encoder;
};

// Returns the published 0.5 for the Combiner and for fusion that projects with it; 0 for other fusion.
double dropout_of(const ComposedTrainingOptions& options);

}  // namespace saccade::lab
