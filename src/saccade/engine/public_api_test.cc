// The public API as a program outside sees it: this file includes no other header of the library.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <saccade/saccade.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Pointwise;

saccade::Image plain(uint8_t red, uint8_t green, uint8_t blue, int side = 40) {
  saccade::Image image{.width = side, .height = side, .channels = 3};
  for (int i = 0; i < side * side; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
  return image;
}

// A bitmap file (BMP, 24 bits): a format simple enough to be written here.
void write_bitmap(const fs::path& path, const saccade::Image& image) {
  std::string bytes(54, '\0');
  const auto put = [&](size_t at, uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i));
  };
  const int stride = (image.width * 3 + 3) / 4 * 4;
  bytes[0] = 'B';
  bytes[1] = 'M';
  put(2, static_cast<uint32_t>(54 + stride * image.height), 4);
  put(10, 54, 4);
  put(14, 40, 4);
  put(18, static_cast<uint32_t>(image.width), 4);
  put(22, static_cast<uint32_t>(image.height), 4);
  put(26, 1, 2);
  put(28, 24, 2);
  for (int y = image.height - 1; y >= 0; --y) {
    std::string row(static_cast<size_t>(stride), '\0');
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        row[static_cast<size_t>(x * 3 + c)] =
            static_cast<char>(image.pixels[static_cast<size_t>((y * image.width + x) * 3 + 2 - c)]);
      }
    }
    bytes += row;
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string starter() {
  return (fs::path(saccade::test::kSourceDir) / "models/starter").string();
}

class PublicApi : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "images");
    write_bitmap(folder_ / "images/red.bmp", plain(220, 20, 20));
    write_bitmap(folder_ / "images/green.bmp", plain(20, 200, 40));
    write_bitmap(folder_ / "images/blue.bmp", plain(20, 40, 220));
  }
  [[nodiscard]] saccade::Engine filled() const {
    auto engine =
        saccade::Engine::open((folder_ / "c").string(), {.encoder = starter(), .create = true, .threads = 1});
    EXPECT_TRUE(engine) << engine.error().message;
    const auto report = engine->index({folder_ / "images"});
    EXPECT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->added, 3);
    return *std::move(engine);
  }
  saccade::test::TestFolder folder_;
};

TEST_F(PublicApi, EncodesAndCompares) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ(encoder->info().precision, saccade::Precision::kFp32);
  const auto images =
      encoder->encode_images({(folder_ / "images/red.bmp").string(), (folder_ / "images/blue.bmp").string()});
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 2);
  EXPECT_EQ(images->dim(), encoder->info().dim);
  const auto texts = encoder->encode_texts({"a red square", "a blue square"});
  ASSERT_TRUE(texts) << texts.error().message;
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(saccade::dot(images->row(i), images->row(i)), 1, 1e-5);
    EXPECT_NEAR(saccade::dot(texts->row(i), texts->row(i)), 1, 1e-5);
  }
  EXPECT_LT(saccade::dot(images->row(0), images->row(1)), 0.9999F);
}

TEST_F(PublicApi, FilesBytesAndPixelsGiveOneEmbedding) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::ifstream file(folder_ / "images/green.bmp", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto images = encoder->encode_images(
      {folder_ / "images/green.bmp", saccade::ImageInput::bytes(std::move(bytes)), plain(20, 200, 40)},
      {.batch_size = 2});
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 3);
  for (int64_t i = 1; i < 3; ++i) {
    EXPECT_THAT(images->row(i), Pointwise(testing::FloatNear(1e-5F), images->row(0)));
  }
  // The same through the caller's own preprocessing.
  const saccade::Preprocessing& how = encoder->preprocessing();
  saccade::Matrix<float> pixels(1, int64_t{3} * how.output_height() * how.output_width());
  ASSERT_TRUE(saccade::preprocess(plain(20, 200, 40), how, pixels.row(0)));
  const auto own = encoder->encode_pixels(pixels.view());
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT(own->row(0), Pointwise(testing::FloatNear(1e-5F), images->row(0)));
  EXPECT_EQ(encoder->encode_pixels(saccade::Matrix<float>(1, 5).view()).error().code,
            saccade::ErrorCode::kUsage);
}

TEST_F(PublicApi, OneBadImageIsNamedOrSkipped) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::ofstream(folder_ / "images/broken.png") << "no image";
  const std::vector<saccade::ImageInput> inputs = {folder_ / "images/red.bmp", folder_ / "images/broken.png",
                                                   folder_ / "images/blue.bmp", folder_ / "images/gone.png"};
  const auto failed = encoder->encode_images(inputs);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("image 1 ("));
  for (const int batch_size : {1, 2, 4}) {
    const auto skipped =
        encoder->encode_images(inputs, {.batch_size = batch_size, .on_error = saccade::OnError::kSkip});
    ASSERT_TRUE(skipped) << skipped.error().message;
    ASSERT_EQ(skipped->size(), 2);
    ASSERT_EQ(skipped->skipped().size(), 2U);
    EXPECT_EQ(skipped->skipped()[0].index, 1);
    EXPECT_EQ(skipped->skipped()[1].index, 3);
    EXPECT_EQ(skipped->skipped()[1].error.code, saccade::ErrorCode::kNotFound);
    const auto blue = encoder->encode_images({folder_ / "images/blue.bmp"});
    EXPECT_THAT(skipped->row(1), Pointwise(testing::FloatNear(1e-5F), blue->row(0)));
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(encoder->encode_images(inputs, {.stop = stop.get_token()}).error().code,
            saccade::ErrorCode::kCancelled);
}

TEST_F(PublicApi, TokensAreCounted) {
  const auto encoder = saccade::Encoder::load(starter(), {.threads = 1});
  ASSERT_TRUE(encoder) << encoder.error().message;
  std::string long_text;
  for (int i = 0; i < 500; ++i) long_text += "word ";
  const std::vector<std::string> texts = {"a bell", long_text};
  const auto uses = encoder->tokens(texts);
  ASSERT_TRUE(uses) << uses.error().message;
  EXPECT_GT((*uses)[0].used, 0);
  EXPECT_EQ((*uses)[0].dropped, 0);
  EXPECT_GT((*uses)[1].dropped, 400);
  EXPECT_EQ(encoder->encode_texts_multi(texts).error().code, saccade::ErrorCode::kUnsupported);
}

TEST_F(PublicApi, IndexesAndSearches) {
  const saccade::Engine engine = filled();
  const auto answer = engine.search("red", {.k = 2});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hits.size(), 2U);
  EXPECT_EQ(answer->searched, 3);
  EXPECT_EQ(answer->hits[0].rank, 1);
  EXPECT_EQ(answer->hits[0].path.filename(), "red.bmp");  // by its name
  EXPECT_TRUE(answer->hits[0].by_keywords);
  const auto by_image = engine.search(saccade::Query::image(plain(20, 40, 220)), {.k = 1});
  ASSERT_TRUE(by_image) << by_image.error().message;
  EXPECT_EQ(by_image->hits[0].path.filename(), "blue.bmp");
  EXPECT_NEAR(by_image->hits[0].score, 1, 1e-4);
  const auto composed = engine.search(saccade::Query::image(folder_ / "images/red.bmp").but("but green"));
  ASSERT_TRUE(composed) << composed.error().message;
  EXPECT_EQ(composed->hits.size(), 3U);
  const auto like = engine.like(answer->hits[0].id);
  ASSERT_TRUE(like) << like.error().message;
  EXPECT_EQ(like->hits.size(), 2U);
  for (const saccade::Hit& hit : like->hits) EXPECT_NE(hit.id, answer->hits[0].id);
  const auto filtered = engine.search("red", {.filter = "path~green"});
  ASSERT_TRUE(filtered) << filtered.error().message;
  ASSERT_EQ(filtered->hits.size(), 1U);
  EXPECT_EQ(filtered->hits[0].path.filename(), "green.bmp");
}

TEST_F(PublicApi, ManyThreadsSearchWhileOneIndexes) {
  saccade::Engine engine = filled();
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto answer = engine.search("a green square", {.k = 10});
        if (!answer || answer->hits.size() < 3) ++failures;
      }
    });
  }
  write_bitmap(folder_ / "images/white.bmp", plain(250, 250, 250));
  const auto report = engine.index({folder_ / "images"});
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->unchanged, 3);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(engine.info().images, 4);
}

TEST_F(PublicApi, LooksImagesUpAndRemovesThem) {
  saccade::Engine engine = filled();
  const auto images = engine.images();
  ASSERT_TRUE(images) << images.error().message;
  ASSERT_EQ(images->size(), 3U);
  const saccade::Engine::Rows rows = engine.embeddings();
  ASSERT_EQ(rows.ids[static_cast<size_t>(images->front().row)], images->front().id);
  EXPECT_EQ(rows.rows.columns(), engine.info().dim);
  const auto one = engine.image(images->front().path);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->id, images->front().id);
  const std::vector<int64_t> ids = {one->id};
  ASSERT_TRUE(engine.remove(ids));
  EXPECT_EQ(engine.info().images, 2);
  EXPECT_EQ(engine.image(one->id).error().code, saccade::ErrorCode::kNotFound);
  EXPECT_EQ(engine.like(one->id).error().code, saccade::ErrorCode::kNotFound);
  // Embeddings that were mapped earlier remain valid.
  EXPECT_EQ(rows.rows.rows(), 3);
  const auto encoder = engine.encoder();
  ASSERT_TRUE(encoder) << encoder.error().message;
  EXPECT_EQ(encoder->info().fingerprint, engine.info().fingerprint);
}

TEST_F(PublicApi, WrongUseIsAnErrorThatNamesIt) {
  const std::string nowhere = (folder_ / "nowhere").string();
  const auto none = saccade::Engine::open(nowhere);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, saccade::ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr(nowhere));
  EXPECT_FALSE(fs::exists(nowhere));
  EXPECT_EQ(saccade::Engine::open("weaviate://db:8080/Photos").error().code,
            saccade::ErrorCode::kUnsupported);
  EXPECT_EQ(saccade::Encoder::load(nowhere).error().code, saccade::ErrorCode::kNotFound);
  const saccade::Engine engine = filled();
  EXPECT_EQ(engine.search("", {}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.k = 0}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.filter = "width>>3"}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search("red", {.keyword_weight = 2}).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(engine.search(saccade::Query::image(folder_ / "gone.png")).error().code,
            saccade::ErrorCode::kNotFound);
}

TEST(TopK, IsExactOverYourOwnMatrix) {
  saccade::Matrix<float> rows(4, 2);
  const float values[] = {3, 0, 0, 1, 1, 1, 0, 0};
  std::ranges::copy(values, rows.values().begin());
  saccade::Matrix<float> queries(1, 2);
  queries(0, 0) = 1;
  const auto product = saccade::top_k(queries.view(), rows.view(), 2, {.threads = 1});
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->rows(0, 0), 0);
  EXPECT_EQ(product->rows(0, 1), 2);
  EXPECT_FLOAT_EQ(product->scores(0, 0), 3);
  const auto cosine = saccade::top_k(queries.view(), rows.view(), 6, {.metric = saccade::Metric::kCosine});
  ASSERT_TRUE(cosine) << cosine.error().message;
  EXPECT_FLOAT_EQ(cosine->scores(0, 0), 1);
  EXPECT_NEAR(cosine->scores(0, 1), std::sqrt(0.5), 1e-6);
  EXPECT_EQ(cosine->rows(0, 4), -1);
  const std::vector<uint8_t> allowed = {0, 1, 1, 1};
  const auto filtered = saccade::top_k(queries.view(), rows.view(), 1, {.allowed = allowed});
  EXPECT_EQ(filtered->rows(0, 0), 2);
  EXPECT_EQ(saccade::top_k(queries.view(), rows.view(), 0).error().code, saccade::ErrorCode::kUsage);
  EXPECT_EQ(saccade::top_k(saccade::Matrix<float>(1, 3).view(), rows.view(), 1).error().code,
            saccade::ErrorCode::kMismatch);
}

TEST(MaxSim, SumsTheLargestDots) {
  saccade::Matrix<float> query(2, 2);
  query(0, 0) = 1;
  query(1, 1) = 1;
  saccade::Matrix<float> item(3, 2);
  const float values[] = {0.5F, 0.1F, 0.2F, 0.7F, -1, -1};
  std::ranges::copy(values, item.values().begin());
  EXPECT_FLOAT_EQ(saccade::max_sim(query.view(), item.view()).value(), 1.2F);
}

}  // namespace
