// Tests ten training steps against PyTorch: model, objective, clipping, optimizer and schedule together, as
// tools/reference/training_curve.py ran them.
#include <cmath>
#include <filesystem>
#include <optional>

#include <gtest/gtest.h>

#include "lab/train/math/adamw.h"
#include "lab/train/math/objective.h"
#include "lab/train/math/schedule.h"
#include "lab/train/math/variable.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden" / name;
}

// Returns the largest difference relative to the reference's largest value. A NaN makes it NaN, and every
// comparison with it false.
double relative_difference(const Tensor& ours, const Tensor& reference) {
  const Tensor a = ours.detach().to(at::kDouble);
  const Tensor b = reference.to(at::kDouble);
  EXPECT_EQ(a.sizes(), b.sizes());
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

struct Curve {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  TorchMap first_gradients;
  TorchMap parameters;  // after the last step
};

// A training from clip-gelu's weights over the file's batches.
class TrainingCurve : public testing::Test {
 protected:
  void SetUp() override {
    auto file = SafeTensors::open(golden("training") / "io.safetensors");
    ASSERT_TRUE(file) << file.error().message;
    file_.emplace(std::move(*file));
    io_ = torch_tensors(*file_).value();
    auto weights = SafeTensors::open(golden("clip-gelu") / "model.safetensors");
    ASSERT_TRUE(weights) << weights.error().message;
    weights_.emplace(std::move(*weights));
    schedule_ = {.peak = constant("peak"), .warmup = constant("warmup"), .steps = io_.at("losses").size(0)};
    adamw_.beta1 = constant("beta1");
    adamw_.beta2 = constant("beta2");
    adamw_.epsilon = constant("epsilon");
    adamw_.weight_decay = constant("weight_decay");
  }

  [[nodiscard]] double constant(const char* name) const { return std::stod(file_->metadata().at(name)); }
  [[nodiscard]] double value(const char* name, int64_t step) const {
    return io_.at(name)[step].item<double>();
  }

  [[nodiscard]] Curve train() const {
    const Json config = read_json(golden("clip-gelu") / "config.json").value();
    InitializedParameters source(1);
    const auto model = TrainedClip::make(clip_config_from_hugging_face(config).value(), source);
    EXPECT_TRUE(model) << model.error().message;
    const TorchMap golden_weights = torch_tensors(*weights_).value();
    EXPECT_EQ(source.parameters().size(), golden_weights.size());
    {
      const torch::NoGradGuard no_grad;
      for (auto [name, parameter] : source.parameters()) parameter.copy_(golden_weights.at(name));
    }

    AdamW optimizer(source.parameters(), adamw_);
    Curve curve;
    for (int64_t step = 0; step < schedule_.steps; ++step) {
      const int64_t batch = step % io_.at("input_ids").size(0);
      const Tensor pixels = (io_.at("pixel_bytes")[batch].to(at::kFloat) - 128) / 64;
      const Tensor images = normalize_rows(clip_images(*model, pixels, at::kFloat));
      const Tensor texts = normalize_rows(clip_texts(*model, io_.at("input_ids")[batch], at::kFloat));
      const Tensor loss = info_nce(images, texts, model->logit_scale().tensor());
      loss.backward();
      if (step == 0) {
        for (const auto& [name, parameter] : source.parameters()) {
          curve.first_gradients[name] = parameter.grad().clone();
        }
      }
      curve.losses.push_back(loss.item<double>());
      curve.gradient_norms.push_back(optimizer.clip_gradients(constant("max_gradient_norm")));
      optimizer.step(schedule_.at(step));
    }
    curve.parameters = source.parameters();
    return curve;
  }

  std::optional<SafeTensors> file_;
  std::optional<SafeTensors> weights_;
  TorchMap io_;
  LearningRateSchedule schedule_;
  AdamWOptions adamw_;
};

TEST_F(TrainingCurve, TenStepsAreTheReferences) {
  ASSERT_EQ(schedule_.steps, 10);
  const Curve curve = train();
  for (int64_t step = 0; step < schedule_.steps; ++step) {
    const auto i = static_cast<size_t>(step);
    EXPECT_NEAR(schedule_.at(step), value("learning_rates", step), 1e-12) << "step " << step;
    EXPECT_NEAR(curve.losses[i] / value("losses", step), 1, 1e-5) << "step " << step;
    EXPECT_NEAR(curve.gradient_norms[i] / value("gradient_norms", step), 1, 1e-4) << "step " << step;
  }
  size_t gradients = 0;
  size_t finals = 0;
  for (const auto& [name, reference] : io_) {
    if (name.starts_with("gradient.")) {
      ++gradients;
      EXPECT_LT(relative_difference(curve.first_gradients.at(name.substr(9)), reference), 3e-5) << name;
    } else if (name.starts_with("final.")) {
      ++finals;
      EXPECT_LT(relative_difference(curve.parameters.at(name.substr(6)), reference), 1e-4) << name;
    }
  }
  EXPECT_EQ(gradients, 11U);
  EXPECT_EQ(finals, 11U);
}

// Checks the sensitivity of the comparison above: each of these errors moves the loss by ten times the
// tolerance.
TEST_F(TrainingCurve, NoticesSlips) {
  const auto last_loss_off_by = [&] {
    const int64_t last = schedule_.steps - 1;
    return std::abs(train().losses.back() / value("losses", last) - 1);
  };
  const AdamWOptions right = adamw_;
  adamw_.beta2 = 0.999;
  EXPECT_GT(last_loss_off_by(), 1e-4);
  adamw_ = right;
  adamw_.weight_decay = 0;
  EXPECT_GT(last_loss_off_by(), 1e-4);
  adamw_ = right;
  schedule_.warmup = 0.2;
  EXPECT_GT(last_loss_off_by(), 1e-4);
}

TEST(LearningRateSchedule, RisesToThePeakAndFallsToZeroOrStays) {
  const LearningRateSchedule schedule{.peak = 2, .warmup = 0.1, .steps = 100};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(9), 2);
  EXPECT_DOUBLE_EQ(schedule.at(10), 2);
  EXPECT_DOUBLE_EQ(schedule.at(55), 1);
  for (int64_t step = 11; step < 100; ++step) EXPECT_LT(schedule.at(step), schedule.at(step - 1));
  EXPECT_GT(schedule.at(99), 0);
  EXPECT_NEAR(schedule.at(100), 0, 1e-12);
  const LearningRateSchedule constant{
      .peak = 2, .warmup = 0.1, .steps = 100, .shape = RateSchedule::kConstant};
  for (int64_t step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(constant.at(step), schedule.at(step));
  for (int64_t step = 10; step < 100; ++step) EXPECT_DOUBLE_EQ(constant.at(step), 2);
  // Without warm-up, and with a training of one step, the rate is still above 0.
  EXPECT_DOUBLE_EQ((LearningRateSchedule{.peak = 2, .warmup = 0, .steps = 10}.at(0)), 2);
  EXPECT_DOUBLE_EQ((LearningRateSchedule{.peak = 2, .warmup = 1, .steps = 1}.at(0)), 2);
}

}  // namespace
}  // namespace saccade::lab
