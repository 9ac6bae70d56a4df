#include "saccade/image/read_pixels.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Image grey_image(int width, int height, uint8_t level) {
  Image image{.width = width, .height = height, .channels = 1, .mode = PixelMode::kGrey, .pixels = {}};
  image.pixels.assign(static_cast<size_t>(width) * static_cast<size_t>(height), level);
  return image;
}

Preprocessing small() {
  Preprocessing preprocessing;
  preprocessing.resize_height = preprocessing.resize_width = 8;
  preprocessing.crop_height = preprocessing.crop_width = 8;
  return preprocessing;
}

// Picture i is grey of level i; of 40 x 30 pixels, every third of 300 x 200; 5 is broken, 7 cannot be read.
Result<std::string> picture(int64_t i) {
  if (i == 5) return std::string("no picture");
  if (i == 7) return fail(ErrorCode::kIo, "a failing disk");
  return encode_png(i % 3 == 0 ? grey_image(300, 200, static_cast<uint8_t>(i))
                               : grey_image(40, 30, static_cast<uint8_t>(i)));
}

TEST(ReadPixels, GivesTheReadableOnesInOrderAndTheOthersErrors) {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    const PixelBatch batch = read_pixels(12, picture, pixel_options(small()), pool);
    EXPECT_THAT(batch.which, ElementsAre(0, 1, 2, 3, 4, 6, 8, 9, 10, 11));
    ASSERT_EQ(batch.rows().rows(), 10);
    ASSERT_EQ(batch.rows().columns(), 3 * 8 * 8);
    for (int64_t r = 0; r < batch.rows().rows(); ++r) {
      const auto level = static_cast<float>(batch.which[static_cast<size_t>(r)]) / 255;
      for (const float value : batch.rows().row(r)) ASSERT_NEAR(value, level, 1e-6);
    }
    ASSERT_EQ(batch.failed.size(), 2U);
    EXPECT_EQ(batch.failed[0].first, 5);
    EXPECT_EQ(batch.failed[0].second.code, ErrorCode::kUnsupported);
    EXPECT_EQ(batch.failed[1].first, 7);
    EXPECT_THAT(batch.failed[1].second.message, HasSubstr("a failing disk"));
  }
  ThreadPool pool(2);
  EXPECT_EQ(read_pixels(0, picture, pixel_options(small()), pool).rows().rows(), 0);
}

Result<std::optional<std::string>> as_optional(Result<std::string> bytes) {
  if (!bytes) return fail(std::move(bytes).error());
  return std::optional(*std::move(bytes));
}

// However few pixels may be in flight: what is larger is decoded, and by itself.
TEST(PictureReader, NoMorePixelsAreInFlightThanAllowed) {
  constexpr int64_t kInFlight = 10'000'000;
  std::mutex mutex;
  int64_t now = 0;
  int64_t most = 0;
  const auto use = [&](const PictureView& picture) -> Status {
    const int64_t pixels = int64_t{picture.image.width} * picture.image.height;
    {
      const std::lock_guard lock(mutex);
      now += pixels;
      most = std::max(most, now);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex);
    now -= pixels;
    return {};
  };
  const std::string large = encode_png(grey_image(4000, 3000, 1)).value();  // 12 million
  const std::string medium = encode_png(grey_image(2500, 2000, 1)).value();
  const std::string little = encode_png(grey_image(200, 150, 2)).value();
  ThreadPool pool(4);
  const auto read_all = [&](const std::vector<std::string>& files) {
    PictureReader reader({}, kInFlight, 4);
    std::atomic<int> errors = 0;
    now = most = 0;
    pool.parallel_for(24, 1, [&](int64_t begin, int64_t) {
      const std::string& file = files[static_cast<size_t>(begin) % files.size()];
      if (reader.read([&] { return as_optional(file); }, 0, use).error) ++errors;
    });
    EXPECT_EQ(errors, 0);
    return most;
  };
  EXPECT_EQ(read_all({large, little, medium}), 4000 * 3000);
  EXPECT_LE(read_all({little, medium}), kInFlight);
  EXPECT_GE(read_all({little, medium}), 2500 * 2000);
}

TEST(PictureReader, TellsWhatIsTheBytesFault) {
  DecodeOptions options;
  options.max_pixels = 5'000;
  const auto done = [](const PictureView&) { return Status(); };
  const auto read = [&](const Result<std::string>& bytes, const PictureReader::Use& use) {
    PictureReader reader(options, kPixelsInFlight, 1);
    return reader.read([&] { return as_optional(bytes); }, 0, use);
  };
  EXPECT_FALSE(read(picture(1), done).error);
  EXPECT_TRUE(read(std::string("no picture"), done).of_the_bytes);
  const auto large = read(picture(3), done);
  ASSERT_TRUE(large.error);
  EXPECT_EQ(large.error->code, ErrorCode::kLimit);
  EXPECT_TRUE(large.of_the_bytes);
  const auto unread = read(picture(7), done);
  EXPECT_EQ(unread.error.value_or(Error{}).code, ErrorCode::kIo);
  EXPECT_FALSE(unread.of_the_bytes);

  const auto out_of_memory = read(picture(1), [](const PictureView&) -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(out_of_memory.error.value_or(Error{}).message, "not enough memory");
  EXPECT_FALSE(out_of_memory.of_the_bytes);

  options.max_seconds = 1e-9;
  const auto late = read(picture(1), done);
  EXPECT_EQ(late.error.value_or(Error{}).code, ErrorCode::kLimit);
  EXPECT_FALSE(late.of_the_bytes);

  bool used = false;
  PictureReader reader(options, kPixelsInFlight, 1);
  const auto nothing = reader.read([] { return Result<std::optional<std::string>>(std::nullopt); }, 0,
                                   [&](const PictureView&) {
                                     used = true;
                                     return Status();
                                   });
  EXPECT_FALSE(nothing.error);
  EXPECT_FALSE(used);
}

}  // namespace
}  // namespace saccade
