// Training projection heads on a frozen encoder (the study of BLIP-2's heads): features once, then a linear
// layer or an MLP a side, by symmetric contrastive loss.
//
// A run folder holds
//   run.json           options, and hashes of all that is trained on; "outcome": what may be said of the head
//   features/          the features, a file a set (feature_file.h), where they were computed here
//   metrics.jsonl      a line every evaluation: step, loss, held-out recall with intervals
//   state.safetensors  what a stopped training goes on from exactly
//   model/             the best head so far: a checkpoint (model/families/head.h)
// The same command on the same folder goes on where it was; other data or options are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "lab/eval/evaluation.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "saccade/model/families/head.h"
#include "lab/train/loop_options.h"

namespace saccade::lab {

struct HeadTrainingOptions : TrainingLoopOptions {
  HeadTrainingOptions() {
    // Few steps, over a matrix or two: the study says nothing but that the rate was tuned.
    learning_rate = 1e-3;
    weight_decay = 0.01;
    patience = 3;
  }

  // What is trained on: datasets encoded by a frozen encoder, or a file of features (feature_file.h).
  std::vector<std::string> datasets;  // PATH or PATH#split=NAME
  std::filesystem::path features;
  // What decides when training ends and which step's head is kept, and what the outcome is measured on (where
  // there is none, held_out too). Datasets, or with `features` files of features.
  std::vector<std::string> held_out;
  std::vector<std::string> test;
  std::string frozen;  // -m; with `features`: the encoder they are said to be from, or empty
  // States that the heads read; nothing: queries and tokens where the encoder has them, else its rows.
  std::optional<ImageStates> image_states;
  std::optional<TextStates> text_states;
  Pooling pooling = Pooling::kMean;
  // Trains a copy of BLIP-2's Q-Former too (the study's future work): its heads read the states of the vision
  // tower, kVision, and what the Q-Former makes of them is pooled. Its own peak learning rate, as its weights
  // have been trained long before.
  bool train_qformer = false;
  double qformer_rate = 1e-5;

  HeadKind kind = HeadKind::kMlp;
  int64_t width = 768;         // of the shared space
  int64_t hidden_width = 768;  // of an MLP
  int64_t pairs = 5000;        // a random subset of so many pairs; 0: all
  double epochs = 0;           // 0: the study's, 5 for a linear head, 8 for an MLP
  int64_t batch = 128;
  // Share of a batch that is chosen: for a pair that was drawn, the one of 1,024 others that the frozen
  // features are nearest to, and that is not its own.
  double hard_negatives = 0;
  std::vector<std::filesystem::path> against;  // heads on the same features, to compare with

  CaptionPolicy captions = CaptionPolicy::kAll;
  BootstrapOptions bootstrap;
  EmbedOptions embed;  // how features are computed; its `progress` and `stop` are set from the call
  BackendOptions encoder;
  std::string version;               // of the program, for the run
  std::vector<std::string> command;  // the same
};

struct HeadTrainingReport {
  int64_t steps = 0;  // done in all
  int64_t best_step = 0;
  bool finished = false;
  double last_loss = 0;
  int64_t pairs = 0;   // trained on
  double seconds = 0;  // of this call's training, without features
  std::vector<std::string> left_out;
  // By set: {"set", "results": [{"model", figures as recall_json}], "verdicts": [...]}; empty while
  // unfinished and where nothing is held out.
  Json outcome = Json::array();
  std::filesystem::path model;
};
// As `train head --json` prints it.
Json head_training_json(const HeadTrainingReport& report);

// Stops cleanly, its state saved, when `stop` is requested: `finished` is false then. kUsage for fewer pairs
// than a batch, kBadData for features that are not numbers or do not fit together, kMismatch for another
// training's folder or a head of `against` that sits on another encoder: before anything is trained; what is
// refused leaves all as it was. Cost, once features are there: linear in pairs and epochs.
Result<HeadTrainingReport> train_head(const HeadTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop);

}  // namespace saccade::lab
