#include "saccade/image/preprocess.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/safetensors.h"
#include "saccade/core/source_dir.h"
#include "saccade/image/image_codec.h"

namespace saccade {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kGolden = std::filesystem::path(test::kSourceDir) / "tests" / "golden";
constexpr std::array<float, 3> kClipMean = {0.48145466F, 0.4578275F, 0.40821073F};
constexpr std::array<float, 3> kClipStd = {0.26862954F, 0.26130258F, 0.27577711F};

Preprocessing clip(int side) {
  Preprocessing p;
  p.resize_height = p.resize_width = p.crop_height = p.crop_width = side;
  p.mean = kClipMean;
  p.std = kClipStd;
  return p;
}

std::vector<std::filesystem::path> images_in(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  const auto index = read_json(kGolden / folder / "index.json");
  EXPECT_TRUE(index) << index.error().message;
  if (!index) return paths;
  for (const Json& image : (*index)["images"])
    paths.push_back(kGolden / folder / image["file"].get<std::string>());
  return paths;
}

Image decoded(const std::filesystem::path& path) {
  DecodeOptions options;
  options.apply_orientation = false;
  auto result = decode_image_file(path, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::move(result->image) : Image{1, 1, 3, PixelMode::kRgb, {0, 0, 0}};
}

std::vector<float> floats(const SafeTensors& file, const std::string& name) {
  const TensorView* tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name << " is missing";
  return tensor == nullptr ? std::vector<float>{} : *tensor->to_floats();
}

// The largest difference; infinite where one is NaN, so that NaN never passes.
float largest_difference(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return std::numeric_limits<float>::infinity();
  float largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const float difference = std::abs(got[i] - want[i]);
    if (!(difference <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

TEST(PreprocessGolden, ResizedPixelsAreExactlyPillows) {
  const auto images = images_in("preprocess");
  ASSERT_EQ(images.size(), 14U);
  for (const auto& path : images) {
    SCOPED_TRACE(path.filename().string());
    const Image image = decoded(path);
    auto answers = SafeTensors::open(std::filesystem::path(path).replace_extension(".safetensors"));
    ASSERT_TRUE(answers) << answers.error().message;
    int compared = 0;
    for (const auto& [name, tensor] : answers->tensors()) {
      if (tensor.dtype != DType::kU8) continue;
      Preprocessing p;
      p.resize_mode = ResizeMode::kSquash;
      p.resize_height = static_cast<int>(tensor.shape[0]);
      p.resize_width = static_cast<int>(tensor.shape[1]);
      p.crop = false;
      p.filter = name == "shortest_bicubic_u8"  ? ResizeFilter::kBicubic
                 : name == "squash_bilinear_u8" ? ResizeFilter::kBilinear
                                                : ResizeFilter::kLanczos;
      const auto pixels = preprocess_pixels(image, p);
      ASSERT_TRUE(pixels) << pixels.error().message;
      ASSERT_EQ(pixels->pixels.size(), tensor.bytes.size());
      const auto* want = reinterpret_cast<const uint8_t*>(tensor.bytes.data());
      EXPECT_TRUE(std::equal(pixels->pixels.begin(), pixels->pixels.end(), want)) << name;
      ++compared;
    }
    // The widest picture's shortest-edge pixels are too large to be kept.
    EXPECT_EQ(compared, path.filename() == "scene_3x200.png" ? 2 : 3);
  }
}

TEST(PreprocessGolden, TensorsAreTheReferencesTo1e6) {
  for (const auto& path : images_in("preprocess")) {
    SCOPED_TRACE(path.filename().string());
    const Image image = decoded(path);
    auto answers = SafeTensors::open(std::filesystem::path(path).replace_extension(".safetensors"));
    ASSERT_TRUE(answers) << answers.error().message;
    std::vector<float> out(3 * 64 * 64);
    const Preprocessing p = clip(64);
    ASSERT_TRUE(preprocess(image, p, out));
    EXPECT_LE(largest_difference(out, floats(*answers, "clip")), 1e-6F);

    Preprocessing squash = clip(64);
    squash.resize_mode = ResizeMode::kSquash;
    squash.crop = false;
    squash.mean = squash.std = {0.5F, 0.5F, 0.5F};
    ASSERT_TRUE(preprocess(image, squash, out));
    EXPECT_LE(largest_difference(out, floats(*answers, "squash_bicubic")), 1e-6F);
  }
}

TEST(PreprocessGolden, PhotographsAreWithinTwoLevels) {
  const auto images = images_in("clip_photographs");
  ASSERT_EQ(images.size(), 7U);
  for (const auto& path : images) {
    SCOPED_TRACE(path.filename().string());
    const Image image = decoded(path);
    auto answers = SafeTensors::open(std::filesystem::path(path).replace_extension(".safetensors"));
    ASSERT_TRUE(answers) << answers.error().message;
    constexpr size_t kPlane = 224 * 224;
    std::vector<float> out(3 * kPlane);
    Preprocessing p = clip(224);
    p.crop_rounding = CropRounding::kHalfEven;  // shows in 524_316.jpg alone: (371 - 224) mod 4 is 3
    ASSERT_TRUE(preprocess(image, p, out));
    const std::vector<float> want = floats(*answers, "clip");
    ASSERT_EQ(want.size(), out.size());
    for (size_t c = 0; c < 3; ++c) {
      const float levels = 255 * kClipStd[c] *
                           largest_difference(std::span(out).subspan(c * kPlane, kPlane),
                                              std::span(want).subspan(c * kPlane, kPlane));
      EXPECT_LE(levels, 2.01F) << "channel " << c;
      RecordProperty(path.filename().string() + "_levels_" + std::to_string(c), std::to_string(levels));
    }
  }
}

// A picture whose pixel (x, y) is (x, y, 100).
Image ramp(int width, int height) {
  Image image{width, height, 3, PixelMode::kRgb, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixels.insert(image.pixels.end(), {static_cast<uint8_t>(x), static_cast<uint8_t>(y), 100});
    }
  }
  return image;
}

Preprocessing only_crop(int height, int width, CropRounding rounding) {
  Preprocessing p;
  p.resize_mode = ResizeMode::kNone;
  p.crop_height = height;
  p.crop_width = width;
  p.crop_rounding = rounding;
  return p;
}

TEST(Preprocess, CropRoundingsDifferWhereTheRestModuloFourIsThree) {
  for (int size = 8; size < 20; ++size) {
    const Image image = ramp(size, size);
    const auto floor = preprocess_pixels(image, only_crop(8, 8, CropRounding::kFloor));
    const auto even = preprocess_pixels(image, only_crop(8, 8, CropRounding::kHalfEven));
    ASSERT_TRUE(floor && even);
    EXPECT_EQ(floor->pixels[0], (size - 8) / 2);
    EXPECT_EQ(even->pixels[0], static_cast<int>(std::nearbyint((size - 8) / 2.0)));
    EXPECT_EQ(floor->pixels[0] != even->pixels[0], (size - 8) % 4 == 3);
  }
}

TEST(Preprocess, SmallPicturesArePaddedOnTheSideEachReferencePads) {
  Preprocessing p = only_crop(8, 8, CropRounding::kFloor);
  p.fill = {9, 8, 7};
  const Image image = ramp(5, 12);  // 3 columns short, 4 rows over
  const auto first_filled = [](const Image& out) {
    int x = 0;
    while (out.pixels[static_cast<size_t>(x * 3)] == 9) ++x;
    return x;
  };
  const auto floor = preprocess_pixels(image, p);
  ASSERT_TRUE(floor);
  EXPECT_EQ(first_filled(*floor), 2);
  EXPECT_EQ(floor->pixels[1], 8);          // padding
  EXPECT_EQ(floor->pixels[2 * 3 + 1], 2);  // row 2 of the picture
  p.crop_rounding = CropRounding::kHalfEven;
  const auto even = preprocess_pixels(image, p);
  ASSERT_TRUE(even);
  EXPECT_EQ(first_filled(*even), 1);

  std::vector<float> tensor(3 * 8 * 8);
  ASSERT_TRUE(preprocess(image, p, tensor));
  for (size_t i = 0; i < 64; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_FLOAT_EQ(tensor[c * 64 + i], static_cast<float>(even->pixels[i * 3 + c]) / 255);
    }
  }
}

TEST(Preprocess, LongestEdgeFitsAndPads) {
  Preprocessing p = only_crop(8, 8, CropRounding::kHalfEven);
  p.resize_mode = ResizeMode::kLongestEdge;
  p.resize_height = p.resize_width = 8;
  p.fill = {1, 2, 3};
  const Image image{40, 20, 3, PixelMode::kRgb, std::vector<uint8_t>(40 * 20 * 3, 200)};
  const auto out = preprocess_pixels(image, p);
  ASSERT_TRUE(out);
  for (int y = 0; y < 8; ++y)
    EXPECT_EQ(out->pixels[static_cast<size_t>(y * 8 * 3)], y >= 2 && y < 6 ? 200 : 1) << y;
}

TEST(Preprocess, ShortestEdgeTruncatesTheLongerSide) {
  // 3 x 200 to 64: 64 * 200 / 3 = 4266.67; a crop of the full height shows the last row.
  Preprocessing p = clip(64);
  p.crop_height = 4267;
  const auto out = preprocess_pixels(ramp(3, 200), p);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->pixels[(4267 - 1) * 64 * 3 + 2], 100);
  EXPECT_EQ(out->pixels[2], 0);  // 4266 rows of picture, one of padding (the half rounded up) before them
}

TEST(Preprocess, RgbOrderMattersForPalettesAndTransparency) {
  Image palette{4, 1, 3, PixelMode::kPalette, {0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}};
  Preprocessing p;
  p.resize_mode = ResizeMode::kSquash;
  p.filter = ResizeFilter::kBilinear;
  p.resize_height = 1;
  p.resize_width = 2;
  p.crop = false;
  EXPECT_NEAR(preprocess_pixels(palette, p)->pixels[0], 128, 40);  // a mixture
  p.rgb_order = RgbOrder::kAfterResize;
  EXPECT_EQ(preprocess_pixels(palette, p)->pixels, (std::vector<uint8_t>{255, 255, 255, 255, 255, 255}));

  // Red at full strength beside green that is not there.
  Image alpha{2, 1, 4, PixelMode::kRgba, {255, 0, 0, 255, 0, 255, 0, 0}};
  p.resize_width = 1;
  EXPECT_EQ(preprocess_pixels(alpha, p)->pixels, (std::vector<uint8_t>{255, 0, 0}));
  p.rgb_order = RgbOrder::kBeforeResize;
  EXPECT_EQ(preprocess_pixels(alpha, p)->pixels, (std::vector<uint8_t>{128, 128, 0}));
  p.alpha = AlphaPolicy::kComposite;
  p.background = {0, 0, 255};
  EXPECT_EQ(preprocess_pixels(alpha, p)->pixels, (std::vector<uint8_t>{128, 0, 128}));
  Image grey{1, 1, 2, PixelMode::kGreyAlpha, {100, 128}};
  const auto over = preprocess_pixels(grey, p);
  EXPECT_EQ(over->pixels, (std::vector<uint8_t>{50, 50, 177}));  // (100 * 128 + 255 * 127) / 255 in blue
}

TEST(Preprocess, RefusesWhatContradictsItself) {
  const Image image = ramp(4, 4);
  std::vector<float> out(3 * 224 * 224);
  EXPECT_EQ(preprocess(Image{4, 4, 3, PixelMode::kRgb, {1, 2}}, clip(224), out).error().code,
            ErrorCode::kUsage);
  constexpr int kLargest = std::numeric_limits<int>::max();
  EXPECT_THAT(preprocess(Image{kLargest, kLargest, 4, PixelMode::kRgba, {}}, clip(224), out).error().message,
              HasSubstr("has 0 values, expected 18446744056529682436"));
  EXPECT_EQ(preprocess(image, clip(225), out).error().code, ErrorCode::kUsage);
  EXPECT_EQ(preprocess(image, clip(0), out).error().code, ErrorCode::kUsage);
  EXPECT_EQ(preprocess(image, clip(1 << 20), out).error().code, ErrorCode::kUsage);
  Preprocessing shapeless = clip(224);
  shapeless.crop = false;
  EXPECT_EQ(preprocess(image, shapeless, out).error().code, ErrorCode::kUsage);
}

Result<Preprocessing> hugging_face(std::string_view text) {
  return preprocessing_from_hugging_face(*parse_json(text), 224);
}
Result<Preprocessing> open_clip(std::string_view text) {
  return preprocessing_from_open_clip(*parse_json(text), 224);
}

TEST(PreprocessConfig, HuggingFaceClip) {
  const auto p = hugging_face(R"({"crop_size": {"height": 336, "width": 320}, "do_center_crop": true,
    "do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true,
    "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "image_processor_type": "CLIPImageProcessor",
    "resample": 2, "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 340}})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(
      p->describe(),
      "shortest edge to 340 bilinear, centre crop 336 x 320 (floor), fill 0 0 0, RGB before resize, alpha "
      "dropped, x * 0.003921569 + 0, mean 0.1 0.2 0.3, std 0.4 0.5 0.6");
  EXPECT_EQ(p->output_height(), 336);
  EXPECT_EQ(p->output_width(), 320);
}

TEST(PreprocessConfig, HuggingFaceOldFilesWithPlainNumbers) {
  const auto p =
      hugging_face(R"({"crop_size": 224, "do_center_crop": true, "do_normalize": true, "do_resize": true,
    "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "size": 224})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->resize_mode, ResizeMode::kShortestEdge);
  EXPECT_EQ(p->resize_height, 224);
  EXPECT_EQ(p->filter, ResizeFilter::kBicubic);
  EXPECT_TRUE(p->crop);
  EXPECT_EQ(p->rescale_factor, 1.0F / 255.0F);
  EXPECT_EQ(p->describe(), hugging_face("{}")->describe());  // a silent file is CLIP's
}

TEST(PreprocessConfig, HuggingFaceOtherFamilies) {
  const auto siglip =
      hugging_face(R"({"image_processor_type": "SiglipImageProcessor", "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5], "resample": 3, "size": {"height": 384, "width": 380}})");
  ASSERT_TRUE(siglip) << siglip.error().message;
  EXPECT_EQ(siglip->resize_mode, ResizeMode::kSquash);
  EXPECT_FALSE(siglip->crop);
  EXPECT_EQ(siglip->output_height(), 384);
  EXPECT_EQ(siglip->output_width(), 380);

  const auto align = hugging_face(R"({"crop_size": {"height": 289, "width": 289}, "do_center_crop": true,
    "do_normalize": false, "do_rescale": true, "do_resize": true, "image_mean": [0.485, 0.456, 0.406],
    "image_processor_type": "EfficientNetImageProcessor", "image_std": [0.229, 0.224, 0.225], "include_top": false,
    "resample": 2, "rescale_factor": 0.00784313725490196, "rescale_offset": true,
    "size": {"height": 346, "width": 346}})");
  ASSERT_TRUE(align) << align.error().message;
  EXPECT_EQ(align->resize_mode, ResizeMode::kSquash);
  EXPECT_EQ(align->output_height(), 289);
  EXPECT_EQ(align->rescale_offset, -1.0F);
  EXPECT_EQ(align->mean, (std::array<float, 3>{0, 0, 0}));
  std::vector<float> out(3 * 289 * 289);
  ASSERT_TRUE(preprocess(Image{1, 1, 3, PixelMode::kRgb, {0, 255, 51}}, *align, out));
  EXPECT_NEAR(out[0], -1, 1e-6);
  EXPECT_NEAR(out[289 * 289], 1, 1e-6);
  EXPECT_NEAR(out[2 * 289 * 289], -0.6, 1e-6);
}

TEST(PreprocessConfig, OwnFieldsForTransparency) {
  const auto p = hugging_face(R"({"saccade": {"alpha": "composite", "background": [1, 2, 3]}})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->alpha, AlphaPolicy::kComposite);
  EXPECT_EQ(p->background, (std::array<uint8_t, 3>{1, 2, 3}));
}

// Either layout can be asked for the other's ways, one by one.
TEST(PreprocessConfig, OwnFieldsForRgbAndCrop) {
  const auto as_open_clip =
      hugging_face(R"({"saccade": {"rgb_order": "after_resize", "crop_rounding": "half_even"}})");
  ASSERT_TRUE(as_open_clip) << as_open_clip.error().message;
  EXPECT_EQ(as_open_clip->rgb_order, RgbOrder::kAfterResize);
  EXPECT_EQ(as_open_clip->crop_rounding, CropRounding::kHalfEven);
  const Json own{{"saccade", {{"rgb_order", "before_resize"}, {"crop_rounding", "floor"}}}};
  const auto as_hugging_face = preprocessing_from_open_clip(own, 224);
  ASSERT_TRUE(as_hugging_face) << as_hugging_face.error().message;
  EXPECT_EQ(as_hugging_face->rgb_order, RgbOrder::kBeforeResize);
  EXPECT_EQ(as_hugging_face->crop_rounding, CropRounding::kFloor);
  // Explicit single settings override the pipeline, in any order.
  const Json both{{"resize_mode", "squash"},
                  {"saccade", {{"rgb_order", "before_resize"}, {"pipeline", "open_clip"}}}};
  EXPECT_EQ(preprocessing_from_open_clip(both, 224)->rgb_order, RgbOrder::kBeforeResize);
}

TEST(PreprocessConfig, HuggingFaceErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "an array"},
      {R"({"size": -1})", "\"size\" is -1"},
      {R"({"size": 1e9})", "size"},
      {R"({"size": "224"})", "a string"},
      {R"({"size": {"shortest_edge": 224, "longest_edge": 448}})", "beside shortest_edge"},
      {R"({"size": {"height": 224}})", "both height and width"},
      {R"({"size": {"max_patches": 9}})", "max_patches"},
      {R"({"resample": 4})", "box"},
      {R"({"resample": 9})", "\"resample\" is 9"},
      {R"({"image_mean": [1, 2]})", "three numbers"},
      {R"({"image_std": [1, 0, 1]})", "must be positive"},
      {R"({"do_normalize": 1})", "do_normalize"},
      {R"({"do_center_crop": false})", "keep their shapes"},
      {R"({"do_pad": true})", "do_pad"},
      {R"({"include_top": true})", "include_top"},
      {R"({"image_processor_type": "NovelProcessor", "size": 224})", "image_mean"},
      {R"({"saccade": {"alpha": "keep"}})", "keep"},
      {R"({"saccade": {"rgb_order": "bgr"}})",
       "\"rgb_order\" is \"bgr\", known are before_resize and after_resize"},
      {R"({"saccade": {"crop_rounding": 1}})", "crop_rounding"},
      {R"({"saccade": {"background": [1, 2, 300]}})", "300"},
      {R"({"saccade": {"colour": 1}})", "colour"}};
  for (const auto& [text, wanted] : cases) {
    const auto p = hugging_face(text);
    ASSERT_FALSE(p) << text;
    EXPECT_THAT(p.error().message, HasSubstr(wanted)) << text;
  }
}

TEST(PreprocessConfig, OpenClip) {
  const auto p =
      open_clip(R"({"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear",
    "resize_mode": "squash", "size": [256, 128], "mode": "RGB"})");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(
      p->describe(),
      "squash to 256 x 128 bilinear, RGB after resize, alpha dropped, x * 0.003921569 + 0, mean 0.5 0.5 0.5, "
      "std 0.25 0.25 0.25");
  const auto silent = open_clip("{}");
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->resize_mode, ResizeMode::kShortestEdge);
  EXPECT_EQ(silent->filter, ResizeFilter::kBicubic);
  EXPECT_EQ(silent->crop_rounding, CropRounding::kHalfEven);
  EXPECT_EQ(silent->mean, kClipMean);
  const auto longest = open_clip(R"({"resize_mode": "longest", "fill_color": 7, "interpolation": "random"})");
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->resize_mode, ResizeMode::kLongestEdge);
  EXPECT_EQ(longest->fill, (std::array<uint8_t, 3>{7, 7, 7}));
  EXPECT_TRUE(longest->crop);
  for (const auto& [text, wanted] :
       {std::pair{R"({"interpolation": "nearest"})", "nearest"},
        std::pair{R"({"resize_mode": "wide"})", "wide"}, std::pair{R"({"size": [224, 336]})", "square"},
        std::pair{R"({"mode": "L"})", "\"L\""}, std::pair{R"({"crop": 1})", "crop"},
        std::pair{R"({"size": [1, 2, 3]})", "size"}}) {
    const auto bad = open_clip(text);
    ASSERT_FALSE(bad) << text;
    EXPECT_THAT(bad.error().message, HasSubstr(wanted));
  }
}

// From TensorFlow's documentation of tf.image.resize: a unit matrix of 5 x 5 in 3 rows, and no value between
// them looked at where a picture shrinks more.
TEST(Preprocess, BilinearWithoutAntialiasingIsTensorFlows) {
  Image unit{5, 5, 1, PixelMode::kGrey, std::vector<uint8_t>(25, 0)};
  for (size_t i = 0; i < 5; ++i) unit.pixels[i * 6] = 200;
  const Image three = resize(unit, 5, 3, ResizeFilter::kBilinearNoAntialias);
  EXPECT_THAT(three.pixels, ::testing::ElementsAre(133, 66, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 66, 133));
  // Ten columns to two: columns 2 and 7 alone.
  Image wide{10, 1, 1, PixelMode::kGrey, {0, 255, 40, 255, 0, 0, 255, 80, 255, 0}};
  EXPECT_THAT(resize(wide, 2, 1, ResizeFilter::kBilinearNoAntialias).pixels, ::testing::ElementsAre(40, 80));
  // Enlarged, the edges repeat.
  Image pair{2, 1, 1, PixelMode::kGrey, {0, 100}};
  EXPECT_THAT(resize(pair, 4, 1, ResizeFilter::kBilinearNoAntialias).pixels,
              ::testing::ElementsAre(0, 25, 75, 100));
}

TEST(Preprocess, PipelinesByName) {
  const Json base{{"image_processor_type", "SiglipImageProcessor"}, {"size", {{"height", 8}, {"width", 8}}}};
  const auto with = [&](const char* name) {
    Json config = base;
    config["saccade"] = {{"pipeline", name}};
    return preprocessing_from_hugging_face(config, 8);
  };
  const auto hugging_face = with("hugging_face");
  const auto open_clip = with("open_clip");
  const auto big_vision = with("big_vision");
  ASSERT_TRUE(hugging_face && open_clip && big_vision);
  EXPECT_EQ(hugging_face->filter, ResizeFilter::kBicubic);
  EXPECT_EQ(hugging_face->rgb_order, RgbOrder::kBeforeResize);
  EXPECT_EQ(open_clip->rgb_order, RgbOrder::kAfterResize);
  EXPECT_EQ(big_vision->filter, ResizeFilter::kBilinearNoAntialias);
  EXPECT_EQ(big_vision->mean, hugging_face->mean);
  EXPECT_THAT(big_vision->describe(), HasSubstr("bilinear without antialiasing"));
  // The same names in OpenCLIP's file.
  const Json own{{"resize_mode", "squash"}, {"saccade", {{"pipeline", "big_vision"}}}};
  const auto other = preprocessing_from_open_clip(own, 8);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->filter, ResizeFilter::kBilinearNoAntialias);
  EXPECT_EQ(other->rgb_order, RgbOrder::kBeforeResize);
  EXPECT_THAT(with("tensorflow").error().message, HasSubstr("\"pipeline\" is \"tensorflow\", known are"));
  const Json cropped{{"saccade", {{"pipeline", "open_clip"}}}};
  EXPECT_THAT(preprocessing_from_hugging_face(cropped, 8).error().message, HasSubstr("not a squash"));
}

}  // namespace
}  // namespace saccade
