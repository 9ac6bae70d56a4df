#include "saccade/model/composers/compose_embeddings.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

const std::vector<float> kX = {1, 0, 0};
const std::vector<float> kY = {0, 1, 0};
const std::vector<float> kZ = {0, 0, 1};
const std::vector<float> kMinusX = {-1, 0, 0};

std::vector<float> composed(Compose method, double weight, const std::vector<float>& picture,
                            const std::vector<float>& text, const std::vector<float>& was = kZ) {
  const auto row = compose_rows(method, compose_weights(method, weight), picture, text, was);
  EXPECT_TRUE(row) << row.error().message;
  return row.value_or(std::vector<float>());
}

auto near(float value) {
  return FloatNear(value, 1e-6F);
}

TEST(Compose, Sum) {
  const auto half = static_cast<float>(std::sqrt(0.5));
  EXPECT_THAT(composed(Compose::kSum, 0.5, kX, kY), ElementsAre(near(half), near(half), near(0)));
  EXPECT_THAT(composed(Compose::kSum, 0, kX, kY), ElementsAre(near(1), near(0), near(0)));
  EXPECT_THAT(composed(Compose::kSum, 1, kX, kY), ElementsAre(near(0), near(1), near(0)));
  // Weights: 0.75 for the text, 0.25 for the image.
  const auto root = static_cast<float>(std::sqrt(10.0));
  EXPECT_THAT(composed(Compose::kSum, 0.75, kX, kY), ElementsAre(near(1 / root), near(3 / root), near(0)));
  // A weight of one half gives the default weights.
  EXPECT_EQ(compose_weights(Compose::kSum, 0.5).picture, ComposeWeights().picture);
  EXPECT_EQ(compose_weights(Compose::kSum, 0.5).text, ComposeWeights().text);
}

TEST(Compose, SlerpGoesAtAnEvenPace) {
  for (const double share : {0.0, 0.25, 1.0 / 3, 0.5, 0.9, 1.0}) {
    const auto row = composed(Compose::kSlerp, share, kX, kY);
    const double angle = share * std::acos(-1.0) / 2;
    EXPECT_THAT(row, ElementsAre(near(static_cast<float>(std::cos(angle))),
                                 near(static_cast<float>(std::sin(angle))), near(0)));
  }
  // Between equal rows there is only one direction.
  EXPECT_THAT(composed(Compose::kSlerp, 0.3, kX, kX), ElementsAre(near(1), near(0), near(0)));
}

TEST(Compose, Direction) {
  // x + 2 (y - z), brought to length 1.
  EXPECT_THAT(composed(Compose::kDirection, 2, kX, kY, kZ),
              ElementsAre(near(1.0F / 3), near(2.0F / 3), near(-2.0F / 3)));
  // The text equals the description, so the image's embedding is unchanged.
  EXPECT_THAT(composed(Compose::kDirection, 1, kX, kY, kY), ElementsAre(near(1), near(0), near(0)));
}

TEST(Compose, SaysWhatCannotBe) {
  const auto error = [](Compose method, ComposeWeights weights, const std::vector<float>& text) {
    const auto row = compose_rows(method, weights, kX, text, kZ);
    EXPECT_FALSE(row);
    return row ? std::string() : row.error().message;
  };
  EXPECT_THAT(error(Compose::kSum, {}, kMinusX), HasSubstr("cancel out"));
  EXPECT_THAT(error(Compose::kSlerp, {}, kMinusX), HasSubstr("opposite"));
  EXPECT_THAT(error(Compose::kSlerp, {.picture = 2, .text = -1}, kY), HasSubstr("neither can be negative"));
  EXPECT_THAT(error(Compose::kSum, {.picture = std::numeric_limits<double>::infinity(), .text = 1}, kY),
              HasSubstr("expected finite numbers"));
}

}  // namespace
}  // namespace saccade
