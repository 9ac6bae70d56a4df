// The one training loop. It takes steps under a schedule and prepares the next batch meanwhile, evaluates on
// held-out data, keeps the best checkpoint, and saves state from which a stopped training goes on exactly.
//
// A task says what is trained, on what data, and how it is judged; a recipe (dual.cc) is a task and its
// options. A recipe of several stages runs one loop for each, in a folder of its own below the run's. The
// description of a later stage names the hash of the weights it begins with.
//
// The loop writes into the run folder
//   run.json           the description: the task's and the loop's own options
//   metrics.jsonl      a line every evaluation: step, loss, learning rate, and what the task measured
//   state.safetensors  parameters, optimizer and position, written atomically: what a resumed training reads
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

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "lab/eval/figures/sample.h"
#include "lab/train/math/adamw.h"
#include "lab/train/loop_options.h"
#include "lab/train/training_folder.h"
#include "lab/train/math/variable.h"

namespace saccade::lab {

// The loss of one step: a scalar with gradients towards the parameters.
using StepLoss = std::function<torch::Tensor()>;

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // What is trained, by the names it is saved under: leaves with gradients, the same tensors always. What is
  // frozen is not among them.
  [[nodiscard]] virtual const TorchMap& parameters() const = 0;
  // Reads and prepares what a step learns from: a function of the seed and the step alone, so that a resumed
  // training is the same one. Runs beside the training of the step before: it must not read the parameters.
  // The result is called once, by the thread that trains.
  virtual Result<StepLoss> prepare(int64_t step) = 0;
  // A parameter's learning rate as a share of the loop's.
  [[nodiscard]] virtual double rate_of(const std::string& /*parameter*/) const { return 1; }
  // After every update, without gradients: for bounds on parameters.
  virtual void after_update() {}

  // What a line of metrics.jsonl says beside step, loss and learning rate: an object, with the figures on
  // held-out data as "held_out". Called without gradients.
  virtual Result<Json> evaluate() = 0;
  // The figure of "held_out" that decides which checkpoint is best, the higher the better; nothing where
  // nothing is held out: the newest is the best then. kBadData for what evaluate() would not have written.
  [[nodiscard]] virtual Result<std::optional<double>> headline(const Json& held_out) const = 0;
  // The checkpoint as it is now, into a folder that is there.
  [[nodiscard]] virtual Status write_model(const std::filesystem::path& folder) const = 0;
};

struct TrainingOutcome {
  int64_t steps = 0;         // done in all
  int64_t resumed_from = 0;  // of them by earlier calls
  bool finished = false;     // all steps are done, or patience came to its end
  double last_loss = 0;
  Json best;  // "held_out" of the checkpoint in model/
  int64_t best_step = 0;
  double steps_per_second = 0;  // of this call
};

// kUsage, naming the option.
Status check_loop_options(const TrainingLoopOptions& options);

// run.json: the task's description, then the options.
Json describe_training(const Json& task, const TrainingLoopOptions& options);

// How held-out figures are resampled, as run.json says it.
Json bootstrap_json(const BootstrapOptions& bootstrap);

class TrainingLoop {
 public:
  // `description` is the task's. Task, options and folder are borrowed.
  TrainingLoop(TrainingTask& task, const TrainingLoopOptions& options, TrainingFolder& folder,
               const Json& description);

  // Compares this training with the one in the folder, takes up its state, and claims the folder. kMismatch
  // for another training, kBadData for a damaged state; nothing has been written then. A dry run writes
  // nothing at all.
  Status begin();
  // To the last step, or until `stop` is requested: state is saved then, and `finished` is false. After
  // begin(). kInternal for a loss or gradient that is no number. Cost, beside the task's: writes parameters
  // three times over every `checkpoint_every` steps.
  Result<TrainingOutcome> run(const ProgressCallback& progress, std::stop_token stop);

 private:
  Status train_step(const StepLoss& loss_of_step);
  Status evaluate();
  [[nodiscard]] Status save() const;
  Status restore();
  Status restore_position(const Json& position);
  std::future<Result<StepLoss>> prepare(int64_t step);
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
