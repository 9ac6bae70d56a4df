// Tests of training from another checkpoint's weights. They are used unchanged, and only if they have the
// same meaning.
#include <string>

#include <gtest/gtest.h>

#include "lab/train/math/test_shapes.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::read;
using test::SmallData;
using test::train;

class InitialWeights : public testing::Test {
 protected:
  InitialWeights() : checkpoint_(train(data_.options("first")).model) {}

  // A training that begins with the first one's weights.
  [[nodiscard]] DualTrainingOptions options(const std::string& run) const {
    DualTrainingOptions options = data_.options(run);
    options.initial = checkpoint_;
    options.seed = 2;
    return options;
  }
  void expect_refused(const DualTrainingOptions& options, ErrorCode code, const std::string& part) const {
    const auto report = train_dual(options, {}, {});
    ASSERT_FALSE(report) << part;
    EXPECT_EQ(report.error().code, code) << report.error().message;
    EXPECT_NE(report.error().message.find(part), std::string::npos) << report.error().message;
    EXPECT_FALSE(fs::exists(options.run));
  }
  void replace_in(const fs::path& file, const std::string& from, const std::string& to) const {
    std::string text = read(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << file << " without " << from;
    data_.folder().write(file, text.replace(at, from.size(), to));
  }

  SmallData data_;
  fs::path checkpoint_;
};

TEST_F(InitialWeights, AreTakenBitForBit) {
  DualTrainingOptions untouched = options("untouched");
  untouched.steps = 0;
  const DualTrainingReport report = train(untouched);
  EXPECT_EQ(read(report.model / "model.safetensors"), read(checkpoint_ / "model.safetensors"));
  // Weights in 16 bits are widened.
  untouched.run = data_.folder() / "half";
  untouched.weights = WeightsFormat::kFp16;
  const fs::path half = train(untouched).model;
  untouched.initial = half;
  untouched.run = data_.folder() / "half again";
  EXPECT_EQ(read(train(untouched).model / "model.safetensors"), read(half / "model.safetensors"));
}

TEST_F(InitialWeights, GoOnBetterThanRandomOnes) {
  DualTrainingOptions random = options("random");
  random.initial.clear();
  EXPECT_LT(train(options("warm")).last_loss, train(random).last_loss);
}

// The weights are part of the run's identity. State from other weights does not resume here.
TEST_F(InitialWeights, ArePartOfTheRun) {
  train(options("run"));
  DualTrainingOptions other = options("run");
  DualTrainingOptions second = options("second");
  other.initial = train(second).model;
  const auto refused = train_dual(other, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
  EXPECT_NE(refused.error().message.find("\"initial_weights_sha256\" is \""), std::string::npos)
      << refused.error().message;
}

// This also holds before there is any state: the first steps must not be those of another training.
TEST_F(InitialWeights, AreNotForgottenWhenATrainingGoesOn) {
  for (const bool forgotten : {true, false}) {
    DualTrainingOptions with = options(forgotten ? "with" : "without");
    DualTrainingOptions without = with;
    without.initial.clear();
    train(forgotten ? with : without);
    fs::remove(with.run / "state.safetensors");
    const auto refused = train_dual(forgotten ? without : with, {}, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
    EXPECT_NE(refused.error().message.find(forgotten ? "there, null here" : "is null there"),
              std::string::npos)
        << refused.error().message;
  }
}

TEST_F(InitialWeights, OfAnotherMeaningAreRefused) {
  const auto copy = [&](const std::string& name) {
    const fs::path folder = data_.folder() / name;
    fs::copy(checkpoint_, folder, fs::copy_options::recursive);
    DualTrainingOptions changed = options("refused " + name);
    changed.initial = folder;
    return changed;
  };
  DualTrainingOptions changed = options("refused");
  changed.initial = data_.folder() / "nowhere";
  expect_refused(changed, ErrorCode::kNotFound, "nowhere");

  changed = copy("activation");
  replace_in(changed.initial / "config.json", "\"gelu\"", "\"quick_gelu\"");
  expect_refused(changed, ErrorCode::kMismatch, "hidden_act is \"quick_gelu\"");

  changed = copy("letters");
  replace_in(changed.initial / "vocab.json", "\"a\"", "\"\xc3\xa4\"");
  expect_refused(changed, ErrorCode::kMismatch, "its vocab.json is not the one");

  changed = copy("narrow");
  replace_in(data_.folder() / "arch.json", "\"projection_dim\": 16", "\"projection_dim\": 8");
  expect_refused(changed, ErrorCode::kMismatch, "projection_dim is 16, the config of this training has 8");
  replace_in(data_.folder() / "arch.json", "\"projection_dim\": 8", "\"projection_dim\": 16");

  // The config does not match the weights.
  changed = copy("cut");
  const std::string weights = read(changed.initial / "model.safetensors");
  data_.folder().write(changed.initial / "model.safetensors", weights.substr(0, weights.size() / 2));
  expect_refused(changed, ErrorCode::kBadData, "model.safetensors");
  changed = copy("renamed");
  replace_in(changed.initial / "model.safetensors", "visual_projection.weight", "visual_projection.weighs");
  expect_refused(changed, ErrorCode::kMismatch, "no tensor visual_projection.weight");
}

}  // namespace
}  // namespace saccade::lab
