// Tests of gradient accumulation: the gradients of a batch in parts are those of the whole batch.
#include "lab/train/math/micro_batches.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "lab/train/math/objective.h"
#include "lab/train/math/variable.h"

namespace saccade::lab {
namespace {

using torch::Tensor;

double max_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(MicroBatches, AreEvenAndNeverEmpty) {
  for (const int64_t count : {0, 1, 5, 8, 17}) {
    for (const int64_t parts : {1, 2, 3, 8, 20}) {
      SCOPED_TRACE(std::to_string(count) + " in " + std::to_string(parts));
      const std::vector<MicroBatch> all = micro_batches(count, parts);
      EXPECT_EQ(std::ssize(all), std::min(count, parts));
      int64_t next = 0;
      for (const MicroBatch& one : all) {
        EXPECT_EQ(one.first, next);
        EXPECT_GE(one.size(), std::max<int64_t>(1, count / parts));
        EXPECT_LE(one.size(), count / parts + 1);
        next = one.last;
      }
      EXPECT_EQ(next, count);
    }
  }
}

// CLIP's symmetric loss over seven pairs. Negatives of a micro-batch alone would give another loss.
TEST(MicroBatches, AContrastiveLossHasTheWholeBatchsGradients) {
  ClipConfig config;
  config.vision = {.width = 24, .layers = 2, .heads = 3, .mlp_width = 40};
  config.text = {.width = 16, .layers = 2, .heads = 2, .mlp_width = 32};
  config.image_size = 32;
  config.patch_size = 8;
  config.vocabulary = 50;
  config.positions = 12;
  config.projection = 10;
  constexpr int64_t kPairs = 7;
  torch::manual_seed(6);
  const Tensor pixels = torch::randn({kPairs, 3, 32, 32});
  const Tensor ids = torch::randint(50, {kPairs, 9}, at::kLong);
  struct Outcome {
    double loss = 0;
    int64_t largest = 0;  // most images encoded at a time
    TorchMap parameters;
  };
  const auto run = [&](int64_t parts, bool checkpointed) {
    InitializedParameters source(3);
    TrainedClip model = TrainedClip::make(config, source).value();
    if (checkpointed) model.checkpoint_activations();
    Outcome outcome;
    const Tensor images = encode_in_micro_batches(kPairs, parts, [&](MicroBatch rows) {
      outcome.largest = std::max(outcome.largest, rows.size());
      return normalize_rows(clip_images(model, pixels.slice(0, rows.first, rows.last), at::kFloat));
    });
    const Tensor texts = encode_in_micro_batches(kPairs, parts, [&](MicroBatch rows) {
      return normalize_rows(clip_texts(model, ids.slice(0, rows.first, rows.last), at::kFloat));
    });
    const Tensor loss = info_nce(images, texts, model.logit_scale().tensor());
    loss.backward();
    outcome.loss = loss.item<double>();
    outcome.parameters = source.parameters();
    return outcome;
  };
  const Outcome whole = run(1, false);
  EXPECT_EQ(whole.largest, kPairs);
  for (const char* name : {"logit_scale", "visual_projection.weight", "text_projection.weight"}) {
    EXPECT_GT(whole.parameters.at(name).grad().abs().max().item<double>(), 1e-3) << name;
  }
  for (const int64_t parts : {2, 3, 7}) {
    for (const bool checkpointed : {false, true}) {
      SCOPED_TRACE(std::to_string(parts) + (checkpointed ? " parts, checkpointed" : " parts"));
      const Outcome split = run(parts, checkpointed);
      EXPECT_LE(split.largest, kPairs / parts + 1);
      EXPECT_NEAR(split.loss, whole.loss, 1e-5);
      for (const auto& [name, parameter] : whole.parameters) {
        const Tensor& other = split.parameters.at(name);
        ASSERT_TRUE(parameter.grad().defined()) << name;
        ASSERT_TRUE(other.grad().defined()) << name;
        const double largest = parameter.grad().abs().max().item<double>();
        EXPECT_LT(max_difference(other.grad(), parameter.grad()), 1e-5 * std::max(1.0, largest)) << name;
      }
    }
  }
}

TEST(MicroBatches, WithoutGradientsAllIsEncodedAtOnce) {
  const torch::NoGradGuard no_grad;
  int calls = 0;
  const Tensor rows = encode_in_micro_batches(6, 3, [&](MicroBatch part) {
    ++calls;
    return torch::full({part.size(), 2}, static_cast<double>(part.first));
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(rows.size(0), 6);
}

}  // namespace
}  // namespace saccade::lab
