// Training data of a dual encoder, and its batches: everything that is a function of the options, the files
// and the step. Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/retrieval/one_caption.h"
#include "lab/train/data/picture_store.h"
#include "lab/train/math/torch.h"
#include "lab/train/options/dual_options.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/image/preprocess.h"
#include "saccade/model/families/clip.h"
#include "saccade/progress.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

// Value of run.json's "kind".
inline constexpr const char* kDualTrainingKind = "train dual";

// Everything that a run needs and that does not change during training.
struct TrainingSetup {
  ClipConfig config;
  Preprocessing preprocessing;
  std::unique_ptr<Tokenizer> tokenizer;
  std::map<std::string, std::string> auxiliary_files;  // name -> content: go into the checkpoint as they are
  Json config_json;                                    // config.json of the result

  std::vector<DatasetItem> items;                     // items of all datasets, one after the other
  std::vector<std::vector<TokenizedText>> captions;   // captions of each item
  std::vector<std::vector<int64_t>> caption_numbers;  // the same captions as numbers: equal for equal texts
  std::vector<int64_t> usable;                        // items with an image and a caption
  PictureStore pictures;
  std::vector<OneCaptionSet> held_out;
  std::vector<std::string> also_trained;  // held-out sets with images that are trained on, a sentence each

  std::string initial_sha256;  // hash of the initial weights; empty: random ones
  // Contents of run.json: options and hashes of everything that the training reads.
  Json description;
};

// Examples of one step.
struct TrainingBatch {
  torch::Tensor pixels;  // [n, 3, side, side]
  // [n, longest] int64, shortest texts first, and each text's length.
  torch::Tensor ids;
  std::vector<int64_t> lengths;
  torch::Tensor positives;  // [n, n] bool
  torch::Tensor keep;       // [n, kept] int64, or undefined
};

// Returns the folder of decoded images.
std::filesystem::path picture_cache(const DualTrainingOptions& options);

// Reads everything except images: config, tokenizer, manifests and captions. The description still lacks what
// only the images tell. Writes nothing. Errors name the file and line.
Result<TrainingSetup> load_training_setup(const DualTrainingOptions& options);

// Loads the images, held-out ones included, and adds their hashes to the description. Writes nothing:
// setup.pictures.keep() does.
Status load_pictures(const DualTrainingOptions& options, TrainingSetup& setup, ThreadPool& pool,
                     const ProgressCallback& progress, std::stop_token stop);

// Makes batch number `step`; the same for the same setup, options and step. Thread-safe.
TrainingBatch make_batch(const TrainingSetup& setup, const DualTrainingOptions& options, int64_t step,
                         ThreadPool& pool);

}  // namespace saccade::lab
