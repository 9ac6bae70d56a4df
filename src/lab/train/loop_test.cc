// Tests of the loop with a task of their own, a line fitted to points: the guarantees that every recipe has,
// without images.
#include "lab/train/loop.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/train/math/adamw.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using torch::Tensor;

constexpr const char* kKind = "train line";

// Fits y = 3 x - 1 with noise. The figure is minus the squared error of the slope, or a value set by the
// test.
class LineTask : public TrainingTask {
 public:
  LineTask() {
    parameters_["slope"] = torch::zeros({}).requires_grad_(true);
    parameters_["offset"] = torch::zeros({}).requires_grad_(true);
  }

  [[nodiscard]] const TorchMap& parameters() const override { return parameters_; }

  Result<StepLosses> prepare(int64_t step) override {
    prepared_.push_back(step);
    if (step == broken_step) return fail(ErrorCode::kIo, "points of step {}: gone", step);
    KeyedRandom random(7, 1, static_cast<uint64_t>(step));
    Tensor x = torch::empty({8});
    for (int64_t i = 0; i < 8; ++i) x[i] = random.uniform(-1, 1);
    const Tensor y = 3 * x - 1 + (step == nan_step ? std::numeric_limits<float>::quiet_NaN() : 0.F);
    StepLosses losses;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = 8 * part / parts;
      const int64_t last = 8 * (part + 1) / parts;
      losses.emplace_back([this, x = x.slice(0, first, last), y = y.slice(0, first, last)] {
        return (parameters_.at("slope") * x + parameters_.at("offset") - y).pow(2).sum() / 8;
      });
    }
    return losses;
  }

  void after_update() override { parameters_.at("offset").clamp_(-0.5, 0.5); }

  Result<Json> evaluate() override {
    const double slope = parameters_.at("slope").item<double>();
    const size_t which = evaluations_++;
    const double figure = which < figures.size() ? figures[which] : -std::pow(slope - 3, 2);
    return Json{{"slope", slope}, {"held_out", held_out ? Json{{"figure", figure}} : Json()}};
  }

  [[nodiscard]] Result<std::optional<double>> headline(const Json& json) const override {
    if (!held_out) return std::nullopt;
    SACCADE_ASSIGN(const double figure, json_field<double>(json, "figure"));
    return figure;
  }

  [[nodiscard]] Status write_model(const fs::path& folder) const override {
    return write_file_atomic(folder / "slope", fmt::format("{}", parameters_.at("slope").item<float>()));
  }

  [[nodiscard]] const std::vector<int64_t>& prepared() const { return prepared_; }

  bool held_out = true;
  std::vector<double> figures;  // of the first evaluations
  int64_t broken_step = -1;
  int64_t nan_step = -1;
  int64_t parts = 1;  // losses of a step

 private:
  TorchMap parameters_;
  std::vector<int64_t> prepared_;  // by one thread at a time
  size_t evaluations_ = 0;
};

class Loop : public testing::Test {
 protected:
  Loop() {
    options_.run = folder_ / "run";
    options_.steps = 20;
    options_.learning_rate = 0.3;
    options_.evaluate_every = 5;
    options_.checkpoint_every = 5;
  }

  Result<TrainingOutcome> train(LineTask& task, std::stop_token stop = {},
                                const ProgressCallback& progress = {}) const {
    SACCADE_ASSIGN(TrainingFolder folder, TrainingFolder::open(options_.run, kKind, {}, options_.dry_run));
    TrainingLoop loop(task, options_, folder, {{"kind", kKind}, {"line", "3 x - 1"}});
    SACCADE_TRY(loop.begin());
    return loop.run(progress, stop);
  }

  [[nodiscard]] std::vector<Json> metrics() const {
    std::vector<Json> lines;
    std::istringstream text(read_file(options_.run / "metrics.jsonl").value_or(""));
    for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line).value());
    return lines;
  }

  test::TestFolder folder_;
  TrainingLoopOptions options_;
};

TEST_F(Loop, LearnsBoundsAndSaysWhatItDid) {
  LineTask task;
  const auto outcome = train(task);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->finished);
  EXPECT_EQ(outcome->steps, 20);
  EXPECT_NEAR(task.parameters().at("slope").item<double>(), 3, 1);
  EXPECT_GE(task.parameters().at("offset").item<double>(), -0.5);
  std::vector<int64_t> steps(20);
  for (int64_t step = 0; step < 20; ++step) steps[static_cast<size_t>(step)] = step;
  EXPECT_EQ(task.prepared(), steps);  // each once
  const std::vector<Json> lines = metrics();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1]["step"], 10);
  for (const char* key : {"loss", "learning_rate", "slope", "held_out"}) EXPECT_TRUE(lines[1].contains(key));
  const Json description = read_json(options_.run / "run.json").value();
  EXPECT_EQ(description["line"], "3 x - 1");
  EXPECT_EQ(description["steps"], 20);
  EXPECT_EQ(description["learning_rate"], 0.3);
  EXPECT_EQ(description["schedule"], "cosine");
  EXPECT_EQ(description["adam_beta1"], 0.9);
  EXPECT_EQ(description["adam_beta2"], 0.98);
  EXPECT_EQ(description["adam_epsilon"], 1e-6);
}

// The loop's steps are those of an optimizer with the same constants, at a constant rate.
TEST_F(Loop, TheOptimizerHasItsOptions) {
  options_.schedule = RateSchedule::kConstant;
  options_.warmup = 0;
  options_.adam_beta1 = 0.5;
  options_.adam_beta2 = 0.7;
  options_.adam_epsilon = 1e-2;
  LineTask task;
  ASSERT_TRUE(train(task));
  LineTask same;
  AdamW optimizer(same.parameters(),
                  {.beta1 = 0.5, .beta2 = 0.7, .epsilon = 1e-2, .weight_decay = options_.weight_decay});
  for (int64_t step = 0; step < options_.steps; ++step) {
    const StepLosses losses = same.prepare(step).value();
    ASSERT_EQ(losses.size(), 1U);
    losses.front()().backward();
    optimizer.clip_gradients(options_.max_gradient_norm);
    optimizer.step(options_.learning_rate);
    const torch::NoGradGuard no_grad;
    same.after_update();
  }
  for (const auto& [name, parameter] : task.parameters()) {
    EXPECT_TRUE(torch::equal(parameter, same.parameters().at(name))) << name;
  }
  for (const Json& line : metrics()) EXPECT_EQ(line["learning_rate"], 0.3);
  const Json description = read_json(options_.run / "run.json").value();
  EXPECT_EQ(description["schedule"], "constant");
  EXPECT_EQ(description["adam_beta1"], 0.5);
  EXPECT_EQ(description["adam_beta2"], 0.7);
  EXPECT_EQ(description["adam_epsilon"], 1e-2);
}

// A step whose loss comes in parts is the step of their sum.
TEST_F(Loop, TheLossesOfAStepAreSummed) {
  LineTask whole;
  const auto expected = train(whole);
  ASSERT_TRUE(expected) << expected.error().message;
  options_.run = folder_ / "parts";
  LineTask task;
  task.parts = 3;
  const auto outcome = train(task);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_NEAR(outcome->last_loss, expected->last_loss, 1e-4);
  for (const auto& [name, parameter] : task.parameters()) {
    EXPECT_NEAR(parameter.item<double>(), whole.parameters().at(name).item<double>(), 1e-4) << name;
  }
  EXPECT_EQ(read_file(folder_ / "parts/run.json").value(), read_file(folder_ / "run/run.json").value());
}

TEST_F(Loop, AnotherOptimizerIsAnotherTraining) {
  LineTask task;
  ASSERT_TRUE(train(task));
  const std::string state = read_file(options_.run / "state.safetensors").value();
  const TrainingLoopOptions first = options_;
  const auto refusal = [&](auto change) {
    options_ = first;
    change(options_);
    LineTask other;
    const auto refused = train(other);
    EXPECT_FALSE(refused);
    if (refused) return std::string();
    EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
    return refused.error().message;
  };
  EXPECT_THAT(refusal([](auto& o) { o.adam_beta1 = 0.8; }),
              HasSubstr("\"adam_beta1\" is 0.9 there, 0.8 here"));
  EXPECT_THAT(refusal([](auto& o) { o.adam_beta2 = 0.999; }),
              HasSubstr("\"adam_beta2\" is 0.98 there, 0.999 here"));
  EXPECT_THAT(refusal([](auto& o) { o.adam_epsilon = 1e-8; }), HasSubstr("\"adam_epsilon\""));
  EXPECT_THAT(refusal([](auto& o) { o.schedule = RateSchedule::kConstant; }),
              HasSubstr("\"schedule\" is \"cosine\" there, \"constant\" here"));
  EXPECT_EQ(read_file(options_.run / "state.safetensors").value(), state);
}

TEST(LoopOptions, OutOfRangeAreRefusedByName) {
  const auto refusal = [](auto change) {
    TrainingLoopOptions options;
    change(options);
    const Status refused = check_loop_options(options);
    EXPECT_FALSE(refused);
    if (refused) return std::string();
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
    return refused.error().message;
  };
  EXPECT_TRUE(check_loop_options({}));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal([](auto& o) { o.adam_beta1 = 1; }), "Adam's beta1 is 1, expected 0 to below 1");
  EXPECT_EQ(refusal([](auto& o) { o.adam_beta2 = -0.5; }), "Adam's beta2 is -0.5, expected 0 to below 1");
  EXPECT_THAT(refusal([](auto& o) { o.adam_beta2 = kNan; }), HasSubstr("Adam's beta2 is nan"));
  EXPECT_EQ(refusal([](auto& o) { o.adam_epsilon = 0; }), "Adam's epsilon is 0, expected above 0");
  EXPECT_THAT(refusal([](auto& o) { o.warmup = 1.5; }), HasSubstr("warm-up is 1.5, expected 0 to 1"));
  EXPECT_THAT(refusal([](auto& o) { o.max_gradient_norm = 0; }), HasSubstr("gradient norm is 0"));
  EXPECT_EQ(refusal([](auto& o) { o.accumulate = 0; }), "accumulate is 0, expected 1 or more");
  TrainingLoopOptions options;
  options.accumulate = 8;
  EXPECT_TRUE(check_accumulation(options.accumulate, 8));
  const Status refused = check_accumulation(options.accumulate, 7);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_EQ(refused.error().message, "accumulate is 8, expected 1 to 7 (the batch size)");
}

TEST(LoopOptions, ADeviceThatIsNotThereIsRefused) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "this machine has CUDA";
  TrainingLoopOptions options;
  options.device = TrainingDevice::kCuda;
  const Status refused = check_loop_options(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message, "device cuda: this libtorch or machine has none");
}

// Runs of earlier versions name no device; they go on.
TEST(LoopOptions, ARunNamesADeviceThatIsNoProcessor) {
  TrainingLoopOptions options;
  EXPECT_FALSE(describe_training(Json::object(), options).contains("device"));
  options.device = TrainingDevice::kCuda;
  EXPECT_EQ(describe_training(Json::object(), options)["device"], "cuda");
}

TEST_F(Loop, GoesOnExactlyWhereItStopped) {
  LineTask whole;
  ASSERT_TRUE(train(whole));
  const std::string state = read_file(options_.run / "state.safetensors").value();
  const std::string lines = read_file(options_.run / "metrics.jsonl").value();
  for (const int64_t at : {1, 5, 13, 19}) {
    SCOPED_TRACE(at);
    options_.run = folder_ / fmt::format("cut {}", at);
    std::stop_source stop;
    LineTask first;
    const auto cut = train(first, stop.get_token(), [&](const ProgressUpdate& update) {
      if (update.done == at) stop.request_stop();
    });
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_FALSE(cut->finished);
    EXPECT_EQ(cut->steps, at);
    LineTask rest;
    ASSERT_TRUE(train(rest));
    EXPECT_EQ(rest.prepared().front(), at);
    EXPECT_EQ(read_file(options_.run / "metrics.jsonl").value(), lines);
    EXPECT_EQ(read_file(options_.run / "state.safetensors").value(), state);
  }
}

TEST_F(Loop, KeepsTheBestByTheTasksFigure) {
  LineTask task;
  task.figures = {0.1, 0.4, 0.3, 0.2};
  const auto outcome = train(task);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->best_step, 10);
  EXPECT_EQ(outcome->best, (Json{{"figure", 0.4}}));
  EXPECT_EQ(read_file(options_.run / "model/slope").value(),
            fmt::format("{}", metrics()[1]["slope"].get<float>()));

  options_.run = folder_ / "newest";  // without held-out data
  LineTask newest;
  newest.held_out = false;
  const auto last = train(newest);
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->best_step, 20);
}

TEST_F(Loop, EndsWhereItsPatienceDoes) {
  options_.patience = 2;
  options_.evaluate_every = 2;
  options_.checkpoint_every = 100;
  LineTask task;
  task.figures = {0.1, 0.4, 0.3, 0.5, 0.2, 0.3, 0.9};
  const auto outcome = train(task);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(outcome->finished);
  EXPECT_EQ(outcome->steps, 12);
  EXPECT_EQ(outcome->best_step, 8);
  EXPECT_EQ(metrics().size(), 6U);

  LineTask again;  // which is over
  const auto same = train(again);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(same->finished);
  EXPECT_EQ(same->steps, 12);
  EXPECT_EQ(same->best, (Json{{"figure", 0.5}}));
  EXPECT_TRUE(again.prepared().empty());
}

TEST_F(Loop, WhatCameOfItIsNoDifference) {
  LineTask task;
  ASSERT_TRUE(train(task));
  {
    auto folder = TrainingFolder::open(options_.run, kKind, {}, false);
    ASSERT_TRUE(folder);
    ASSERT_TRUE(folder->conclude({{"words", "well"}}));
  }
  EXPECT_EQ(read_json(options_.run / "run.json").value()["outcome"]["words"], "well");
  LineTask again;
  const auto same = train(again);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(read_json(options_.run / "run.json").value()["outcome"]["words"], "well");
}

TEST_F(Loop, AFailedStepEndsItAndSpoilsNothing) {
  LineTask broken;
  broken.broken_step = 7;
  const auto gone = train(broken);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kIo);
  EXPECT_THAT(gone.error().message, HasSubstr("points of step 7"));

  LineTask not_a_number;
  not_a_number.nan_step = 12;
  const auto nan = train(not_a_number);
  ASSERT_FALSE(nan);
  EXPECT_EQ(nan.error().code, ErrorCode::kInternal);
  EXPECT_THAT(nan.error().message, HasSubstr("the loss is nan at step 12"));

  // The state saved before can be resumed.
  LineTask whole;
  ASSERT_TRUE(train(whole));
  EXPECT_EQ(whole.prepared().front(), 10);
}

TEST_F(Loop, ADryRunWritesNothingAndComparesAllTheSame) {
  options_.dry_run = true;
  LineTask task;
  {
    auto folder = TrainingFolder::open(options_.run, kKind, {}, true);
    ASSERT_TRUE(folder);
    TrainingLoop loop(task, options_, *folder, {{"kind", kKind}, {"line", "3 x - 1"}});
    EXPECT_TRUE(loop.begin());
    EXPECT_FALSE(fs::exists(options_.run));
  }
  options_.dry_run = false;
  ASSERT_TRUE(train(task));
  options_.dry_run = true;
  options_.weight_decay = 0.5;
  auto folder = TrainingFolder::open(options_.run, kKind, {}, true);
  ASSERT_TRUE(folder);
  TrainingLoop loop(task, options_, *folder, {{"kind", kKind}, {"line", "3 x - 1"}});
  const Status refused = loop.begin();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("\"weight_decay\" is 0.1 there, 0.5 here"));
}

}  // namespace
}  // namespace saccade::lab
