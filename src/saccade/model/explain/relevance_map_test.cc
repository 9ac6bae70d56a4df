// Properties of the relevance maps of all families. Their agreement with the papers' gradients is tested
// against autograd (lab/train/picture_map_test.cc).
#include "saccade/model/explain/relevance_map.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

using test::golden;
using test::random_tensor;

constexpr const char* kNames[] = {"clip-gelu", "clip-quickgelu",  "open_clip-gelu",
                                  "long-clip", "siglip",          "open_clip-siglip",
                                  "jina-clip", "jina-clip-fused", "blip2-itm"};

// Arbitrary images, with the embedding of another image as the target.
struct Input {
  explicit Input(EncoderBackend& encoder) {
    const EncoderInfo& info = encoder.info();
    const int64_t values = int64_t{3} * info.image_height * info.image_width;
    pixels = Matrix<float>(3, values);
    const nn::Tensor random = random_tensor({4, values}, 5);
    std::copy_n(random.data<float>(), 3 * values, pixels.values().begin());
    Matrix<float> other(1, values);
    std::copy_n(random.data<float>() + 3 * values, values, other.values().begin());
    target = encoder.encode_images(other.view()).value();
  }
  Matrix<float> pixels, target;
};

TEST(PictureMaps, AreOfEveryTransformer) {
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder) << encoder.error().message;
    PictureMapper* mapper = (*encoder)->picture_mapper();
    ASSERT_NE(mapper, nullptr);
    const Input input(**encoder);
    for (const MapMethod method : {MapMethod::kLegrad, MapMethod::kChefer}) {
      const auto maps = mapper->map_pictures(input.pixels.view(), input.target.row(0), method);
      ASSERT_TRUE(maps) << maps.error().message;
      EXPECT_GT(maps->rows, 0);
      EXPECT_EQ(maps->rows, maps->columns);
      ASSERT_EQ(maps->relevance.rows(), 3);
      ASSERT_EQ(maps->relevance.columns(), int64_t{maps->rows} * maps->columns);
      for (int64_t i = 0; i < 3; ++i) {
        const auto map = maps->relevance.row(i);
        EXPECT_TRUE(std::ranges::all_of(map, [](float value) { return value >= 0 && std::isfinite(value); }));
        EXPECT_GT(*std::ranges::max_element(map), 0);
        // An image's map does not depend on the rest of the batch.
        const auto alone = mapper->map_pictures(input.pixels.view().slice(i, 1), input.target.row(0), method);
        ASSERT_TRUE(alone);
        for (size_t p = 0; p < map.size(); ++p) {
          EXPECT_NEAR(alone->relevance.row(0)[p], map[p], 1e-4F * (1e-3F + std::abs(map[p])) + 1e-7F);
        }
      }
    }
  }
}

// Another target gives another map; the map of the opposite target is not this one's.
TEST(PictureMaps, FollowTheirTarget) {
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder);
    PictureMapper* mapper = (*encoder)->picture_mapper();
    const Input input(**encoder);
    std::vector<float> opposite;
    for (const float value : input.target.row(0)) opposite.push_back(-value);
    const auto map =
        mapper->map_pictures(input.pixels.view(), input.target.row(0), MapMethod::kLegrad).value();
    const auto other = mapper->map_pictures(input.pixels.view(), opposite, MapMethod::kLegrad).value();
    EXPECT_FALSE(std::ranges::equal(map.relevance.values(), other.relevance.values()));
  }
}

TEST(PictureMaps, AreNearTheSameInFewerBits) {
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const auto exact = load_encoder(golden(name));
    ASSERT_TRUE(exact);
    const Input input(**exact);
    for (const Precision precision : {Precision::kBf16, Precision::kInt8}) {
      if (precision == Precision::kBf16 && !nn::multiplies(DType::kBF16)) continue;
      const auto rough = load_encoder(golden(name), {.precision = precision});
      ASSERT_TRUE(rough) << rough.error().message;
      const auto a = (*exact)->picture_mapper()->map_pictures(input.pixels.view(), input.target.row(0),
                                                              MapMethod::kLegrad);
      const auto b = (*rough)->picture_mapper()->map_pictures(input.pixels.view(), input.target.row(0),
                                                              MapMethod::kLegrad);
      ASSERT_TRUE(a && b);
      double dot = 0;
      double aa = 0;
      double bb = 0;
      for (size_t i = 0; i < a->relevance.values().size(); ++i) {
        dot += double{a->relevance.values()[i]} * b->relevance.values()[i];
        aa += double{a->relevance.values()[i]} * a->relevance.values()[i];
        bb += double{b->relevance.values()[i]} * b->relevance.values()[i];
      }
      EXPECT_GT(dot / std::sqrt(aa * bb), 0.98);
    }
  }
}

TEST(PictureMaps, AreNotOfConvolutionsNorOfTextModels) {
  for (const char* name : {"clip-resnet", "clip-resnet-openai", "align", "bert", "colpali", "blip2-t5"}) {
    const auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder) << name << ": " << encoder.error().message;
    EXPECT_EQ((*encoder)->picture_mapper(), nullptr) << name;
  }
}

TEST(PictureMaps, RefuseWhatDoesNotFit) {
  const auto encoder = load_encoder(golden("clip-gelu"));
  ASSERT_TRUE(encoder);
  const Input input(**encoder);
  PictureMapper* mapper = (*encoder)->picture_mapper();
  const auto narrow =
      mapper->map_pictures(input.pixels.view(), input.target.row(0).subspan(1), MapMethod::kLegrad);
  ASSERT_FALSE(narrow);
  EXPECT_EQ(narrow.error().code, ErrorCode::kUsage);
  const Matrix<float> small(1, 12);
  const auto pictures = mapper->map_pictures(small.view(), input.target.row(0), MapMethod::kLegrad);
  ASSERT_FALSE(pictures);
  EXPECT_EQ(pictures.error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace saccade
