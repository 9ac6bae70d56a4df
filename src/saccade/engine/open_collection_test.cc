// The public Collection over collections whose content is known: metadata, late interaction, and rows of removed images. Also
// the decoders of an engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"
#include "saccade/engine/lazy_decoders.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Pointwise;

class OpenCollection : public testing::Test {
 protected:
  // Writes two images with metadata, and returns the collection without the second.
  [[nodiscard]] Collection written(bool late) const {
    auto writer = CollectionWriter::create(folder_, test::fake_checkpoint(),
                                           late ? test::late_settings_of() : IngestSettings{});
    EXPECT_TRUE(writer) << writer.error().message;
    CollectionChange change;
    for (int i = 0; i < 3; ++i) {
      const std::string path = fmt::format("/{}.jpg", i);
      change.puts.push_back(late ? test::late_put_of(path, i) : test::put_of(path, i));
      ItemFacts& facts = change.puts.back().facts.emplace();
      facts.read = FactsRead::kEverything;
      facts.place = "Basel";
      facts.picture.taken = 1'700'000'000 + i;
      facts.picture.zone_minutes = 60;
      facts.picture.camera = fmt::format("Canon {}", i);
      facts.picture.lens = "50 mm";
      facts.picture.latitude = 47.5;
      facts.picture.longitude = 7.6;
      facts.picture.rating = 4;
      facts.picture.title = "a title";
      facts.picture.description = "a description";
      facts.picture.keywords = {"one", "two"};
    }
    EXPECT_TRUE(writer->commit(change));
    const std::array<int64_t, 1> second = {2};
    EXPECT_EQ(writer->remove_ids(second).value(), 1);
    auto collection = Collection::open(folder_);
    EXPECT_TRUE(collection) << collection.error().message;
    return *std::move(collection);
  }

  test::TestFolder temporary_;
  fs::path folder_ = temporary_.path() / "c";
};

TEST_F(OpenCollection, ShowsMetadata) {
  const Collection collection = written(false);
  const auto metadata = collection.metadata(3);
  ASSERT_TRUE(metadata) << metadata.error().message;
  EXPECT_EQ(metadata->taken, 1'700'000'002);
  EXPECT_EQ(metadata->zone_minutes, 60);
  EXPECT_EQ(metadata->camera, "Canon 2");
  EXPECT_EQ(metadata->lens, "50 mm");
  EXPECT_EQ(metadata->latitude, 47.5);
  EXPECT_EQ(metadata->longitude, 7.6);
  EXPECT_EQ(metadata->place, "Basel");
  EXPECT_EQ(metadata->rating, 4);
  EXPECT_EQ(metadata->title, "a title");
  EXPECT_EQ(metadata->description, "a description");
  EXPECT_THAT(metadata->keywords, ElementsAre("one", "two"));
  EXPECT_EQ(collection.images("camera=\"Canon 2\"")->front().path, "/2.jpg");
  const auto keywords = collection.values("keyword", 1);
  ASSERT_TRUE(keywords) << keywords.error().message;
  ASSERT_EQ(keywords->size(), 1U);
  EXPECT_EQ(keywords->front().images, 2);
}

TEST_F(OpenCollection, RowsOfRemovedImagesHaveNoId) {
  const Collection collection = written(false);
  EXPECT_EQ(collection.info().images, 2);
  EXPECT_EQ(collection.embeddings().rows(), 3);
  EXPECT_THAT(collection.ids(), ElementsAre(1, 0, 3));
  EXPECT_THAT(collection.allowed().value(), ElementsAre(1, 0, 1));
  EXPECT_THAT(collection.allowed("camera~2").value(), ElementsAre(0, 0, 1));
  EXPECT_THAT(collection.embeddings().row(2), Pointwise(testing::FloatEq(), test::unit_row(2)));
  EXPECT_EQ(collection.image_of_row(2)->id, 3);
  EXPECT_EQ(collection.image_of_row(1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(collection.image(2).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(collection.metadata(2).error().code, ErrorCode::kNotFound);
  std::vector<int64_t> ids;
  EXPECT_TRUE(collection.for_each_image([&](const IndexedImage& image) -> Status {
    ids.push_back(image.id);
    return {};
  }));
  EXPECT_THAT(ids, ElementsAre(1, 3));
  const Status stopped = collection.for_each_image(
      [](const IndexedImage&) -> Status { return fail(ErrorCode::kLimit, "enough"); });
  EXPECT_EQ(stopped.error().message, "enough");
}

TEST_F(OpenCollection, LateInteractionHasSeveralVectorsAnImage) {
  const Collection collection = written(true);
  EXPECT_TRUE(collection.info().late_interaction);
  const auto vectors = collection.vectors(3);
  ASSERT_TRUE(vectors) << vectors.error().message;
  const Matrix<float> expected = test::late_rows_of(2);
  ASSERT_EQ(vectors->rows(), expected.rows());
  EXPECT_THAT(vectors->values(), Pointwise(testing::FloatNear(1e-3F), expected.values()));
  EXPECT_EQ(collection.vectors(2).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(collection.calibration(QueryKind::kText).error().code, ErrorCode::kUnsupported);
}

TEST(LazyDecoders, OthersAreStartedForImagesWithoutRoom) {
  LazyDecoders decoders;
  DecoderPool* const first = decoders.get();
  if (first == nullptr) GTEST_SKIP() << "saccade-decode is not built";
  EXPECT_EQ(decoders.get(200'000'000), first);
  DecoderPool* const larger = decoders.get(1'000'000'000);
  EXPECT_NE(larger, nullptr);
  EXPECT_NE(larger, first);
  EXPECT_EQ(decoders.get(), larger);
}

}  // namespace
}  // namespace saccade
