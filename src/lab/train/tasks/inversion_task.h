// Textual inversion's training as the loop's task. Internal to the module.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lab/eval/composed/composed_task.h"
#include "lab/train/data/composed_held_out.h"
#include "lab/train/data/epoch_order.h"
#include "lab/train/data/inversion_texts.h"
#include "lab/train/loop.h"
#include "lab/train/options/inversion_options.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"
#include "saccade/model/composers/composer.h"
#include "saccade/model/composers/inversion.h"

namespace saccade::lab {

// CLIP's text tower with gradients towards vectors in place of words, and none towards its weights, which it
// borrows from the checkpoint.
struct FrozenTextTower {
  Weights weights;
  nn::TensorMap tensors;
  TrainedClip clip;
};
// Opens the tower on a device; kUnsupported for a family other than CLIP.
Result<std::unique_ptr<FrozenTextTower>> open_frozen_text_tower(const std::filesystem::path& checkpoint,
                                                                torch::Device device = at::kCPU);

// Edit queries of the evaluations during training.
struct InversionQueries {
  std::string name;
  ComposedTask task;
  Matrix<float> pictures;           // [task.pictures, dim]
  std::vector<InvertedText> asked;  // [task.asked], of one text each
  std::vector<int64_t> references;  // [task.asked]: numbers of images
};

// Data of one step.
struct InversionBatch {
  torch::Tensor rows;       // [n, dim]: the texts' rows of length 1, with noise, of length 1 again
  torch::Tensor originals;  // [n, dim]: the tower's embeddings of the texts, not normalized
  nn::Tensor ids;           // [n, longest] int64: the masked texts
  nn::Tensor places;        // [n, most] int64: positions of the word; padded with -1
  int64_t step = 0;
};

class InversionTask : public TrainingTask {
 public:
  // Makes a task. All arguments except `config` are borrowed.
  static Result<std::unique_ptr<InversionTask>> make(const InversionTrainingOptions& options,
                                                     const ComposerConfig& config, EncoderBackend& encoder,
                                                     const FrozenTextTower& tower,
                                                     const std::vector<InversionText>& texts,
                                                     const std::vector<InversionQueries>& held_out,
                                                     ThreadPool& pool);

  [[nodiscard]] const TorchMap& parameters() const override { return parameters_; }
  Result<StepLosses> prepare(int64_t step) override;
  Result<Json> evaluate() override;
  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const override {
    return composed_headline(held_out);
  }
  [[nodiscard]] Status write_model(const std::filesystem::path& folder) const override;

  // Loads the weights that write_model has written.
  Status read_model(const std::filesystem::path& folder);
  // Measures a set with the current weights, without gradients.
  [[nodiscard]] Result<Json> measure(const InversionQueries& set) const;

  // Returns the data of a step, a function of the seed and the step alone.
  Result<InversionBatch> batch(int64_t step);
  [[nodiscard]] torch::Tensor loss(const InversionBatch& batch) const;

 private:
  InversionTask(const InversionTrainingOptions& options, ComposerConfig config, EncoderBackend& encoder,
                const FrozenTextTower& tower, const std::vector<InversionText>& texts,
                const std::vector<InversionQueries>& held_out, ThreadPool& pool,
                InversionOf<Variable> network, TorchMap parameters);

  const InversionTrainingOptions& options_;
  ComposerConfig config_;
  EncoderBackend& encoder_;
  const FrozenTextTower& tower_;
  const std::vector<InversionText>& texts_;
  const std::vector<InversionQueries>& held_out_;
  ThreadPool& pool_;
  torch::Device device_;
  InversionOf<Variable> network_;
  TorchMap parameters_;
  std::vector<int64_t> numbers_;  // numbers of the texts
  EpochOrder order_;              // used by prepare(), which one thread runs at a time
};

}  // namespace saccade::lab
