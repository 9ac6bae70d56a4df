#include "lab/data/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/audit_images.h"
#include "lab/data/read_dataset.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;

// Returns an image of soft blobs determined by `seed`; `noise` changes single pixels a little.
Image picture(int seed, int noise, int side = 64) {
  Image image{.width = side, .height = side, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const int value =
          ((x * (3 + seed * 5) * 64 / side / 8) ^ (y * (7 + seed * 3) * 64 / side / 8)) % 29 * 8;
      for (int c = 0; c < 3; ++c) {
        image.pixels.push_back(static_cast<uint8_t>(value + (noise > 0 ? (x * 31 + y * 17 + c) % noise : 0)));
      }
    }
  }
  return image;
}

class Audit : public testing::Test {
 protected:
  Audit() {
    for (int i = 0; i < 6; ++i) folder_.write(fmt::format("{}.png", i), encode_png(picture(i, 0)).value());
    folder_.write("copy0.png", encode_png(picture(0, 0)).value());
    folder_.write("near1.png", encode_png(picture(1, 4)).value());
    folder_.write("broken.png", "no picture");
  }

  Result<AuditReport> audit(const std::vector<std::string>& manifests, const AuditOptions& options = {}) {
    std::vector<Dataset> datasets;
    for (size_t i = 0; i < manifests.size(); ++i) {
      auto dataset = read_dataset(folder_.write(fmt::format("set{}.jsonl", i), manifests[i]));
      EXPECT_TRUE(dataset) << dataset.error().message;
      datasets.push_back(*std::move(dataset));
    }
    ThreadPool pool(2);
    return audit_datasets(datasets, options, pool, {}, {});
  }

  test::TestFolder folder_;
};

TEST_F(Audit, FindsDuplicatesLeaksAndMissingFiles) {
  const auto report =
      audit({R"({"image": "0.png", "captions": ["A dog.", "a dog"], "split": "train", "group": "g"}
{"image": "1.png", "captions": ["a cat"], "split": "train"}
{"image": "2.png", "captions": ["a cow"], "split": "train"}
{"image": "copy0.png", "captions": ["A  dog!"], "split": "test", "group": "g"}
{"image": "near1.png", "captions": ["a lion"], "split": "test"}
{"image": "3.png", "captions": ["a horse"], "split": "test"}
{"image": "gone.png", "captions": ["nothing"], "split": "test"}
{"image": "broken.png", "captions": ["nothing more"], "split": "val"}
)"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->items, 8);
  EXPECT_EQ(report->images, 8);
  ASSERT_EQ(report->missing.size(), 1U);
  EXPECT_NE(report->missing[0].image.find("gone.png"), std::string::npos);
  ASSERT_EQ(report->unreadable.size(), 1U);
  EXPECT_NE(report->unreadable[0].image.find("broken.png"), std::string::npos);
  ASSERT_EQ(report->same_images.size(), 1U);
  EXPECT_THAT(report->same_images[0], ElementsAre("0.png", "copy0.png"));
  ASSERT_EQ(report->near_images.size(), 1U);
  EXPECT_EQ(report->near_images[0].a + "," + report->near_images[0].b, "1.png,near1.png");

  EXPECT_EQ(report->captions, 9);
  EXPECT_EQ(report->distinct_captions, 9);
  EXPECT_EQ(report->distinct_plain_captions, 7);
  EXPECT_EQ(report->repeated_in_item, 1);
  EXPECT_EQ(report->ambiguous_captions, 1);
  ASSERT_EQ(report->most_shared.size(), 1U);
  EXPECT_EQ(report->most_shared[0].items, 2);

  ASSERT_EQ(report->leaks.size(), 1U);
  const AuditReport::Leak& leak = report->leaks[0];
  EXPECT_EQ(leak.a + " " + leak.b, "test train");
  EXPECT_EQ(leak.same_images_a, 1);
  EXPECT_EQ(leak.same_images_b, 1);
  EXPECT_EQ(leak.near_images_a, 1);
  EXPECT_EQ(leak.near_images_b, 1);
  EXPECT_EQ(leak.captions_a, 1);
  EXPECT_EQ(leak.captions_b, 2);
  EXPECT_EQ(leak.groups, 1);
  EXPECT_THAT(leak.examples, ElementsAre("copy0.png = 0.png", "near1.png = 1.png"));
  EXPECT_EQ(report->characters.max, 12);
  EXPECT_FALSE(report->tokens);
}

TEST_F(Audit, LooksAtRatedTexts) {
  const auto report =
      audit({R"({"text": "A red barn.", "visual": true, "image": "0.png", "split": "train", "group": "g"}
{"text": "a red barn", "visual": false, "split": "test", "group": "g"}
{"text": "no warranty", "visual": false, "split": "test", "image": "copy0.png"}
{"text": "one day", "visual": null, "split": "test"}
)"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->items, 4);
  EXPECT_EQ(report->images, 2);
  EXPECT_EQ(report->captions, 4);
  EXPECT_EQ(report->contradicting_labels, 1);
  ASSERT_EQ(report->leaks.size(), 1U);
  EXPECT_EQ(report->leaks[0].groups, 1);
  EXPECT_EQ(report->leaks[0].captions_a, 1);
  EXPECT_EQ(report->leaks[0].same_images_a, 1);
}

TEST_F(Audit, SeveralDatasetsAreSplitsOfOne) {
  const auto report =
      audit({R"({"image": "0.png", "captions": ["x"]})", R"({"image": "0.png", "captions": ["y"]}
{"image": "2.png", "captions": ["z"]})"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 2);
  ASSERT_EQ(report->leaks.size(), 1U);
  EXPECT_EQ(report->leaks[0].a + " " + report->leaks[0].b, "set0 set1");
  EXPECT_EQ(report->leaks[0].same_images_a, 1);
  EXPECT_EQ(report->leaks[0].same_images_b, 1);
}

TEST_F(Audit, ComparesAnEncodersRowsWhereThereIsOne) {
  AuditOptions options;
  options.preprocessing.resize_height = options.preprocessing.resize_width = 4;
  options.preprocessing.crop_height = options.preprocessing.crop_width = 4;
  // An encoder that distinguishes images by one pixel only.
  options.encode = [](MatrixView<const float> pixels) -> Result<Matrix<float>> {
    Matrix<float> rows(pixels.rows(), 2);
    for (int64_t i = 0; i < rows.rows(); ++i) rows(i, i % 2) = 1;
    return rows;
  };
  const std::string manifest = R"({"image": "0.png"}
{"image": "1.png"}
{"image": "2.png"}
{"image": "gone.png"}
)";
  const auto report = audit({manifest}, options);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->near_images.size(), 1U);
  EXPECT_EQ(report->near_images[0].a + "," + report->near_images[0].b, "0.png,2.png");
  options.encode = [](auto) -> Result<Matrix<float>> { return fail(ErrorCode::kInternal, "no"); };
  EXPECT_FALSE(audit({manifest}, options));
}

TEST_F(Audit, TellsAnOrderByContent) {
  std::string ordered;
  std::string mixed;
  for (int i = 0; i < 90; ++i) {
    const char* kWords[] = {"harbour with boats", "dense forest trees", "tennis court green"};
    ordered += fmt::format("{{\"image\": \"0.png\", \"id\": \"{}\", \"captions\": [\"{} {}\"]}}\n", i,
                           kWords[i / 30], i);
    mixed += fmt::format("{{\"image\": \"0.png\", \"id\": \"{}\", \"captions\": [\"{} {}\"]}}\n", i,
                         kWords[i * i % 7 % 3], i);
  }
  EXPECT_TRUE(audit({ordered})->ordered_by_content);
  EXPECT_FALSE(audit({mixed})->ordered_by_content);
  EXPECT_TRUE(audit({mixed})->ids_in_order);
}

TEST_F(Audit, LooksAtCompositions) {
  const auto report = audit({R"({"images": ["0.png", "2.png"], "captions": ["a b", "b a"]}
{"images": ["0.png"], "captions": ["same", "Same."]})"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 2);
  EXPECT_EQ(report->indistinguishable_compositions, 1);
}

TEST(NearDistance, SmallChangesAreNearAndOthersAreNot) {
  const data::Look look = data::look_of(picture(3, 0));
  EXPECT_EQ(data::near_distance(look, look), 0);
  EXPECT_GE(data::near_distance(look, data::look_of(picture(3, 4))), 0);
  const Image large = resize(picture(3, 0, 64), 160, 160, ResizeFilter::kBicubic);
  EXPECT_GE(data::near_distance(look, data::look_of(large)), 0);
  for (int other = 0; other < 12; ++other) {
    const int distance = data::near_distance(look, data::look_of(picture(other, 0)));
    EXPECT_EQ(distance, other == 3 ? 0 : -1) << other;
  }
}

TEST(Lengths, AreOrderStatistics) {
  std::vector<int64_t> values;
  for (int64_t i = 100; i >= 1; --i) values.push_back(i);
  const Lengths lengths = lengths_of(values);
  EXPECT_EQ(lengths.min, 1);
  EXPECT_EQ(lengths.median, 50);
  EXPECT_EQ(lengths.p95, 95);
  EXPECT_EQ(lengths.max, 100);
  EXPECT_DOUBLE_EQ(lengths.mean, 50.5);
  EXPECT_EQ(lengths_of({}).count, 0);
}

}  // namespace
}  // namespace saccade::lab
