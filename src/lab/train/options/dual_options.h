// Options of the training of dual encoders (recipes/train_dual.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/train/options/loop_options.h"
#include "saccade/core/enum_names.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

enum class WeightsFormat { kFp32, kFp16, kBf16 };
std::span<const EnumName<WeightsFormat>> enum_names(WeightsFormat);  // "fp32", "fp16", "bf16"

struct DualTrainingOptions : TrainingLoopOptions, ActivationOptions {
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
  int threads = 0;                               // 0: all processors of the process
  DecoderPool* processes = nullptr;              // decoder processes; nullptr: threads decode
};

}  // namespace saccade::lab
