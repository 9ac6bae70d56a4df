#include "saccade/model/visualness.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

TEST(NullPicture, IsNamedByKindSeedOrFile) {
  EXPECT_EQ(parse_null_picture("random")->seed, 0U);
  EXPECT_EQ(parse_null_picture("random:17")->seed, 17U);
  EXPECT_EQ(parse_null_picture("grey")->kind, NullPicture::Kind::kGrey);
  const auto file = parse_null_picture("a/b.png");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->kind, NullPicture::Kind::kFile);
  EXPECT_EQ(file->file, "a/b.png");
  EXPECT_EQ(parse_null_picture("random:x").error().code, ErrorCode::kUsage);
  EXPECT_EQ(parse_null_picture("random:-1").error().code, ErrorCode::kUsage);
  EXPECT_EQ(parse_null_picture("random:").error().code, ErrorCode::kUsage);
  EXPECT_EQ(parse_null_picture("").error().code, ErrorCode::kUsage);
}

TEST(NullPicture, RandomPixelsComeFromTheSeedAndFillTheRange) {
  const NullPicture zero;
  NullPicture one;
  one.seed = 1;
  const auto a = draw_null_picture(zero, 64, 48);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->width, 64);
  EXPECT_EQ(a->height, 48);
  EXPECT_EQ(a->pixels, draw_null_picture(zero, 64, 48)->pixels);
  EXPECT_NE(a->pixels, draw_null_picture(one, 64, 48)->pixels);
  const double mean =
      std::accumulate(a->pixels.begin(), a->pixels.end(), 0.0) / static_cast<double>(a->pixels.size());
  EXPECT_NEAR(mean, 127.5, 3);
  EXPECT_EQ(*std::min_element(a->pixels.begin(), a->pixels.end()), 0);
  EXPECT_EQ(*std::max_element(a->pixels.begin(), a->pixels.end()), 255);
  EXPECT_EQ((*describe_null_picture(one))["seed"], 1);
}

TEST(NullPicture, AFileThatIsNoneIsNamed) {
  NullPicture gone;
  gone.kind = NullPicture::Kind::kFile;
  const test::TestFolder folder;
  gone.file = folder / "missing.png";
  EXPECT_EQ(describe_null_picture(gone).error().code, ErrorCode::kNotFound);
  const auto pixels = null_picture_pixels(gone, {});
  ASSERT_FALSE(pixels);
  EXPECT_NE(pixels.error().message.find("NULL image"), std::string::npos);
}

TEST(Visualness, IsOneLessTheCosine) {
  const std::vector<float> null_row = {1, 0};
  Matrix<float> texts(3, 2);
  texts(0, 0) = 1;
  texts(1, 1) = 1;
  texts(2, 0) = -1;
  EXPECT_EQ(visualness_scores(null_row, texts.view()), (std::vector<double>{0, 1, 2}));
}

TEST(Visualness, IsKeptForTheWeightsItWasTrainedWith) {
  test::TestFolder folder;
  folder.write("saccade.json", "{\"effective_length\": []}");
  const KeptVisualness kept{
      .null_picture = {{"kind", "grey"}}, .null_row = {0.6F, 0.8F}, .threshold = 0.7, .measured = {}};
  ASSERT_TRUE(write_kept_visualness(folder.path(), "abc", kept));
  const auto there = read_kept_visualness(folder.path(), "abc");
  ASSERT_TRUE(there) << there.error().message;
  ASSERT_TRUE(*there);
  EXPECT_EQ((*there)->null_row, kept.null_row);
  EXPECT_EQ((*there)->threshold, 0.7);
  EXPECT_EQ((*there)->null_picture, kept.null_picture);
  EXPECT_TRUE(read_json(folder / "saccade.json")->contains("effective_length"));
  // As earlier versions called it.
  std::string earlier = read_file(folder / "saccade.json").value();
  earlier.replace(earlier.find("null_image"), 10, "null_picture");
  folder.write("saccade.json", earlier);
  EXPECT_EQ((*read_kept_visualness(folder.path(), "abc"))->null_picture, kept.null_picture);
  const auto other = read_kept_visualness(folder.path(), "abd");
  ASSERT_TRUE(other);
  EXPECT_FALSE(*other);
  test::TestFolder empty;
  EXPECT_FALSE(*read_kept_visualness(empty.path(), "abc"));
}

TEST(Visualness, RefusesWhatIsKeptInAnotherForm) {
  const char* const kCases[] = {
      R"({"visualness": 3})",
      R"({"visualness": {"fingerprint": "abc"}})",
      R"({"visualness": {"fingerprint": "abc", "threshold": 1}})",
      R"({"visualness": {"fingerprint": "abc", "threshold": 1, "null_row": []}})",
      R"({"visualness": {"fingerprint": "abc", "threshold": 1, "null_row": ["a"]}})",
      R"({"visualness": {"fingerprint": "abc", "threshold": 1, "null_row": [3, 4]}})",
      R"({"visualness": {"fingerprint": "abc", "threshold": "high", "null_row": [1]}})",
  };
  for (const char* text : kCases) {
    test::TestFolder folder;
    folder.write("saccade.json", text);
    const auto kept = read_kept_visualness(folder.path(), "abc");
    ASSERT_FALSE(kept) << text;
    EXPECT_EQ(kept.error().code, ErrorCode::kBadData);
    EXPECT_NE(kept.error().message.find("saccade.json"), std::string::npos) << kept.error().message;
  }
}

}  // namespace
}  // namespace saccade
