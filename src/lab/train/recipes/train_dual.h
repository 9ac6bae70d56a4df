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
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/retrieval/one_caption.h"
#include "lab/train/loop_options.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image.h"
#include "saccade/model/encoder.h"
#include "saccade/progress.h"

namespace saccade::lab {

enum class WeightsFormat { kFp32, kFp16, kBf16 };
std::span<const EnumName<WeightsFormat>> enum_names(WeightsFormat);  // "fp32", "fp16", "bf16"
enum class TrainingDevice { kCpu, kCuda };
std::span<const EnumName<TrainingDevice>> enum_names(TrainingDevice);  // "cpu", "cuda"

struct DualTrainingOptions : TrainingLoopOptions {
  std::vector<DatasetSource> datasets;  // items without captions are left out
  std::vector<DatasetSource> held_out;  // scored during training, never trained on
  // Path of the architecture: {"model": config.json of CLIP, "preprocessor": preprocessor_config.json,
  // "tokenizer": folder}. The folder is relative to the file. Vocabulary and special ids in "model" are
  // filled in from the tokenizer. If empty, the architecture is that of `initial`.
  std::filesystem::path config;
  // Checkpoint of the initial weights, in the Hugging Face layout (one model.safetensors). It must have the
  // config's architecture and tokenizer, and any floating type. If empty, weights are random.
  std::filesystem::path initial;
  std::filesystem::path cache;  // decoded images; empty: <run>/cache

  int64_t batch = 256;
  double patch_dropout = 0;  // share of patches dropped in training (FLIP, Li et al. 2023)
  double unmasked = 0.15;    // share of the steps, the last ones, that look at all patches all the same
  // Probability that an example's caption is its item's first; otherwise one of all is drawn uniformly.
  double first_caption = 0.4;
  Precision precision = Precision::kBf16;
  WeightsFormat weights = WeightsFormat::kFp32;  // format of the written checkpoint; training's own are fp32
  TrainingDevice device = TrainingDevice::kCpu;  // kCuda if libtorch supports it
  int threads = 0;                               // 0: all processors of the process
  DecoderPool* processes = nullptr;              // decoder processes; nullptr: threads decode
};

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

struct DualTrainingReport {
  int64_t steps = 0;         // done in all
  int64_t resumed_from = 0;  // number by earlier calls; equal to steps if the training was finished
  bool finished = false;
  double last_loss = 0;
  std::vector<OneCaptionRecall> best;  // figures of the checkpoint in model/
  int64_t best_step = 0;
  double images_per_second = 0;       // rate of this call
  std::vector<std::string> left_out;  // images that could not be decoded
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
