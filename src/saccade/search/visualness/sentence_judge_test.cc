#include "saccade/search/visualness/sentence_judge.h"

#include <cmath>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"
#include "saccade/model/test_encoder.h"
#include "saccade/model/visualness.h"

namespace saccade {
namespace {

using testing::HasSubstr;

class Judging : public testing::Test {
 protected:
  Judging() {
    own_.encoder = std::make_unique<ColourEncoder>();
    own_.id = {.name = "colours", .path = folder_.path().string(), .fingerprint = "single"};
    options_.own = &own_;
  }
  Result<SentenceJudge> judge() { return sentence_judge(options_, {}, {}); }

  test::TestFolder folder_;
  LoadedEncoder own_;
  JudgeOptions options_;
};

TEST_F(Judging, VisualnessIsTheDistanceFromTheNullPicture) {
  const std::vector<float> null_row = {1, 0, 0, 0};
  std::vector<std::string> texts(130, "r");
  texts[0] = "g";
  texts[129] = "rrrrrrrrrrrrrrrrrrrrrrr";
  int64_t cut = 0;
  const auto scores = visualness_of(*own_.encoder, null_row, texts, cut);
  ASSERT_TRUE(scores) << scores.error().message;
  ASSERT_EQ(scores->size(), 130U);
  EXPECT_NEAR((*scores)[0], 1, 1e-6);
  EXPECT_NEAR((*scores)[64], 1 - 1 / std::sqrt(1.25), 1e-6);
  EXPECT_LT((*scores)[129], 0.01);
  EXPECT_EQ(cut, 1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(visualness_of(*own_.encoder, null_row, texts, cut, {}, stop.get_token()).error().code,
            ErrorCode::kCancelled);
}

TEST_F(Judging, TakesTheBestThatIsAtHand) {
  // An encoder that was not trained for it: the program's words.
  auto words = judge();
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->method, "everyday_words");
  EXPECT_EQ(words->threshold, kObjectsThreshold);
  EXPECT_FALSE(words->threshold_given);
  int64_t cut = 0;
  const std::vector<std::string> texts = {"a cat on the table", "nobody is liable"};
  const auto scores = words->scores(texts, cut);
  ASSERT_TRUE(scores);
  EXPECT_GT((*scores)[0], words->threshold);
  EXPECT_LT((*scores)[1], words->threshold);

  // One that was.
  const std::vector<float> null_row = {0, 1, 0, 0};
  ASSERT_TRUE(write_kept_visualness(folder_.path(), "single",
                                    {.null_picture = {{"kind", "grey"}},
                                     .null_row = null_row,
                                     .threshold = 0.6,
                                     .measured = Json::object()}));
  auto trained = judge();
  ASSERT_TRUE(trained) << trained.error().message;
  EXPECT_EQ(trained->method, "checkpoint");
  EXPECT_EQ(trained->name, "colours");
  EXPECT_EQ(trained->threshold, 0.6);
  const std::vector<std::string> colours = {"r", "g"};
  EXPECT_GT((*trained->scores(colours, cut))[0], (*trained->scores(colours, cut))[1]);
  options_.threshold = 0.7;
  EXPECT_EQ(judge()->threshold, 0.7);
  EXPECT_TRUE(judge()->threshold_given);
}

TEST_F(Judging, AnotherEncoderIsTakenAsItIsWithAThresholdAlone) {
  LoadedEncoder other;
  other.encoder = std::make_unique<ColourEncoder>();
  other.id = {.name = "other", .path = (folder_.path() / "other").string(), .fingerprint = "single"};
  options_.other = &other;
  const auto refused = judge();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_THAT(refused.error().message, HasSubstr("not trained to tell"));
  options_.threshold = 0.2;
  const auto taken = judge();
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->method, "null_image");
  options_.other = nullptr;
  options_.lexicon = folder_.path() / "nowhere.txt";
  EXPECT_THAT(judge().error().message, HasSubstr("--lexicon"));
}

}  // namespace
}  // namespace saccade
