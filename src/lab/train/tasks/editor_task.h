// An editor's training as the loop's task. Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lab/train/data/epoch_order.h"
#include "lab/train/data/picture_store.h"
#include "lab/train/loop.h"
#include "lab/train/math/micro_batches.h"
#include "lab/train/math/variable.h"
#include "lab/train/options/editor_options.h"
#include "saccade/core/threads.h"

namespace saccade::lab {

// An edit query, by the numbers of its images in the store and of its texts among all texts.
struct EditorQuery {
  int64_t reference = 0;
  int64_t target = 0;
  std::vector<int64_t> texts;  // each says the whole change
};

struct EditorSet {
  std::string name;
  std::vector<EditorQuery> queries;
};

// Everything that does not change during an editor's training.
struct EditorData {
  EditorConfig config;
  PictureStore pictures;
  RowSets states;  // states of all texts, the empty one last
  std::vector<EditorQuery> queries;
  std::vector<EditorSet> held_out;
  Json description;

  [[nodiscard]] int64_t empty_text() const { return static_cast<int64_t>(states.begin.size()) - 2; }
};

// Examples of one step: the network's inputs, the target outputs, and their weights.
struct EditorBatch {
  torch::Tensor noisy;      // [n, patches, patch_values]
  torch::Tensor reference;  // the same
  torch::Tensor clean;      // the same
  torch::Tensor time;       // [n, 1, kTimeValues]
  torch::Tensor text;       // [n, tokens, text_width]
  torch::Tensor weight;     // [n]: 1 / (1 - t)^2, the velocity's share
  nn::Tensor mask;
};

struct EditorExample {
  const EditorQuery* query = nullptr;
  int64_t text = 0;
  double t = 0;
  uint64_t noise = 0;  // seed
};
// Copies the batch's tensors to a device. The mask stays, and is copied where it is used.
EditorBatch on_device(EditorBatch batch, torch::Device device);
// Returns some examples of a batch.
EditorBatch examples_of(EditorBatch batch, MicroBatch rows);
// Returns the mean over examples and values of weight * (said - clean)^2: the squared error of the velocity.
torch::Tensor editor_loss(const torch::Tensor& said, const EditorBatch& batch);

// Returns t of a training example: near noise more often than near the image (a normal distribution's
// logistic, mean -0.8, standard deviation 0.8: Li and He 2025, table 9). The weight is bounded, so that
// nearly clean examples do not dominate.
double editor_time_drawn(double normal);
double editor_weight(double t);

class EditorTask : public TrainingTask {
 public:
  // Makes a task. All arguments are borrowed.
  static Result<std::unique_ptr<EditorTask>> make(const EditorTrainingOptions& options,
                                                  const EditorData& data, ThreadPool& pool);

  [[nodiscard]] const TorchMap& parameters() const override { return parameters_; }
  Result<StepLosses> prepare(int64_t step) override;
  Result<Json> evaluate() override;
  [[nodiscard]] Result<std::optional<double>> headline(const Json& held_out) const override;
  [[nodiscard]] Status write_model(const std::filesystem::path& folder) const override;

  // Returns the data of a step, a function of the seed and the step alone.
  [[nodiscard]] EditorBatch batch(int64_t step);
  [[nodiscard]] torch::Tensor loss(const EditorBatch& batch) const;

 private:
  EditorTask(const EditorTrainingOptions& options, const EditorData& data, ThreadPool& pool,
             EditorOf<Variable> editor, TorchMap parameters);

  const EditorTrainingOptions& options_;
  const EditorData& data_;
  ThreadPool& pool_;
  DType dtype_;
  torch::Device device_;
  EditorOf<Variable> editor_;
  TorchMap parameters_;
  std::vector<int64_t> numbers_;  // numbers of the queries
  EpochOrder order_;              // used by prepare(), which one thread runs at a time
};

}  // namespace saccade::lab
