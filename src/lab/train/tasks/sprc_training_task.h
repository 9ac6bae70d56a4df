// SPRC's training (math/sprc.h) as stage two of composers' training. The Q-Former, its query tokens and both
// projections of a BLIP-2 for image-text retrieval are trained, over the states of its frozen vision tower.
// Targets go through the trained Q-Former too, so the checkpoint that is written has an encoder of its own.
// Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lab/train/math/sprc.h"
#include "lab/train/tasks/composed_training_task.h"
#include "lab/train/tasks/triplet_draw.h"

namespace saccade::lab {

inline constexpr std::string_view kSprc = "sprc";  // the composer's kind

struct SprcBatch {
  torch::Tensor memory;      // [u, rows, width]: the images' states, each once
  torch::Tensor ids, mask;   // [v, longest] int64: the texts, each once
  torch::Tensor references;  // [n] int64: places among the images
  torch::Tensor targets;     // [n]
  torch::Tensor wordings;    // [n]: places among the texts
  torch::Tensor positives;   // [n, candidates] bool
};

class SprcTrainingTask : public ComposedStageTask {
 public:
  // The stage has the vision tower's states as `picture_tokens`, and its texts. Returns kUnsupported for a
  // checkpoint in another layout than Hugging Face's; kUsage for a text that is too long.
  static Result<std::unique_ptr<SprcTrainingTask>> make(const ComposedTrainingOptions& options,
                                                        const ComposedStage& stage, ThreadPool& pool);

  Result<StepLosses> prepare(int64_t step) override;
  [[nodiscard]] Status write_model(const std::filesystem::path& folder) const override;
  Status read_model(const std::filesystem::path& folder) override;
  [[nodiscard]] Result<Json> measure(const HeldOutQueries& set) const override;

  // Returns the data of a step, a function of the seed and the step alone.
  SprcBatch batch(int64_t step);
  [[nodiscard]] torch::Tensor loss(const SprcBatch& batch) const;

 private:
  SprcTrainingTask(const ComposedTrainingOptions& options, const ComposedStage& stage, ThreadPool& pool)
      : ComposedStageTask(options, stage, pool) {}
  Status begin();
  [[nodiscard]] torch::Tensor memory_of(std::span<const int64_t> pictures) const;
  void fill(const DrawnTriplets& drawn, SprcBatch& batch) const;
  Status write_encoder(const std::filesystem::path& folder) const;

  FrozenQFormer begin_;
  std::optional<TrainedSprc> model_;
  TorchMap encoder_parameters_;
};

}  // namespace saccade::lab
