// Tests of the editor: its conversions, its sampler against theory, and its images from random weights.
#include "lab/editor/editor.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/editor/test_editor.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

TEST(Editor, ValuesLieSquareBySquare) {
  const Image image = test::some_reference(16, 3);
  EditorConfig config = test::small_editor_config();
  std::vector<float> values(static_cast<size_t>(config.values()));
  editor_values(image, 4, values);
  // Patches are cut as nn::patches cuts planar pixels.
  nn::Tensor planar = nn::Tensor::empty({1, 3, 16, 16});
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x) {
      for (int c = 0; c < 3; ++c) {
        planar.data<float>()[(c * 16 + y) * 16 + x] =
            static_cast<float>(image.pixels[static_cast<size_t>((y * 16 + x) * 3 + c)]) / 127.5F - 1.F;
      }
    }
  }
  const nn::Tensor expected = nn::patches(planar, 4).contiguous();
  EXPECT_TRUE(std::ranges::equal(expected.floats(), values));
  EXPECT_EQ(editor_picture(values, config).pixels, image.pixels);
  values[0] = 7;  // past white
  EXPECT_EQ(editor_picture(values, config).pixels[0], 255);
}

TEST(Editor, NoiseIsStandardNormalAndTheSeedsAlone) {
  std::vector<float> noise(200'001);
  editor_noise(5, noise);
  double sum = 0, squares = 0, fourth = 0;
  for (const float value : noise) {
    sum += value;
    squares += value * value;
    fourth += std::pow(value, 4);
  }
  const auto n = static_cast<double>(noise.size());
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.1);
  std::vector<float> part(10);
  editor_noise(5, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), noise.begin()));
  editor_noise(6, part);
  EXPECT_NE(part[0], noise[0]);
}

// Between the standard normal and N(m, s^2), drawn independently, the mean of z_1 given z_t is known, and the
// flow maps z_0 to m + s z_0. A single step goes to the mean.
TEST(Editor, EulerStepsFollowAKnownFlow) {
  const double m = 0.7;
  const double s = 0.3;
  const CleanPicture clean = [&](double t, std::span<const float> z, std::span<float> out) -> Status {
    const double variance = (1 - t) * (1 - t) + t * t * s * s;
    for (size_t i = 0; i < z.size(); ++i) {
      out[i] = static_cast<float>(m + t * s * s / variance * (z[i] - t * m));
    }
    return {};
  };
  const std::vector<float> start = {-2, -0.5, 0, 1.5};
  const auto after = [&](int64_t steps) {
    std::vector<float> z = start;
    EXPECT_TRUE(euler_steps(steps, clean, z));
    return z;
  };
  for (const float value : after(1)) EXPECT_NEAR(value, m, 1e-6);
  double coarse = 0, fine = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    const double exact = m + s * start[i];
    coarse = std::max(coarse, std::abs(after(8)[i] - exact));
    fine = std::max(fine, std::abs(after(2000)[i] - exact));
  }
  EXPECT_LT(fine, 0.005);
  EXPECT_GT(coarse, fine);

  // The formula step by step: z + v / n with v = (clean - z) / (1 - t), in double.
  std::vector<double> z(start.begin(), start.end());
  for (int step = 0; step < 5; ++step) {
    const double t = step / 5.0;
    const double variance = (1 - t) * (1 - t) + t * t * s * s;
    for (double& value : z) value += (m + t * s * s / variance * (value - t * m) - value) / (1 - t) / 5;
  }
  for (size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(after(5)[i], z[i], 1e-5);
}

TEST(Editor, ConfigIsReadBackAndChecked) {
  const EditorConfig config = test::small_editor_config();
  const Json json = editor_config_json(config);
  const auto read = editor_config_from_json(json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(editor_config_json(*read), json);
  const auto error_with = [&](const char* key, const Json& value) {
    Json other = json;
    other[key] = value;
    const auto result = editor_config_from_json(other);
    return result ? std::string() : result.error().message;
  };
  EXPECT_THAT(error_with("side", 18), HasSubstr("no multiple of \"patch_size\""));
  EXPECT_THAT(error_with("heads", 5), HasSubstr("no multiple of \"heads\""));
  EXPECT_THAT(error_with("side", 1 << 20), HasSubstr("side"));
  EXPECT_THAT(error_with("width", "wide"), HasSubstr("\"width\""));
  EXPECT_THAT(error_with("text_states", "words"), HasSubstr("expected one of tokens, row"));
  EXPECT_THAT(error_with("guidance", -1), HasSubstr("guidance"));
  EXPECT_THAT(error_with("frozen", Json::object()), HasSubstr("\"frozen\": \"name\" is missing"));
}

class RandomEditor : public testing::Test {
 protected:
  void SetUp() override {
    test::write_random_editor(folder.path(), config);
    auto opened = Editor::open(folder.path(), {.threads = 2});
    ASSERT_TRUE(opened) << opened.error().message;
    editor = std::move(*opened);
    for (int i = 0; i < 5; ++i) references.push_back(test::some_reference(16, i));
  }
  Result<std::vector<Image>> draw(std::span<const size_t> which, EditSettings settings = {}) {
    std::vector<Image> images;
    std::vector<std::string> said;
    std::vector<uint64_t> seeds;
    for (const size_t i : which) {
      images.push_back(references[i]);
      said.push_back(texts[i]);
      seeds.push_back(100 + i);
    }
    return editor->draw(images, said, seeds, settings, {}, cut);
  }

  const test::TestFolder folder;
  EditorConfig config = test::small_editor_config();
  std::unique_ptr<Editor> editor;
  std::vector<Image> references;
  std::vector<std::string> texts = {"in red", "crossed out", "", "with a plus",
                                    "turned to the left and then upside down and filled in all over it"};
  int64_t cut = 0;
};

TEST_F(RandomEditor, APictureDoesNotDependOnTheOthers) {
  const auto all = draw(std::vector<size_t>{0, 1, 2, 3, 4});
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 5U);
  EXPECT_EQ(cut, 1);
  for (size_t i = 0; i < 5; ++i) {
    const auto alone = draw(std::vector<size_t>{i});
    ASSERT_TRUE(alone);
    int most = 0;
    for (size_t p = 0; p < alone->front().pixels.size(); ++p) {
      most = std::max(most, std::abs(alone->front().pixels[p] - (*all)[i].pixels[p]));
    }
    EXPECT_LE(most, 1) << i;  // products of other shapes round otherwise
    EXPECT_NE(alone->front().pixels, references[i].pixels);
  }
}

TEST_F(RandomEditor, GuidanceSeedAndTextCount) {
  const std::vector<size_t> one = {1};
  const auto plain = draw(one, {.guidance = 1});
  const auto without = draw(one, {.guidance = 0});
  const auto guided = draw(one, {.guidance = 3});
  ASSERT_TRUE(plain && without && guided);
  EXPECT_NE(plain->front().pixels, without->front().pixels);
  EXPECT_NE(plain->front().pixels, guided->front().pixels);
  // Without text input, another text gives the same result.
  texts[1] = "blue";
  EXPECT_EQ(draw(one, {.guidance = 0})->front().pixels, without->front().pixels);
  EXPECT_NE(draw(one, {.guidance = 1})->front().pixels, plain->front().pixels);
  // Guidance extrapolates away from an empty text.
  texts[1] = "";
  const auto empty = draw(one, {.guidance = 1});
  const auto far = draw(one, {.guidance = 9});
  int most = 0;
  for (size_t p = 0; p < far->front().pixels.size(); ++p) {
    most = std::max(most, std::abs(far->front().pixels[p] - empty->front().pixels[p]));
  }
  EXPECT_LE(most, 1);
}

TEST_F(RandomEditor, IsToldATextsRowOrItsTokens) {
  int64_t none = 0;
  const auto encoder = load_encoder(config.frozen.path, {.threads = 1});
  ASSERT_TRUE(encoder);
  const std::vector<std::string> two = {"in red", ""};
  const auto tokens = editor_text_states(**encoder, two, config, none);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(tokens->begin, (std::vector<int64_t>{0, 4, 6}));  // start and end beside the words
  config.text_states = EditorTexts::kRow;
  const auto rows = editor_text_states(**encoder, two, config, none);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->begin, (std::vector<int64_t>{0, 1, 2}));
  const auto before = draw(std::vector<size_t>{0});
  test::write_random_editor(folder.path(), config);
  editor = std::move(*Editor::open(folder.path(), {.threads = 2}));
  EXPECT_NE(draw(std::vector<size_t>{0})->front().pixels, before->front().pixels);
}

TEST_F(RandomEditor, SaysWhatIsWrong) {
  std::vector<std::string> one = {"a"};
  std::vector<uint64_t> seeds = {1, 2};
  const auto counts = editor->draw({references.data(), 1}, one, seeds, {}, {}, cut);
  EXPECT_THAT(counts.error().message, HasSubstr("1 references, 1 texts and 2 seeds"));
  const Image large = test::some_reference(17, 0);
  EXPECT_THAT(editor->draw({&large, 1}, one, {seeds.data(), 1}, {}, {}, cut).error().message,
              HasSubstr("17 x 17"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      editor->draw({references.data(), 1}, one, {seeds.data(), 1}, {}, stop.get_token(), cut).error().code,
      ErrorCode::kCancelled);
  EXPECT_EQ(Editor::open(std::filesystem::path(test::kSourceDir) / "models/starter").error().code,
            ErrorCode::kUnsupported);

  EditorConfig other = config;
  other.frozen.fingerprint = std::string(64, '0');
  test::write_random_editor(folder.path(), other);
  const auto mismatch = Editor::open(folder.path());
  EXPECT_EQ(mismatch.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(mismatch.error().message, HasSubstr("an editor for another encoder"));
  other = config;
  other.layers = 3;
  ASSERT_TRUE(write_file_atomic(folder / "config.json", dump_json(editor_config_json(other))));
  EXPECT_THAT(Editor::open(folder.path()).error().message, HasSubstr("blocks.2."));
  other.layers = 1;
  ASSERT_TRUE(write_file_atomic(folder / "config.json", dump_json(editor_config_json(other))));
  EXPECT_THAT(Editor::open(folder.path()).error().message, HasSubstr("blocks.1."));
}

}  // namespace
}  // namespace saccade::lab
