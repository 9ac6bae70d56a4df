#include "saccade/image/decode/process/decoder_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vips/vips.h>

#include "saccade/core/files/files.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/decode/hostile_pictures.h"
#include "saccade/image/decode/process/decoder_messages.h"
#include "saccade/image/decode/process/sandbox.h"
#include "saccade/image/read_pixels.h"

namespace saccade {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

std::unique_ptr<DecoderPool> start_pool(int64_t memory_bytes = int64_t{2} << 30) {
  auto pool = DecoderPool::start({SACCADE_DECODER, memory_bytes});
  EXPECT_TRUE(pool) << pool.error().message;
  return pool ? *std::move(pool) : nullptr;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Image gradient(int width, int height, int channels) {
  Image image{width, height, channels, PixelMode::kRgb, {}};
  for (int i = 0; i < width * height * channels; ++i)
    image.pixels.push_back(static_cast<uint8_t>(i * 7 % 251));
  return image;
}

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
  }
  return pids;
}

void expect_same(const Result<DecodedImage>& there, const Result<DecodedImage>& here,
                 const std::string& what) {
  ASSERT_EQ(there.has_value(), here.has_value()) << what;
  if (!here) {
    EXPECT_EQ(there.error().code, here.error().code) << what << there.error().message << here.error().message;
    EXPECT_EQ(there.error().message, here.error().message) << what;
    return;
  }
  EXPECT_EQ(there->image.pixels, here->image.pixels) << what;
  EXPECT_EQ(there->image.width, here->image.width) << what;
  EXPECT_EQ(there->image.channels, here->image.channels) << what;
  EXPECT_EQ(there->image.mode, here->image.mode) << what;
  EXPECT_EQ(there->format, here->format) << what;
  EXPECT_EQ(there->original_height, here->original_height) << what;
}

// All the files of the tests and of the fuzzers: pixel for pixel and word for word what this process gives.
TEST(DecoderPool, GivesWhatThisProcessGives) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  const std::filesystem::path root(test::kSourceDir);
  size_t files = 0;
  for (const char* folder : {"tests/golden/preprocess", "tests/data/broken_images", "tests/data/pictures",
                             "tests/data/color_profiles", "fuzz/corpus/image"}) {
    for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md" || entry.path().extension() == ".json") continue;
      const auto bytes = read_file(entry.path());
      ASSERT_TRUE(bytes);
      ++files;
      // libheif may end the process that gives it a broken file: such are not decoded here (decode_test.cc).
      if (bytes->size() > 12 && bytes->compare(4, 4, "ftyp") == 0) continue;
      for (const int64_t only_above : {int64_t{0}, int64_t{500}}) {
        DecodeOptions options;
        options.vector_side = 64;
        options.max_pixels = 4'000'000;
        options.shrink_to_side = 16;
        options.convert_to_srgb = true;
        options.size_only_above = only_above;
        const auto here = decode_image(bytes_of(*bytes), options);
        options.processes = pool.get();
        expect_same(decode_image(bytes_of(*bytes), options), here, entry.path().string());
      }
    }
  }
  EXPECT_GT(files, 50U);
}

// Larger than what is kept of the shared memory, and a small one after it.
TEST(DecoderPool, LargePicturesComeAndGo) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  DecodeOptions options;
  options.processes = pool.get();
  for (const uint32_t side : {9'000U, 90U, 8'500U}) {
    const auto picture = decode_image(bytes_of(test::flat_png(side, side)), options);
    ASSERT_TRUE(picture) << picture.error().message;
    ASSERT_EQ(picture->image.pixels.size(), size_t{side} * side);
    EXPECT_TRUE(std::ranges::all_of(picture->image.pixels, [](uint8_t value) { return value == 255; }));
  }
  EXPECT_EQ(children().size(), 1U);
}

TEST(DecoderPool, TextsAreDrawnWithTheSameFonts) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  const std::string svg = test::svg("<text x='2' y='40' font-size='24'>Saccade</text>");
  DecodeOptions options;
  const auto here = decode_image(bytes_of(svg), options);
  options.processes = pool.get();
  expect_same(decode_image(bytes_of(svg), options), here, "text");
}

TEST(DecoderPool, SaysHowItIsIsolated) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  EXPECT_THAT(pool->isolation(), HasSubstr("files: "));
  EXPECT_THAT(pool->isolation(), HasSubstr("system calls: "));
}

struct Hostile {
  const char* name;
  std::function<std::string()> file;
  ErrorCode code;
  const char* words;
};

std::string progressive_jpeg(int width, int height) {
  const Image image = gradient(width, height, 3);
  (void)encode_png(gradient(1, 1, 1));  // starts libvips
  VipsImage* memory = vips_image_new_from_memory_copy(image.pixels.data(), image.pixels.size(), width, height,
                                                      3, VIPS_FORMAT_UCHAR);
  void* buffer = nullptr;
  size_t size = 0;
  EXPECT_EQ(vips_image_write_to_buffer(memory, ".jpg[interlace]", &buffer, &size, nullptr), 0);
  std::string file(static_cast<const char*>(buffer), size);
  g_free(buffer);
  g_object_unref(memory);
  return file;
}

std::vector<Hostile> hostile_files() {
  return {
      {"entity", test::svg_with_repeated_entity, ErrorCode::kLimit, "entities"},
      {"gzip", [] { return test::gzip_bomb("<svg xmlns='http://www.w3.org/2000/svg'>", 3000, "</svg>"); },
       ErrorCode::kLimit, "once unpacked"},
      {"too many pixels within",
       [] { return test::svg_with_picture("image/png", test::flat_png(20'000, 20'000)); }, ErrorCode::kLimit,
       "image within it: 20000 x 20000"},
      {"unknown format within", [] { return test::svg_with_picture("image/bmp", test::wide_bmp()); },
       ErrorCode::kUnsupported, "image within it"},
      {"scans", [] { return test::with_empty_scans(progressive_jpeg(400, 300), 5000); }, ErrorCode::kLimit,
       "scans, limit 500"},
      {"groups", [] { return test::svg_of_nested_groups(20); }, ErrorCode::kLimit,
       "not decoded within 1 seconds"},
      {"noise", [] { return test::svg_of_noise(60); }, ErrorCode::kLimit, "not decoded within 1 seconds"},
  };
}

// Each is one picture's error, in bounded time, and the next picture is decoded.
TEST(DecoderPool, HostileFilesAreErrors) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  const std::string good = *encode_png(gradient(30, 20, 3));
  for (const Hostile& hostile : hostile_files()) {
    SCOPED_TRACE(hostile.name);
    const std::string file = hostile.file();
    DecodeOptions options;
    options.processes = pool.get();
    options.max_seconds = std::strstr(hostile.words, "1 seconds") != nullptr ? 1 : 60;
    const auto bad = decode_image(bytes_of(file), options);
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, hostile.code) << bad.error().message;
    EXPECT_THAT(bad.error().message, HasSubstr(hostile.words));
    const auto next = decode_image(bytes_of(good), options);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->image.pixels, gradient(30, 20, 3).pixels);
  }
  EXPECT_LE(children().size(), 1U);
}

TEST(DecoderPool, MemoryIsLimitedByTheKernel) {
  const auto pool = start_pool(int64_t{200} << 20);
  ASSERT_TRUE(pool);
  if (pool->isolation().find("memory: limited") == std::string::npos) {
    GTEST_SKIP() << "sanitizers' shadow memory leaves no room for a limit: " << pool->isolation();
  }
  DecodeOptions options;
  options.processes = pool.get();
  // A tree of a million elements for librsvg, which aborts where memory ends.
  std::string elements;
  for (int i = 0; i < 150'000; ++i)
    elements += "<g fill='#123456' stroke='red' id='element" + std::to_string(i) + "'/>";
  const auto drawing = decode_image(bytes_of(test::svg(elements)), options);
  ASSERT_FALSE(drawing);
  EXPECT_EQ(drawing.error().code, ErrorCode::kLimit) << drawing.error().message;
  EXPECT_THAT(drawing.error().message, HasSubstr("its decoder ran out of its 0.195 GiB"));
  // An interlaced PNG is held whole before its first row is there.
  VipsImage* black = nullptr;
  ASSERT_EQ(vips_black(&black, 12'000, 12'000, "bands", 3, nullptr), 0);
  void* buffer = nullptr;
  size_t size = 0;
  ASSERT_EQ(vips_image_write_to_buffer(black, ".png[interlace,compression=1]", &buffer, &size, nullptr), 0);
  const std::string_view whole(static_cast<const char*>(buffer), size);
  const auto picture = decode_image(bytes_of(whole), options);
  g_free(buffer);
  g_object_unref(black);
  ASSERT_FALSE(picture);
  EXPECT_EQ(picture.error().code, ErrorCode::kLimit) << picture.error().message;
  EXPECT_THAT(picture.error().message,
              HasSubstr("12000 x 12000 pixels, 3 bands of 8 bits, interlaced: decoding "
                        "takes more than the 0.195 GiB that a decoder may have"));
  // A picture within a drawing is not left out for want of memory.
  const auto within =
      decode_image(bytes_of(test::svg_with_picture("image/png", test::flat_png(7'000, 7'000))), options);
  ASSERT_FALSE(within);
  EXPECT_EQ(within.error().code, ErrorCode::kLimit) << within.error().message;
  EXPECT_TRUE(decode_image(bytes_of(*encode_png(gradient(30, 20, 3))), options));
}

TEST(DecoderPool, CallersAtTheSameTimeHaveProcessesOfTheirOwn) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  const std::string good = *encode_png(gradient(300, 200, 3));
  const std::string slow = test::svg_of_noise(60);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DecodeOptions options;
      options.processes = pool.get();
      options.max_seconds = 0.3;
      for (int i = 0; i < 12; ++i) {
        if ((t + i) % 6 == 0) {
          EXPECT_FALSE(decode_image(bytes_of(slow), options));
        } else {
          const auto got = decode_image(bytes_of(good), options);
          ASSERT_TRUE(got) << got.error().message;
          EXPECT_EQ(got->image.pixels, gradient(300, 200, 3).pixels);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(children().size(), 4U);
}

// A 16-bit image of 4 bands that is held whole before its first row is there.
std::string interlaced_png(int side) {
  (void)encode_png(gradient(1, 1, 1));  // starts libvips
  VipsImage* black = nullptr;
  EXPECT_EQ(vips_black(&black, side, side, "bands", 4, nullptr), 0);
  VipsImage* wide = nullptr;
  EXPECT_EQ(vips_cast(black, &wide, VIPS_FORMAT_USHORT, nullptr), 0);
  VipsImage* named = nullptr;
  EXPECT_EQ(vips_copy(wide, &named, "interpretation", VIPS_INTERPRETATION_RGB16, nullptr), 0);
  void* buffer = nullptr;
  size_t size = 0;
  EXPECT_EQ(vips_image_write_to_buffer(named, ".png[interlace,compression=1]", &buffer, &size, nullptr), 0);
  std::string file(static_cast<const char*>(buffer), size);
  g_free(buffer);
  for (VipsImage* image : {named, wide, black}) g_object_unref(image);
  return file;
}

// Bytes of memory of a process by one line of its status; 0 if it has gone.
int64_t memory_of(pid_t pid, std::string_view line) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (file >> word) {
    int64_t kibibytes = 0;
    if (word == line && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

// Calls `body` on as many threads, and `look` every few milliseconds until they have returned.
void run_on_threads(int threads, const std::function<void(int)>& body, const std::function<void()>& look) {
  std::atomic<int> running = threads;
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      body(t);
      --running;
    });
  }
  while (running > 0) {
    look();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(DecoderPool, RunsNoMoreProcessesThanAllowed) {
  auto pool = DecoderPool::start({.program = SACCADE_DECODER, .processes = 2});
  ASSERT_TRUE(pool) << pool.error().message;
  const std::string slow = test::svg_of_noise(60);
  size_t most = 0;
  run_on_threads(
      10,
      [&](int) {
        DecodeOptions options;
        options.processes = pool->get();
        options.max_seconds = 0.2;
        const auto bad = decode_image(bytes_of(slow), options);
        ASSERT_FALSE(bad);
        EXPECT_EQ(bad.error().code, ErrorCode::kLimit) << bad.error().message;
      },
      [&] { most = std::max(most, children().size()); });
  EXPECT_EQ(most, 2U);
}

// Each image takes 64 MiB of working memory and 32 MiB of pixels.
TEST(DecoderPool, ImagesAtTheSameTimeStayWithinTheBudget) {
  constexpr int64_t kImage = int64_t{96} << 20;
  const std::string image = interlaced_png(2900);
  for (const bool narrow : {true, false}) {
    const int64_t budget = narrow ? 2 * kImage : 8 * kImage;
    auto pool = DecoderPool::start({.program = SACCADE_DECODER, .budget_bytes = budget, .processes = 4});
    ASSERT_TRUE(pool) << pool.error().message;
    std::atomic<int> at_once = 0;
    std::atomic<int> most_at_once = 0;
    int64_t most_bytes = 0;
    run_on_threads(
        6,
        [&](int) {
          DecodeOptions options;
          options.processes = pool->get();
          const Status used =
              (*pool)->decode_for(bytes_of(image), options, [&](const PictureView&) -> Status {
                most_at_once = std::max(most_at_once.load(), ++at_once);
                std::this_thread::sleep_for(std::chrono::milliseconds(200));
                --at_once;
                return {};
              });
          EXPECT_TRUE(used) << used.error().message;
        },
        [&] {
          int64_t bytes = 0;
          for (const pid_t pid : children())
            bytes += memory_of(pid, "RssAnon:") + memory_of(pid, "RssShmem:");
          most_bytes = std::max(most_bytes, bytes);
        });
    // Not under the sanitizers: their shadow and what they keep of freed memory are resident too.
    if ((*pool)->isolation().find("memory: limited") != std::string::npos) {
      EXPECT_LE(most_bytes, budget);
    }
    EXPECT_GE(most_bytes, kImage) << "this test no longer sees the memory";
    if (narrow) {
      EXPECT_EQ(most_at_once, 1);
    } else {
      EXPECT_GT(most_at_once, 1);
    }
  }
}

TEST(DecoderPool, RefusesAnImageThatNeedsMoreThanTheBudget) {
  auto pool = DecoderPool::start({.program = SACCADE_DECODER, .budget_bytes = int64_t{160} << 20});
  ASSERT_TRUE(pool) << pool.error().message;
  DecodeOptions options;
  options.processes = pool->get();
  const auto refused = decode_image(bytes_of(interlaced_png(4000)), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("4000 x 4000 pixels, 4 bands of 16 bits, interlaced: decoding takes 0.2"),
                    HasSubstr("the budget for decoding is 0.156 GiB")));
  // The header alone was read, and the process goes on.
  ASSERT_EQ(children().size(), 1U);
  EXPECT_LT(memory_of(children().front(), "VmHWM:"), int64_t{100} << 20);
  EXPECT_TRUE(decode_image(bytes_of(*encode_png(gradient(30, 20, 3))), options));
  // The size takes no memory.
  options.size_only_above = 1000;
  const auto size = decode_image(bytes_of(interlaced_png(4000)), options);
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(size->image.width, 4000);
  // However little the budget, one process decodes small images.
  auto least = DecoderPool::start({.program = SACCADE_DECODER, .budget_bytes = 1 << 20});
  ASSERT_TRUE(least) << least.error().message;
  options = {.processes = least->get()};
  EXPECT_TRUE(decode_image(bytes_of(*encode_png(gradient(300, 200, 3))), options));
  EXPECT_FALSE(decode_image(bytes_of(interlaced_png(3000)), options));
}

// Another program's share counts as a process's does.
TEST(DecoderPool, WhatIsReservedIsNotThereForImages) {
  constexpr int64_t kBudget = int64_t{256} << 20;
  auto pool = DecoderPool::start({.program = SACCADE_DECODER, .budget_bytes = kBudget, .processes = 2});
  ASSERT_TRUE(pool) << pool.error().message;
  const std::string good = *encode_png(gradient(30, 20, 3));
  DecodeOptions options;
  options.processes = pool->get();
  options.max_wait_seconds = 0.2;
  const auto refused = [&] {
    const auto decoded = decode_image(bytes_of(good), options);
    return decoded ? std::string("decoded") : decoded.error().message;
  };
  ASSERT_EQ(refused(), "decoded");
  ASSERT_EQ(children().size(), 1U);
  {
    const auto memory = (*pool)->reserve(int64_t{1} << 40, 0);
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_EQ(memory->bytes(), kBudget);
    EXPECT_EQ(children().size(), 0U);  // an idle process had memory
    EXPECT_EQ(refused(),
              "waited 0.2 seconds for a decoder: 0 are at work, with 0.25 GiB of 0.25 GiB of memory");
    const auto more = (*pool)->reserve(1, 0, {}, 0.1);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::kCancelled);
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ((*pool)->reserve(1, 0, stop.get_token()).error().code, ErrorCode::kCancelled);
  }
  EXPECT_EQ(refused(), "decoded");
  {
    const auto one = (*pool)->reserve(1 << 20, 1);
    ASSERT_TRUE(one);
    EXPECT_EQ(refused(), "decoded");
    const auto all = (*pool)->reserve(0, 9, {}, 0.1);
    EXPECT_FALSE(all);
  }
  {
    const auto all = (*pool)->reserve(0, 9);
    ASSERT_TRUE(all);
    EXPECT_THAT(refused(), HasSubstr("2 are at work, with 0 GiB of 0.25 GiB"));
  }
  EXPECT_EQ(refused(), "decoded");
}

// Estimates of real files suffice: a process that had run out of memory would have been replaced.
TEST(DecoderPool, IsHeldToWhatAnImageNeeds) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  if (pool->isolation().find("memory: limited") == std::string::npos) GTEST_SKIP() << pool->isolation();
  DecodeOptions options;
  options.processes = pool.get();
  ASSERT_EQ(children().size(), 1U);
  const pid_t first = children().front();
  const auto limit = [&] {
    rlimit limits{};
    EXPECT_EQ(::prlimit(first, RLIMIT_DATA, nullptr, &limits), 0);
    return static_cast<int64_t>(limits.rlim_cur);
  };
  EXPECT_LT(limit(), int64_t{160} << 20);
  const Image image = gradient(2000, 1500, 3);
  VipsImage* memory = vips_image_new_from_memory_copy(image.pixels.data(), image.pixels.size(), image.width,
                                                      image.height, 3, VIPS_FORMAT_UCHAR);
  for (const char* kind : {".png", ".png[interlace]", ".jpg", ".jpg[interlace]", ".webp", ".gif", ".tif",
                           ".tif[tile,compression=jpeg]", ".avif[speed=9]"}) {
    void* buffer = nullptr;
    size_t size = 0;
    ASSERT_EQ(vips_image_write_to_buffer(memory, kind, &buffer, &size, nullptr), 0) << kind;
    const auto decoded = decode_image(bytes_of({static_cast<const char*>(buffer), size}), options);
    g_free(buffer);
    EXPECT_TRUE(decoded) << kind << ": " << decoded.error().message;
    EXPECT_EQ(children(), std::vector<pid_t>{first}) << kind;
  }
  g_object_unref(memory);
  EXPECT_LT(limit(), int64_t{256} << 20);
}

TEST(DecoderPool, ThoseWhoWaitStopToo) {
  auto pool = DecoderPool::start({.program = SACCADE_DECODER, .processes = 1});
  ASSERT_TRUE(pool) << pool.error().message;
  std::stop_source stop;
  DecodeOptions options;
  options.processes = pool->get();
  options.stop = stop.get_token();
  const std::string slow = test::svg_of_nested_groups(20);
  std::jthread busy([&] { EXPECT_FALSE(decode_image(bytes_of(slow), options)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  DecodeOptions patient;
  patient.processes = pool->get();
  patient.max_wait_seconds = 0.2;
  const std::string good = *encode_png(gradient(30, 20, 3));
  const auto start = Clock::now();
  const auto late = decode_image(bytes_of(good), patient);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(late.error().message, HasSubstr("waited 0.2 seconds for a decoder: 1 are at work"));
  std::jthread waits([&] {
    const auto stopped = decode_image(bytes_of(good), options);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  stop.request_stop();
  waits.join();
  busy.join();
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_TRUE(decode_image(bytes_of(good), patient));
}

// A request that is answered with an error whatever else there is decodes no further.
TEST(DecoderPool, TheFirstFailureOfABatchEndsTheOthers) {
  auto pool = DecoderPool::start({.program = SACCADE_DECODER, .processes = 2});
  ASSERT_TRUE(pool) << pool.error().message;
  Preprocessing preprocessing;
  preprocessing.resize_height = preprocessing.resize_width = 8;
  preprocessing.crop_height = preprocessing.crop_width = 8;
  const std::string slow = test::svg_of_nested_groups(20);
  for (const bool caller_stops : {false, true}) {
    std::stop_source stop;
    DecodeOptions decode;
    decode.processes = pool->get();
    decode.max_seconds = 20;
    decode.stop = stop.get_token();
    PixelOptions options = pixel_options(preprocessing, decode);
    options.all_or_none = true;
    ThreadPool threads(4);
    const auto start = Clock::now();
    const std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (caller_stops) stop.request_stop();
    });
    const PixelBatch batch = read_pixels(
        16,
        [&](int64_t i) -> Result<std::string> {
          if (i != 2 || caller_stops) return slow;
          return fail(ErrorCode::kBadData, "broken");
        },
        options, threads);
    EXPECT_LT(seconds_since(start), 5);
    ASSERT_EQ(batch.failed.size(), 1U);
    if (!caller_stops) {
      EXPECT_EQ(batch.failed[0].first, 2);
    }
    EXPECT_EQ(batch.failed[0].second.code, caller_stops ? ErrorCode::kCancelled : ErrorCode::kBadData);
  }
}

TEST(DecoderPool, AStopEndsWhatIsBeingDecoded) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  std::stop_source stop;
  DecodeOptions options;
  options.processes = pool.get();
  options.stop = stop.get_token();
  const auto start = Clock::now();
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop.request_stop();
  });
  const auto result = decode_image(bytes_of(test::svg_of_nested_groups(20)), options);
  stopper.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_TRUE(children().empty());
}

// Somebody else ends a process that waits for work: another one takes its place.
TEST(DecoderPool, AProcessThatHasGoneIsReplaced) {
  const auto pool = start_pool();
  ASSERT_TRUE(pool);
  ASSERT_EQ(children().size(), 1U);
  const pid_t first = children().front();
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(first), &ended, WEXITED | WNOWAIT), 0);  // gone, not waited for
  DecodeOptions options;
  options.processes = pool.get();
  const std::string good = *encode_png(gradient(30, 20, 3));
  EXPECT_TRUE(decode_image(bytes_of(good), options));
  ASSERT_EQ(children().size(), 1U);
  EXPECT_NE(children().front(), first);
}

// Metadata are read after the pixels: a process that they crash loses no more than them.
TEST(DecoderPool, APictureOutlivesItsFacts) {
  auto pool = DecoderPool::start({SACCADE_DECODER_OF_BAD_FACTS});
  ASSERT_TRUE(pool) << pool.error().message;
  DecodeOptions options;
  options.processes = pool->get();
  options.facts = true;
  const std::string good = *encode_png(gradient(30, 20, 3));
  for (const char* way : {"", "ends", "", "spins", ""}) {
    const Status used =
        (*pool)->decode_for(bytes_of(good + way), options, [&](const PictureView& picture) -> Status {
          EXPECT_EQ(picture.facts.title, std::string_view(way).empty() ? "read" : "") << way;
          EXPECT_TRUE(std::ranges::equal(picture.image.pixels, gradient(30, 20, 3).pixels)) << way;
          return {};
        });
    EXPECT_TRUE(used) << way << ": " << used.error().message;
  }
  // Broken pixels are an error, whatever would have come of the facts.
  EXPECT_FALSE(decode_image(bytes_of(good.substr(0, 40) + "ends"), options));
}

TEST(DecoderPool, LeavesNoProcessBehind) {
  {
    const auto pool = start_pool();
    EXPECT_EQ(children().size(), 1U);
  }
  EXPECT_TRUE(children().empty());
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1);  // no zombie either
}

// The program is killed while its decoder is at work: that ends too, though it reads no messages meanwhile.
TEST(DecoderPool, ADecoderEndsWithItsProgram) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    auto pool = DecoderPool::start({SACCADE_DECODER});
    if (!pool) ::_exit(1);
    const pid_t decoder = children().empty() ? 0 : children().front();
    (void)!::write(ends[1], &decoder, sizeof decoder);
    DecodeOptions options;
    options.processes = pool->get();
    (void)decode_image(bytes_of(test::svg_of_nested_groups(20)), options);
    ::_exit(1);
  }
  pid_t decoder = 0;
  ASSERT_EQ(::read(ends[0], &decoder, sizeof decoder), static_cast<ssize_t>(sizeof decoder));
  ASSERT_GT(decoder, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ASSERT_EQ(::kill(decoder, 0), 0) << "it was to be at work still";
  ::kill(program, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(program, &status, 0), program);
  const auto start = Clock::now();
  const auto running = [&] {
    std::ifstream file("/proc/" + std::to_string(decoder) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    return static_cast<bool>(file >> number >> name >> state) && state != "Z";
  };
  while (running() && seconds_since(start) < 10) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(running());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(DecoderPool, OtherProgramsAreNoDecoders) {
  const test::TestFolder folder;
  const auto missing = DecoderPool::start({folder / "none"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound) << missing.error().message;
  const auto other = DecoderPool::start({"/bin/true"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kMismatch) << other.error().message;
  // One of another version says so itself.
  const auto script = folder.write("old", "#!/bin/sh\nexec " SACCADE_DECODER " 0 $2\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto old = DecoderPool::start({script});
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(old.error().message, HasSubstr("saccade-decode of another version"));
}

// Remaining rights of a process: each bit of the exit code is one that should have been removed, or kept.
TEST(Sandbox, LeavesWhatDecodingNeeds) {
  const test::TestFolder folder;
  const std::string secret = folder.write("secret", "x").string();
  const std::string made = (folder / "made").string();
  const pid_t child = ::fork();
  if (child == 0) {
    const Isolation got = isolate(int64_t{1} << 30);
    int wrong = 0;
    if (got.landlock > 0 && ::open(secret.c_str(), O_RDONLY) >= 0) wrong |= 1;
    if (got.seccomp) {
      if (::open(made.c_str(), O_WRONLY | O_CREAT, 0600) >= 0) wrong |= 2;
      if (::socket(AF_INET, SOCK_STREAM, 0) >= 0 || ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0) wrong |= 4;
      if (::fork() >= 0) wrong |= 8;
      if (::kill(::getppid(), 0) == 0 || ::fcntl(STDERR_FILENO, F_SETOWN, ::getppid()) == 0) wrong |= 16;
      if (::execl("/bin/true", "true", nullptr) == 0) wrong |= 32;
      // The program moves its limit of memory from picture to picture; it itself does not.
      rlimit memory{};
      if (::getrlimit(RLIMIT_CPU, &memory) != 0 || ::setrlimit(RLIMIT_CPU, &memory) != 0) wrong |= 64;
      memory = {.rlim_cur = 1 << 29, .rlim_max = 1 << 30};
      if (::setrlimit(RLIMIT_DATA, &memory) == 0 || ::setrlimit(RLIMIT_FSIZE, &memory) == 0) wrong |= 16;
    }
    // Threads and libraries work on.
    int answer = 0;
    std::thread([&] { answer = 42; }).join();
    if (answer != 42 || ::open("/usr", O_RDONLY | O_DIRECTORY) < 0) wrong |= 64;
    if (got.memory_limited && ::mmap(nullptr, size_t{2} << 30, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
      wrong |= 128;
    }
    ::_exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << ::strsignal(WTERMSIG(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(std::filesystem::exists(made));
}

// Messages that no decoder of ours sends: a process taken over by an image may send anything.
TEST(DecoderMessages, NothingIsBelieved) {
  DecodeOptions options;
  options.max_pixels = 1000;
  const Result<DecodedImage> good = DecodedImage{gradient(30, 20, 3), "png", 30, 20};
  const auto read = [&](const DecodeReply& reply) { return read_reply(reply, options); };
  const auto fine = read(reply_of(good, true));
  ASSERT_TRUE(fine) << fine.error().message;
  EXPECT_EQ(fine->pixels, 1800U);
  EXPECT_EQ(fine->picture.format, "png");
  const auto error = read(reply_of(fail(ErrorCode::kBadData, "png:\nbroken\x1b[2J"), false));
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message, "png: broken [2J");
  EXPECT_EQ(error.error().code, ErrorCode::kBadData);

  const std::vector<std::function<void(DecodeReply&)>> lies = {
      [](DecodeReply& r) { r.width = 0; },
      [](DecodeReply& r) { r.width = -30; },
      [](DecodeReply& r) { r.height = 34; },
      [](DecodeReply& r) { r.width = r.height = 1 << 30; },
      [](DecodeReply& r) { r.channels = 5; },
      [](DecodeReply& r) { r.channels = 0; },
      [](DecodeReply& r) { r.mode = 77; },
      [](DecodeReply& r) { r.mode = -1; },
      [](DecodeReply& r) { r.original_width = 0; },
      [](DecodeReply& r) { r.has_pixels = 0; },
      [](DecodeReply& r) { r.format = {}; },
      [](DecodeReply& r) { r.format.fill('x'), r.format[2] = '\n'; },
      [](DecodeReply& r) { r.error = 1000; },
      [](DecodeReply& r) { r.error = -2; },
      [](DecodeReply& r) { r.error = 2; },  // without a word
      [](DecodeReply& r) { r.shrunk = {29, 20, 0, 0, 30, 20}; },
      [](DecodeReply& r) { r.shrunk = {30, 20, 5, 0, 30, 20}; },
      [](DecodeReply& r) { r.shrunk = {30, 20, 0, std::nan(""), 30, 20}; },
      [](DecodeReply& r) { r.shrunk = {30, 20, 0, 0, 30, 23}; },
      [](DecodeReply& r) { r.shrunk = {-30, 20, 0, 0, 30, 20}; },
      [](DecodeReply& r) {
        r.format = {'r', 'a', 'w'}, r.shrunk = {250, 160, 0, 0, 30, 20};
      },
      [](DecodeReply& r) {
        r.format = {'r', 'a', 'w'}, r.shrunk = {29, 20, 0, 0, 30, 20};
      },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    DecodeReply reply = reply_of(good, true);
    lies[i](reply);
    const auto result = read(reply);
    ASSERT_FALSE(result) << i;
    EXPECT_EQ(result.error().code, ErrorCode::kInternal) << i;
  }
  const DecodeReply whole = reply_of(good, true);
  // A RAW file's preview has another size than the file.
  DecodeReply preview = whole;
  preview.format = {'r', 'a', 'w'};
  preview.shrunk = {240, 160, 0, 0, 30, 20};
  EXPECT_TRUE(read(preview));
  options.size_only_above = 100;
  EXPECT_FALSE(read(whole));
  EXPECT_EQ(read(reply_of(good, false))->pixels, 0U);
}

}  // namespace
}  // namespace saccade
