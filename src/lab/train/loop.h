// The training loop of all recipes. It takes steps under a schedule while preparing the next batch. It
// evaluates on held-out data, keeps the best checkpoint, and saves state from which a stopped training
// resumes exactly.
//
// A task defines the model, the data and the evaluation; a recipe (recipes/train_dual.cc) is a task and its options. A
// recipe of several stages runs one loop for each, in its own folder below the run's. The description of a
// later stage contains the hash of its initial weights.
//
// The loop writes into the run folder
//   run.json           the description: the task's and the loop's own options
//   metrics.jsonl      a line per evaluation: step, loss, learning rate, and the task's metrics
//   state.safetensors  parameters, optimizer and position, written atomically: read by a resumed training
//   model/             the best checkpoint so far, as the task writes it
// Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/train/math/adamw.h"
#include "lab/train/math/variable.h"
#include "lab/train/options/loop_options.h"
#include "lab/train/training_folder.h"
#include "lab/train/training_summary.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

// Computes a loss: a scalar with gradients towards the parameters.
using StepLoss = std::function<torch::Tensor()>;
// Losses whose sum is that of one step. The gradients of each are computed before the next one is, so that one
// at a time is in memory.
using StepLosses = std::vector<StepLoss>;

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // Returns the trained parameters by the names they are saved under: leaves with gradients, the same tensors
  // in every call. Frozen parameters are not among them.
  [[nodiscard]] virtual const TorchMap& parameters() const = 0;
  // Prepares the data of a step. It is a function of the seed and the step alone, so that a resumed training
  // is the same one. Runs in parallel with the training of the step before, so it must not read the
  // parameters. The training thread calls each loss once.
  virtual Result<StepLosses> prepare(int64_t step) = 0;
  // Returns a parameter's learning rate relative to the loop's.
  [[nodiscard]] virtual double rate_of(const std::string& /*parameter*/) const { return 1; }
  // Called after every update, without gradients, to bound parameters.
  virtual void after_update() {}

  // Returns the fields of a line of metrics.jsonl beside step, loss and learning rate: an object, with the
  // figures on held-out data as "held_out". Called without gradients.
  virtual Result<Json> evaluate() = 0;
  // Returns the figure of "held_out" that selects the best checkpoint; higher is better. Returns `nullopt`
  // without held-out data; the latest checkpoint is then the best. Returns kBadData for JSON that evaluate()
  // would not have written.
  [[nodiscard]] virtual Result<std::optional<double>> headline(const Json& held_out) const = 0;
  // Writes the current checkpoint into an existing folder.
  [[nodiscard]] virtual Status write_model(const std::filesystem::path& folder) const = 0;
};

struct TrainingOutcome : TrainingSummary {
  Json best;                    // "held_out" of the checkpoint in model/
  double steps_per_second = 0;  // rate of this call
};

// Check the options. They return kUsage, naming the option, and kUnsupported for a device that is not there.
Status check_optimizer_options(const OptimizerOptions& options);
Status check_loop_options(const TrainingLoopOptions& options);
// Returns kUsage for fewer micro-batches than one, or more than a batch has examples.
Status check_accumulation(int64_t accumulate, int64_t batch);

// Adds the optimizer's options and the schedule to a description.
void describe_optimizer(const OptimizerOptions& options, Json& description);
// Returns run.json: the task's description, then the options.
Json describe_training(const Json& task, const TrainingLoopOptions& options);

// Returns run.json's description of the resampling of held-out figures.
Json bootstrap_json(const BootstrapOptions& bootstrap);

class TrainingLoop {
 public:
  // Borrows task, options and folder. `description` is the task's.
  TrainingLoop(TrainingTask& task, const TrainingLoopOptions& options, TrainingFolder& folder,
               const Json& description);

  // Compares this training with the one in the folder, restores its state, and claims the folder. Errors,
  // before anything is written: kMismatch for another training; kBadData for a damaged state. A dry run
  // writes nothing at all.
  Status begin();
  // Trains to the last step, or until `stop` is requested; state is then saved, and `finished` is false. Call
  // it after begin(). Returns kInternal for a loss or gradient that is not finite. Cost, beside the task's:
  // writes the parameters three times over every `checkpoint_every` steps.
  Result<TrainingOutcome> run(const ProgressCallback& progress, std::stop_token stop);

 private:
  Status train_step(const StepLosses& losses);
  Status evaluate();
  [[nodiscard]] Status save() const;
  Status restore();
  Status restore_position(const Json& position);
  std::future<Result<StepLosses>> prepare(int64_t step);
  [[nodiscard]] double learning_rate(int64_t step) const;
  [[nodiscard]] bool is_done() const;

  TrainingTask& task_;
  const TrainingLoopOptions& options_;
  TrainingFolder& folder_;
  Json description_;
  AdamW optimizer_;
  int64_t step_ = 0;
  double mean_loss_ = 0;
  Json best_ = Json::array();
  std::optional<double> best_headline_;
  int64_t best_step_ = 0;
  int64_t waited_ = 0;  // evaluations since the best
  std::string metrics_;
};

}  // namespace saccade::lab
