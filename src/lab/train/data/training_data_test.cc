// Tests of batches: the choice of captions, the positives, and augmentation.
#include "lab/train/data/training_data.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lab/train/math/test_shapes.h"

namespace saccade::lab {
namespace {

// 16 names of two captions each; every name has two images. A batch is an epoch.
class Batches : public testing::Test {
 protected:
  struct Caption {
    std::string name;  // the item's name
    size_t which = 0;  // of the two
  };

  void SetUp() override {
    options_.batch = 32;
    auto loaded = load_training_setup(options_);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const Status pictures = load_pictures(options_, *loaded, pool_, {}, {});
    ASSERT_TRUE(pictures) << pictures.error().message;
    setup_ = std::move(*loaded);
    for (size_t item = 0; item < setup_.items.size(); ++item) {
      for (size_t which = 0; which < setup_.captions[item].size(); ++which) {
        captions_[setup_.captions[item][which].ids] = {setup_.items[item].captions[0], which};
      }
    }
    ASSERT_EQ(captions_.size(), 32U);
  }

  [[nodiscard]] TrainingBatch batch(int64_t step) { return make_batch(setup_, options_, step, pool_); }

  // Returns the batch's texts, in its order.
  [[nodiscard]] std::vector<Caption> drawn(const TrainingBatch& batch) const {
    std::vector<Caption> texts;
    for (int64_t i = 0; i < batch.ids.size(0); ++i) {
      const int64_t* ids = batch.ids[i].data_ptr<int64_t>();
      texts.push_back(captions_.at({ids, ids + batch.lengths[static_cast<size_t>(i)]}));
    }
    return texts;
  }

  test::SmallData data_;
  DualTrainingOptions options_ = data_.options("run");
  ThreadPool pool_{1};
  TrainingSetup setup_;
  std::map<std::vector<int32_t>, Caption> captions_;
};

TEST_F(Batches, CaptionsEqualToOneOfAPicturesAreItsPositives) {
  bool drawn_otherwise = false;  // shared captions count even if they were not drawn
  for (int64_t step = 0; step < 4; ++step) {
    const TrainingBatch batch = this->batch(step);
    const std::vector<Caption> texts = drawn(batch);
    ASSERT_EQ(texts.size(), 32U);
    EXPECT_TRUE(std::is_sorted(batch.lengths.begin(), batch.lengths.end()));
    const auto positives = batch.positives.accessor<bool, 2>();
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t j = 0; j < texts.size(); ++j) {
        const bool same = texts[i].name == texts[j].name;
        EXPECT_EQ(positives[static_cast<int64_t>(i)][static_cast<int64_t>(j)], same)
            << texts[i].name << ", " << texts[j].name;
        drawn_otherwise = drawn_otherwise || (same && texts[i].which != texts[j].which);
      }
    }
    EXPECT_EQ(batch.positives.sum().item<int64_t>(), 2 * 32);
  }
  EXPECT_TRUE(drawn_otherwise);
}

TEST_F(Batches, CaptionsAreSampledAmongEachPictures) {
  // Shares of the first caption: its own probability, plus half of the rest.
  constexpr std::pair<double, double> kShares[] = {{1.0, 1.0}, {0.0, 0.5}, {0.4, 0.7}};
  for (const auto& [first_caption, share] : kShares) {
    options_.first_caption = first_caption;
    int64_t first = 0;
    constexpr int64_t kSteps = 40;
    for (int64_t step = 0; step < kSteps; ++step) {
      for (const Caption& caption : drawn(batch(step))) first += caption.which == 0 ? 1 : 0;
    }
    // The tolerance is at most four standard deviations of 1280 draws.
    EXPECT_NEAR(static_cast<double>(first) / (kSteps * 32), share, first_caption == 1 ? 0 : 0.056);
  }
}

TEST_F(Batches, PicturesAreNeverTheSameTwice) {
  std::set<std::vector<float>> seen;
  for (int64_t step = 0; step < 2; ++step) {
    const TrainingBatch batch = this->batch(step);
    for (int64_t i = 0; i < 32; ++i) {
      const float* pixels = batch.pixels[i].data_ptr<float>();
      seen.emplace(pixels, pixels + batch.pixels[i].numel());
    }
  }
  EXPECT_EQ(seen.size(), 64U);
}

}  // namespace
}  // namespace saccade::lab
