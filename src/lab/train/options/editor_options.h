// Options of the training of editors (recipes/train_editor.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/editor/editor.h"
#include "lab/train/options/loop_options.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

struct EditorTrainingOptions : TrainingLoopOptions {
  EditorTrainingOptions() {
    steps = 20'000;
    weight_decay = 0.01;
    evaluate_every = 1000;
    checkpoint_every = 500;
  }

  // Datasets of edit queries, PATH or PATH#split=NAME; queries without a target or a text are left out.
  std::vector<std::string> datasets;
  std::vector<std::string> held_out;  // scored during training, never trained on
  std::string encoder;                // -m: reads the texts, and stays as it is
  EditorConfig shape;                 // text_width and frozen are filled in
  std::filesystem::path cache;        // decoded images; empty: <run>/cache

  int64_t batch = 64;
  // Share of the examples without a text, for classifier-free guidance (Ho and Salimans 2022).
  double text_dropout = 0.1;
  int64_t held_out_queries = 512;  // number scored, the first of a shuffle by seed; 0: all
  Precision precision = Precision::kBf16;
  int threads = 0;
  DecoderPool* processes = nullptr;
  FingerprintMemory fingerprints = {};
};

}  // namespace saccade::lab
