#include "lab/train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lab/train/math/device.h"
#include "lab/train/math/schedule.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/hash.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr const char* kStateFile = "state.safetensors";

AdamWOptions adamw_options(const TrainingLoopOptions& options, const TrainingTask& task) {
  AdamWOptions adamw;
  adamw.beta1 = options.adam_beta1;
  adamw.beta2 = options.adam_beta2;
  adamw.epsilon = options.adam_epsilon;
  adamw.weight_decay = options.weight_decay;
  for (const auto& [name, parameter] : task.parameters()) {
    if (const double rate = task.rate_of(name); rate != 1) adamw.rates.emplace(name, rate);
  }
  return adamw;
}

Result<std::string> metadata_of(const SafeTensors& file, const char* key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return fail(ErrorCode::kBadData, "no \"{}\"", key);
  return found->second;
}

Status check_positive(const char* name, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return fail(ErrorCode::kUsage, "{} is {}, expected above 0", name, value);
}

}  // namespace

void describe_optimizer(const OptimizerOptions& options, Json& description) {
  description["learning_rate"] = options.learning_rate;
  description["warmup"] = options.warmup;
  description["schedule"] = enum_name(options.schedule);
  description["weight_decay"] = options.weight_decay;
  description["adam_beta1"] = options.adam_beta1;
  description["adam_beta2"] = options.adam_beta2;
  description["adam_epsilon"] = options.adam_epsilon;
  description["max_gradient_norm"] = options.max_gradient_norm;
}

Json describe_training(const Json& task, const TrainingLoopOptions& options) {
  Json description = task;
  description["steps"] = options.steps;
  describe_optimizer(options, description);
  description["evaluate_every"] = options.evaluate_every;
  if (options.patience > 0) description["patience"] = options.patience;
  description["seed"] = options.seed;
  // Runs of versions that trained on processors alone do not name it.
  if (options.device != TrainingDevice::kCpu) description["device"] = enum_name(options.device);
  return description;
}

Json bootstrap_json(const BootstrapOptions& bootstrap) {
  return {{"resamples", bootstrap.resamples}, {"seed", bootstrap.seed}, {"confidence", bootstrap.confidence}};
}

Status check_optimizer_options(const OptimizerOptions& options) {
  SACCADE_TRY(check_positive("learning rate", options.learning_rate));
  SACCADE_TRY(check_positive("largest gradient norm", options.max_gradient_norm));
  SACCADE_TRY(check_positive("Adam's epsilon", options.adam_epsilon));
  for (const auto& [name, beta] : {std::pair{"beta1", options.adam_beta1}, {"beta2", options.adam_beta2}}) {
    if (!(beta >= 0 && beta < 1)) {
      return fail(ErrorCode::kUsage, "Adam's {} is {}, expected 0 to below 1", name, beta);
    }
  }
  if (!(options.warmup >= 0 && options.warmup <= 1)) {
    return fail(ErrorCode::kUsage, "warm-up is {}, expected 0 to 1", options.warmup);
  }
  if (!(options.weight_decay >= 0)) {
    return fail(ErrorCode::kUsage, "weight decay is {}, expected 0 or more", options.weight_decay);
  }
  return {};
}

Status check_loop_options(const TrainingLoopOptions& options) {
  if (options.steps < 0) return fail(ErrorCode::kUsage, "steps is {}, expected 0 or more", options.steps);
  SACCADE_TRY(check_optimizer_options(options));
  SACCADE_TRY(check_positive("steps between evaluations", static_cast<double>(options.evaluate_every)));
  SACCADE_TRY(check_positive("steps between checkpoints", static_cast<double>(options.checkpoint_every)));
  if (options.patience < 0) {
    return fail(ErrorCode::kUsage, "patience is {}, expected 0 or more", options.patience);
  }
  if (options.accumulate < 1) {
    return fail(ErrorCode::kUsage, "accumulate is {}, expected 1 or more", options.accumulate);
  }
  return check_device(options.device);
}

Status check_accumulation(int64_t accumulate, int64_t batch) {
  if (accumulate >= 1 && accumulate <= batch) return {};
  return fail(ErrorCode::kUsage, "accumulate is {}, expected 1 to {} (the batch size)", accumulate, batch);
}

TrainingLoop::TrainingLoop(TrainingTask& task, const TrainingLoopOptions& options, TrainingFolder& folder,
                           const Json& description)
    : task_(task),
      options_(options),
      folder_(folder),
      description_(describe_training(description, options)),
      optimizer_(task.parameters(), adamw_options(options, task)) {}

Status TrainingLoop::begin() {
  SACCADE_TRY(folder_.check_whole(description_));
  SACCADE_TRY(restore());
  if (options_.dry_run) return {};
  return folder_.claim(description_);
}

Result<TrainingOutcome> TrainingLoop::run(const ProgressCallback& progress, std::stop_token stop) {
  const auto started = std::chrono::steady_clock::now();
  const int64_t first_step = step_;
  std::future<Result<StepLosses>> next;
  if (!is_done()) next = prepare(step_);
  while (!is_done() && !stop.stop_requested()) {
    SACCADE_ASSIGN(const StepLosses losses, next.get());
    if (step_ + 1 < options_.steps) next = prepare(step_ + 1);
    SACCADE_TRY(train_step(losses));
    ++step_;
    if (progress) {
      const std::string detail = fmt::format("loss {:.3f}", mean_loss_);
      progress({.what = "training", .done = step_, .total = options_.steps, .detail = detail});
    }
    const bool last = step_ == options_.steps;
    if (last || step_ % options_.evaluate_every == 0) SACCADE_TRY(evaluate());
    if (is_done() || step_ % options_.checkpoint_every == 0) SACCADE_TRY(save());
  }
  if (options_.steps == 0) SACCADE_TRY(evaluate());
  if (stop.stop_requested()) SACCADE_TRY(save());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  return TrainingOutcome{{.steps = step_,
                          .resumed_from = first_step,
                          .finished = is_done(),
                          .last_loss = mean_loss_,
                          .best_step = best_step_},
                         best_,
                         static_cast<double>(step_ - first_step) / seconds.count()};
}

std::future<Result<StepLosses>> TrainingLoop::prepare(int64_t step) {
  return std::async(std::launch::async, [this, step] { return task_.prepare(step); });
}

bool TrainingLoop::is_done() const {
  return step_ == options_.steps || (options_.patience > 0 && waited_ >= options_.patience);
}

double TrainingLoop::learning_rate(int64_t step) const {
  return LearningRateSchedule{.peak = options_.learning_rate,
                              .warmup = options_.warmup,
                              .steps = options_.steps,
                              .shape = options_.schedule}
      .at(step);
}

Status TrainingLoop::train_step(const StepLosses& losses) {
  double value = 0;
  for (const StepLoss& part : losses) {
    const Tensor loss = part();
    value += loss.item<double>();
    if (!std::isfinite(value)) {
      return fail(ErrorCode::kInternal, "the loss is {} at step {}: a lower learning rate may help", value,
                  step_);
    }
    loss.backward();
  }
  // Checked before anything is changed: a step with such a gradient would destroy the weights.
  const double norm = optimizer_.clip_gradients(options_.max_gradient_norm);
  if (!std::isfinite(norm)) {
    return fail(ErrorCode::kInternal, "the gradient's norm is {} at step {}: a lower learning rate may help",
                norm, step_);
  }
  optimizer_.step(learning_rate(step_));
  const torch::NoGradGuard no_grad;
  task_.after_update();
  // A running mean over about a hundred steps, since one batch's loss is noisy.
  mean_loss_ += (value - mean_loss_) * std::max(0.01, 1.0 / static_cast<double>(step_ + 1));
  return {};
}

// Appends to metrics.jsonl, and writes model/ if this is the best so far.
Status TrainingLoop::evaluate() {
  const torch::NoGradGuard no_grad;
  Json line{{"step", step_}, {"loss", mean_loss_}, {"learning_rate", learning_rate(step_ - 1)}};
  SACCADE_ASSIGN(const Json measured, task_.evaluate());
  line.update(measured);
  SACCADE_ASSIGN(const std::optional<double> headline, task_.headline(line["held_out"]));
  metrics_ += dump_json(line) + "\n";
  SACCADE_TRY(write_file_atomic(folder_.path() / "metrics.jsonl", metrics_));
  const bool is_best = best_step_ == 0 || !headline || !best_headline_ || *headline >= *best_headline_;
  waited_ = is_best ? 0 : waited_ + 1;
  if (!is_best) return {};
  best_ = line["held_out"];
  best_headline_ = headline;
  best_step_ = step_;
  const fs::path model = folder_.path() / "model";
  SACCADE_TRY(make_folders(model));
  return task_.write_model(model);
}

Status TrainingLoop::save() const {
  TorchMap state = optimizer_.state();
  for (const auto& [name, tensor] : task_.parameters()) state["parameter." + name] = tensor.detach();
  const Json position{{"step", step_}, {"mean_loss", mean_loss_}, {"best_step", best_step_},
                      {"best", best_}, {"waited", waited_},       {"run", folder_.description_hash()}};
  return write_torch_map(folder_.path() / kStateFile, state, std::nullopt,
                         {{"position", dump_json(position)}, {"metrics", metrics_}});
}

Status TrainingLoop::restore() {
  const fs::path path = folder_.path() / kStateFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
  SACCADE_ASSIGN(const TorchMap tensors, torch_tensors(file).in(path.string()));
  SACCADE_ASSIGN(const std::string position_text, metadata_of(file, "position").in(path.string()));
  SACCADE_ASSIGN(metrics_, metadata_of(file, "metrics").in(path.string()));
  SACCADE_ASSIGN(const Json position, parse_json(position_text).in(path.string()));
  SACCADE_TRY(restore_position(position).in(path.string()));

  TorchMap expected = optimizer_.state();
  for (const auto& [name, tensor] : task_.parameters()) expected["parameter." + name] = tensor;
  for (const auto& [name, tensor] : expected) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.sizes() != tensor.sizes() ||
        found->second.scalar_type() != tensor.scalar_type()) {
      return fail(ErrorCode::kMismatch, "{}: tensor {} is missing or of another shape or type", path.string(),
                  name);
    }
  }
  if (const auto updates = tensors.at("step").item<int64_t>(); updates != step_) {
    return fail(ErrorCode::kBadData, "{}: the optimizer is at step {}, the training at {}", path.string(),
                updates, step_);
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : task_.parameters()) {
    Tensor(parameter).copy_(tensors.at("parameter." + name));
  }
  optimizer_.restore(tensors);
  return {};
}

// Restores the training's position, with checks: the file may come from anywhere.
Status TrainingLoop::restore_position(const Json& position) {
  const std::string here = sha256_hex(dump_json(description_));
  SACCADE_ASSIGN(const std::string hash, json_field<std::string>(position, "run"));
  // A version that words descriptions otherwise may have begun the training.
  if (hash != here && hash != folder_.description_hash()) {
    return fail(ErrorCode::kMismatch,
                "the state of a training of other options or data (\"run\" is {}, here it is {})", hash,
                here);
  }
  SACCADE_ASSIGN(step_, json_field<int64_t>(position, "step"));
  if (step_ < 0 || step_ > options_.steps) {
    return fail(ErrorCode::kBadData, "\"step\" is {}, expected 0 to {}", step_, options_.steps);
  }
  SACCADE_ASSIGN(mean_loss_, json_field<double>(position, "mean_loss"));
  SACCADE_ASSIGN(best_step_, json_field<int64_t>(position, "best_step"));
  if (best_step_ < 0 || best_step_ > step_) {
    return fail(ErrorCode::kBadData, "\"best_step\" is {}, expected 0 to {}", best_step_, step_);
  }
  SACCADE_ASSIGN(waited_, json_field_or<int64_t>(position, "waited", 0));
  if (waited_ < 0 || waited_ > step_) {
    return fail(ErrorCode::kBadData, "\"waited\" is {}, expected 0 to {}", waited_, step_);
  }
  if (!position.contains("best")) return fail(ErrorCode::kBadData, "\"best\" is missing");
  if (best_step_ == 0) return {};  // not evaluated yet
  best_ = position["best"];
  SACCADE_ASSIGN(best_headline_, task_.headline(best_).in("\"best\""));
  return {};
}

}  // namespace saccade::lab
