// Options of the training of textual inversion (recipes/train_inversion.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "lab/train/options/loop_options.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

struct InversionTrainingOptions : TrainingLoopOptions {
  InversionTrainingOptions() {
    // LinCIR takes 50,000 steps at a tenth of the rate, on three million texts.
    steps = 4'000;
    learning_rate = 1e-3;
    weight_decay = 0.05;
  }

  std::string model;            // the encoder's checkpoint, of CLIP's family
  std::filesystem::path texts;  // a text a line
  std::vector<std::string>
      held_out;  // edit queries that select the best step: PATH or PATH#split=NAME; may be empty
  std::vector<std::string> test;  // the same: measured once, by the checkpoint that is kept
  // Query template, with places for the image's word ("*") and for the modification ("{}").
  std::string sentence = "a photo of * that {}";
  int64_t hidden = 0;  // width of the network; 0: four times the rows'
  double dropout = 0.5;
  // Maximum length of the noise relative to an embedding's. Each text gets a share of it, drawn uniformly,
  // with independent normal values.
  double noise = 1;
  int64_t batch = 256;
  BootstrapOptions bootstrap;
  EmbedOptions embed;  // reading of held-out images; `progress` and `stop` are set from the call
  BackendOptions encoder;
};

}  // namespace saccade::lab
