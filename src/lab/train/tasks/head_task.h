// A head's training as the loop's task. Internal to the module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lab/train/data/epoch_order.h"
#include "lab/train/data/head_data.h"
#include "lab/train/loop.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/variable.h"
#include "lab/train/options/head_options.h"

namespace saccade::lab {

Variable pool_states(const Variable& states, Pooling pooling);

// Returns the number of steps for the options' epochs over `pairs`.
int64_t head_training_steps(const HeadTrainingOptions& options, int64_t pairs);

struct HeadBatch {
  std::vector<int64_t> texts;  // the batch's pairs, by text
  torch::Tensor images;        // [n, a] features
  torch::Tensor text_rows;     // [n, b]
  torch::Tensor positives;     // [n, n] bool
};

class HeadTask : public TrainingTask {
 public:
  // Makes a task. `pairs`: texts of `features` that have an image. `frozen`: tensors of the initial weights
  // of a head's Q-Former. All arguments but these are borrowed.
  static Result<std::unique_ptr<HeadTask>> make(const HeadTrainingOptions& options, const HeadConfig& config,
                                                const FeatureFile& features,
                                                const std::vector<int64_t>& pairs,
                                                std::span<const HeadSet> held_out, ThreadPool& pool,
                                                const nn::TensorMap& frozen = {});

  [[nodiscard]] const TorchMap& parameters() const override { return parameters_; }
  Result<StepLosses> prepare(int64_t step) override;
  [[nodiscard]] double rate_of(const std::string& parameter) const override;
  void after_update() override;
  Result<Json> evaluate() override;
  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const override;
  [[nodiscard]] Status write_model(const std::filesystem::path& folder) const override;

  // Returns the data of a step, a function of the seed and the step alone.
  HeadBatch batch(int64_t step);
  // The batch must live until the backward pass has run.
  [[nodiscard]] torch::Tensor loss(const HeadBatch& batch) const;

 private:
  HeadTask(const HeadTrainingOptions& options, const HeadConfig& config, const FeatureFile& features,
           const std::vector<int64_t>& pairs, std::span<const HeadSet> held_out, ThreadPool& pool,
           HeadOf<Variable> head, TorchMap parameters);
  void add_hard_negatives(int64_t step, std::vector<int64_t>& texts) const;
  void fill(HeadBatch& batch) const;
  [[nodiscard]] torch::Tensor rows_of(const Matrix<float>& features, bool images) const;

  const HeadTrainingOptions& options_;
  HeadConfig config_;
  const FeatureFile& features_;
  const std::vector<int64_t>& pairs_;
  std::span<const HeadSet> held_out_;
  ThreadPool& pool_;
  torch::Device device_;
  HeadOf<Variable> head_;
  TorchMap parameters_;
  EpochOrder order_;        // used by prepare(), which one thread runs at a time
  int64_t unreleased_ = 0;  // bytes of mapped features read since they were given back
};

}  // namespace saccade::lab
