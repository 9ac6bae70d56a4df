// Training a dual encoder (CLIP's architecture) from datasets of images and captions.
//
// A run folder holds
//   run.json       what was trained on what: options, hashes, versions, seed
//   metrics.jsonl  a line every evaluation: step, loss, learning rate, held-out recall
//   state.safetensors  weights, optimizer and position, written atomically: what a resumed run reads
//   model/         the best checkpoint so far, in the Hugging Face layout
//   cache/         decoded pictures, where no other folder is given for them
//   lock           held while a process trains into the folder
// The same command on the same folder goes on where it was. Data order, augmentation and captions are
// functions of seed and step alone, so a run that was stopped and resumed ends with the same weights as one
// that was not (on the same machine with the same number of threads).
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/progress.h"
#include "saccade/data/dataset.h"
#include "saccade/eval/retrieval/one_caption.h"
#include "saccade/model/encoder.h"

namespace saccade {

struct DualTrainingOptions {
  std::vector<DatasetSource> datasets;  // items without captions are left out
  std::vector<DatasetSource> held_out;  // scored during training, never trained on
  // {"model": config.json of CLIP, "preprocessor": preprocessor_config.json, "tokenizer": folder}; the folder
  // is relative to the file. Vocabulary and special ids in "model" are filled in from the tokenizer.
  std::filesystem::path config;
  // A checkpoint in the Hugging Face layout (one model.safetensors) whose weights the training begins with,
  // of the config's architecture and tokenizer, of any float type; empty: random ones.
  std::filesystem::path initial;
  std::filesystem::path run;
  std::filesystem::path cache;  // decoded pictures; empty: <run>/cache

  int64_t steps = 10'000;  // 0: the untrained model, written and scored
  int64_t batch = 256;
  double learning_rate = 1e-3;  // the peak
  double warmup = 0.05;         // share of the steps, linear from 0; then a half cosine down to 0
  double weight_decay = 0.1;
  double max_gradient_norm = 1.0;
  double patch_dropout = 0;  // share of the patches not looked at while training (FLIP, Li et al. 2023)
  double unmasked = 0.15;    // share of the steps, the last ones, that look at all patches all the same
  // Chance that an example's caption is its item's first; else one of all, evenly.
  double first_caption = 0.4;
  Precision precision = Precision::kBf16;
  std::string weights =
      "fp32";                  // of the written checkpoint: "fp32", "fp16" or "bf16"; training's own are fp32
  std::string device = "cpu";  // or "cuda", where libtorch has it
  int threads = 0;             // 0: all processors of the process
  uint64_t seed = 1;
  int64_t evaluate_every = 500;    // steps
  int64_t checkpoint_every = 500;  // steps
  bool dry_run = false;            // check everything, write nothing, train nothing
};

struct DualTrainingReport {
  int64_t steps = 0;  // done in all
  bool finished = false;
  double last_loss = 0;
  std::vector<OneCaptionRecall> best;  // of the checkpoint in model/
  int64_t best_step = 0;
  double images_per_second = 0;       // of this call
  std::vector<std::string> left_out;  // images that could not be decoded
  std::filesystem::path model;
};

// Stops cleanly, its state saved, when `stop` is requested: `finished` is false then. Errors name the file
// and line or option. A folder with a run of other options or data is refused (kMismatch), and so is one that
// holds other files and no run (kUsage): nothing in it is touched. A state.safetensors that is damaged
// (kBadData) or of another training (kMismatch) is refused.
Result<DualTrainingReport> train_dual(const DualTrainingOptions& options, const ProgressCallback& progress,
                                      std::stop_token stop);

}  // namespace saccade
