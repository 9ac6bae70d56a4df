// Code shared by the training of one head and a sweep of many. Internal to the module.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/head_figures.h"
#include "lab/train/data/head_data.h"
#include "lab/train/loop.h"
#include "lab/train/options/head_options.h"
#include "lab/train/training_folder.h"
#include "saccade/model/families/blip2.h"

namespace saccade::lab {

// Pairs on which a training of a run is made: `count` of all, by `seed`.
struct PairSubset {
  int64_t count = 0;
  uint64_t seed = 1;
};

// Everything that does not change during the training of heads.
struct HeadData {
  std::unique_ptr<EncoderBackend> encoder;  // null with a file of features without one
  RunCheckpoint frozen;                     // encoder for runs; its name is empty if there is none
  HeadConfig config;                     // head settings from the data: widths of features, states, encoder
  std::optional<FrozenQFormer> qformer;  // initial weights of a trained Q-Former
  PendingFile file;
  FeatureFile features;
  int64_t all_pairs = 0;  // number of pairs from which subsets are chosen
  std::vector<HeadSet> held_out;
  std::vector<HeadSet> test;
  std::vector<std::string> left_out;
  Json description;  // description in run.json

  // Sets on which outcomes are measured.
  [[nodiscard]] std::span<const HeadSet> judges() const { return test.empty() ? held_out : test; }
  // Returns the texts of `features` in a subset's training. Errors: kUsage for fewer than a batch; kBadData
  // if all have the same image or the same text.
  [[nodiscard]] Result<std::vector<int64_t>> pairs(const PairSubset& subset, int64_t batch) const;
  // Gives the features' files their names.
  Status keep();
};

// Checks the options. Returns kUsage naming the option at fault.
Status check_head_options(const HeadTrainingOptions& options);

// Reads datasets and files, and computes the features that any of the subsets needs. If `folder` holds a
// training of other data, this is reported before anything is encoded. Returns kUsage if a held-out image is
// also trained on.
Result<HeadData> load_head_data(const HeadTrainingOptions& options, std::span<const PairSubset> subsets,
                                const TrainingFolder& folder, ThreadPool& pool,
                                const ProgressCallback& progress, std::stop_token stop);

// A head trained on the data, in the folder that was opened for it (kHeadTrainingKind).
struct TrainedHead {
  TrainingOutcome training;
  int64_t pairs = 0;
  double seconds = 0;
};
Result<TrainedHead> train_one_head(const HeadTrainingOptions& options, const HeadData& data,
                                   TrainingFolder& folder, ThreadPool& pool, const ProgressCallback& progress,
                                   std::stop_token stop);

inline constexpr const char* kHeadTrainingKind = "train head";

}  // namespace saccade::lab
