// Options of the training of projection heads (recipes/train_head.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/embed.h"
#include "lab/train/options/loop_options.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/families/head.h"

namespace saccade::lab {

struct HeadTrainingOptions : TrainingLoopOptions {
  HeadTrainingOptions() {
    // There are few steps, over one or two matrices. The study only says that the rate was tuned.
    learning_rate = 1e-3;
    weight_decay = 0.01;
    patience = 3;
  }

  // Training data: datasets encoded by a frozen encoder, or a file of features (feature_file.h).
  std::vector<std::string> datasets;  // PATH or PATH#split=NAME
  std::filesystem::path features;
  // Held-out data decide when training ends and which step's head is kept. The outcome is measured on `test`,
  // or on `held_out` if that is empty. Both are datasets, or with `features` files of features.
  std::vector<std::string> held_out;
  std::vector<std::string> test;
  std::string frozen;  // -m; with `features`: their encoder, or empty
  // Input states of the heads. With `nullopt`, queries and tokens if the encoder has them, else its
  // embeddings.
  std::optional<ImageStates> image_states;
  std::optional<TextStates> text_states;
  Pooling pooling = Pooling::kMean;
  // If true, a copy of BLIP-2's Q-Former is trained too (the study's future work). Its inputs are the states
  // of the vision tower, kVision, and its outputs are pooled. It has its own peak learning rate, as its
  // weights are pretrained.
  bool train_qformer = false;
  double qformer_rate = 1e-5;

  HeadKind kind = HeadKind::kMlp;
  int64_t width = 768;         // width of the shared space
  int64_t hidden_width = 768;  // hidden width of an MLP
  int64_t pairs = 5000;        // a random subset of so many pairs; 0: all
  double epochs = 0;           // 0: the study's, 5 for a linear head, 8 for an MLP
  int64_t batch = 128;
  // Share of a batch that consists of hard negatives. Each is mined for a drawn pair: the nearest of 1,024
  // others by the frozen features that is not a positive.
  double hard_negatives = 0;
  std::vector<std::string>
      against;  // heads on the same features to compare with, named as for find_checkpoint

  CaptionPolicy captions = CaptionPolicy::kAll;
  BootstrapOptions bootstrap;
  EmbedOptions embed;  // computing of features; its `progress` and `stop` are set from the call
  BackendOptions encoder;
  std::string version;               // version of the program, for the run
  std::vector<std::string> command;  // the same
};

}  // namespace saccade::lab
