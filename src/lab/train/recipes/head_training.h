// What a single training of a head and a sweep of many share. Internal to the module.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/head_figures.h"
#include "saccade/model/families/blip2.h"
#include "lab/train/recipes/train_head.h"
#include "lab/train/data/head_data.h"
#include "lab/train/loop.h"
#include "lab/train/training_folder.h"

namespace saccade::lab {

// Pairs that some training of a run is made on: `count` of all, by `seed`.
struct PairSubset {
  int64_t count = 0;
  uint64_t seed = 1;
};

// Everything that does not change while heads are trained.
struct HeadData {
  std::unique_ptr<EncoderBackend> encoder;      // null with a file of features without one
  RunCheckpoint frozen;                  // the encoder, for runs; without a name where there is none
  HeadConfig config;                     // what the data say of a head: widths of features, states, encoder
  std::optional<FrozenQFormer> qformer;  // what a Q-Former that is trained begins with
  PendingFile file;
  FeatureFile features;
  int64_t all_pairs = 0;  // of which subsets are chosen
  std::vector<HeadSet> held_out;
  std::vector<HeadSet> test;
  std::vector<std::string> left_out;
  Json description;  // for run.json

  // What outcomes are measured on.
  [[nodiscard]] std::span<const HeadSet> judges() const { return test.empty() ? held_out : test; }
  // Texts of `features` that a subset's training sees. kUsage for fewer than a batch, kBadData where
  // all have the same picture or the same text.
  [[nodiscard]] Result<std::vector<int64_t>> pairs(const PairSubset& subset, int64_t batch) const;
  // Gives the features' files their names.
  Status keep();
};

// kUsage naming the option at fault.
Status check_head_options(const HeadTrainingOptions& options);

// Reads datasets and files, and computes what features any of the subsets asks for. Where `folder` holds a
// training of other data, that is said before anything is encoded. kUsage where a picture of what is held out
// is among those that are trained on.
Result<HeadData> load_head_data(const HeadTrainingOptions& options, std::span<const PairSubset> subsets,
                                const TrainingFolder& folder, ThreadPool& pool,
                                const ProgressCallback& progress, std::stop_token stop);

// One head on the data, into the folder that was opened for it (kHeadTrainingKind).
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
