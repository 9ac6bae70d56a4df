#include "saccade/image/decode/video.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "saccade/core/files/files.h"
#include "saccade/core/process/limited_process.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/image_codec.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// ffmpeg makes the videos that it is to read.
class VideoTest : public testing::Test {
 protected:
  void SetUp() override {
    tools_ = find_video_tools();
    if (!tools_) GTEST_SKIP() << "ffmpeg and ffprobe are not installed";
  }

  fs::path make(const std::string& name, std::vector<std::string> arguments) {
    fs::path file = folder_ / name;
    arguments.insert(arguments.begin(), {"-nostdin", "-v", "error", "-y"});
    arguments.push_back(file.string());
    const auto made = run_limited(tools_->ffmpeg, arguments, {.memory_bytes = int64_t{8} << 30});
    EXPECT_TRUE(made && made->code == 0) << (made ? made->errors : made.error().message);
    return file;
  }
  // Red for 4 s, green for 3, blue for 5: 320 x 240, 25 frames a second.
  fs::path three_scenes(const std::string& name, std::vector<std::string> how = {}) {
    std::vector<std::string> arguments = {"-f",
                                          "lavfi",
                                          "-i",
                                          "color=red:s=320x240:d=4:r=25",
                                          "-f",
                                          "lavfi",
                                          "-i",
                                          "color=lime:s=320x240:d=3:r=25",
                                          "-f",
                                          "lavfi",
                                          "-i",
                                          "color=blue:s=320x240:d=5:r=25",
                                          "-filter_complex",
                                          "[0][1][2]concat=n=3:v=1"};
    how.insert(how.end(), {"-c:v", "mpeg4", "-q:v", "3"});
    arguments.insert(arguments.end(), how.begin(), how.end());
    return make(name, std::move(arguments));
  }

  Result<Video> read(const fs::path& file, const VideoOptions& options = {}) {
    return read_video(*tools_, file, options);
  }
  static std::vector<int64_t> times(const Video& video) {
    std::vector<int64_t> times;
    for (const VideoFrame& frame : video.frames) times.push_back(frame.milliseconds);
    return times;
  }
  // Returns the colour of an image of one colour.
  static std::string colour(std::string_view jpeg) {
    const auto decoded = decode_image(std::as_bytes(std::span(jpeg)));
    if (!decoded) return decoded.error().message;
    const Image& image = decoded->image;
    const uint8_t* middle =
        &image.pixels[(image.pixels.size() / 6 + static_cast<size_t>(image.width) / 2) * 3];
    const std::vector<int> rgb = {middle[0], middle[1], middle[2]};
    const auto most = std::ranges::max_element(rgb) - rgb.begin();
    return *std::ranges::min_element(rgb) > 60 ? "none" : std::array{"red", "green", "blue"}[most];
  }

  std::optional<VideoTools> tools_;
  test::TestFolder folder_;
};

TEST(FrameName, IsTheVideosAndATimeAndNothingElse) {
  EXPECT_EQ(frame_name("/a/clip.mp4", 42'041), "/a/clip.mp4#t=42.041");
  EXPECT_EQ(frame_name("/a/clip.mp4", 0), "/a/clip.mp4#t=0.000");
  const auto frame = read_frame_name("/a/#t=1.000/clip.MOV#t=3600.007");
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->file, "/a/#t=1.000/clip.MOV");
  EXPECT_EQ(frame->milliseconds, 3'600'007);
  for (const char* other :
       {"", "/a/clip.mp4", "/a/clip.mp4#t=", "/a/clip.mp4#t=1", "/a/clip.mp4#t=1.5", "/a/clip.mp4#t=01.000",
        "/a/clip.mp4#t=-1.000", "/a/clip.mp4#t=1.000 ", "/a/clip.mp4#t=.000", "/a/clip.mp4#t=1.-01",
        "/a/clip.mp4#t=9999999999999.000", "/a/picture.png#t=1.000", "/a/notes#t=1.000", "#t=1.000"}) {
    EXPECT_FALSE(read_frame_name(other)) << other;
    EXPECT_EQ(file_of(other), other);
    EXPECT_EQ(shown_name(other), other);
    EXPECT_FALSE(second_of(other));
  }
  for (const auto& [written, settled] :
       std::vector<std::pair<std::string, std::string>>{{"clip.mp4#t=10", "clip.mp4#t=10.000"},
                                                        {"/a/clip.mp4#t=10.5", "/a/clip.mp4#t=10.500"},
                                                        {"clip.mp4#t=010.0", "clip.mp4#t=10.000"},
                                                        {"clip.mp4#t=42.0411", "clip.mp4#t=42.041"},
                                                        {"clip.mp4#t=42.041", "clip.mp4#t=42.041"}}) {
    EXPECT_EQ(settled_frame_name(written), settled);
    EXPECT_TRUE(read_frame_name(settled));
  }
  for (const char* other :
       {"", "clip.mp4", "clip.mp4#t=", "clip.mp4#t=.", "clip.mp4#t=1.", "clip.mp4#t=.5", "clip.mp4#t=-1",
        "clip.mp4#t=1.2.3", "clip.mp4#t=1,2", "clip.mp4#t=9999999999999", "picture.png#t=1", "#t=1"}) {
    EXPECT_EQ(settled_frame_name(other), other);
  }
  EXPECT_EQ(file_of("/a/clip.mp4#t=42.041"), "/a/clip.mp4");
  EXPECT_EQ(*second_of("/a/clip.mp4#t=42.041"), 42.041);
  EXPECT_EQ(shown_name("/a/clip.mp4#t=42.041"), "/a/clip.mp4 at 0:42");
  EXPECT_EQ(time_text(59.999), "0:59");
  EXPECT_EQ(time_text(61), "1:01");
  EXPECT_EQ(time_text(3723.5), "1:02:03");
}

TEST_F(VideoTest, GivesAFrameOfEachScene) {
  const auto video = read(three_scenes("clip.mp4", {"-metadata", "creation_time=2019-07-14T21:30:05Z"}));
  ASSERT_TRUE(video) << video.error().message;
  EXPECT_EQ(video->width, 320);
  EXPECT_EQ(video->height, 240);
  EXPECT_NEAR(video->seconds, 12, 0.1);
  EXPECT_EQ(video->taken, 1'563'139'805);
  ASSERT_THAT(times(*video), ElementsAre(0, 4000, 7000));
  EXPECT_EQ(colour(video->frames[0].jpeg), "red");
  EXPECT_EQ(colour(video->frames[1].jpeg), "green");
  EXPECT_EQ(colour(video->frames[2].jpeg), "blue");
}

TEST_F(VideoTest, ReadsTheContainersThatPeopleHave) {
  for (const char* name : {"clip.mkv", "clip.mov", "clip.avi", "clip.mpg", "clip.m2ts"}) {
    const auto video = read(three_scenes(name));
    ASSERT_TRUE(video) << name << ": " << video.error().message;
    ASSERT_EQ(video->frames.size(), 3U) << name;
    EXPECT_EQ(video->frames[0].milliseconds, 0) << name;
    EXPECT_NEAR(static_cast<double>(video->frames[1].milliseconds), 4000, 50) << name;
    EXPECT_EQ(colour(video->frames[2].jpeg), "blue") << name;
  }
}

// The frame that is shown later is the one that was indexed, also at frame rates whose times are no whole
// milliseconds.
TEST_F(VideoTest, FindsAFrameAgainByItsTime) {
  const fs::path file =
      make("counted.mkv", {"-f", "lavfi", "-i", "testsrc=s=160x120:d=4:r=30000/1001", "-c:v", "ffv1"});
  const auto video = read(file, {.every_seconds = 1});
  ASSERT_TRUE(video) << video.error().message;
  ASSERT_GE(video->frames.size(), 3U);
  for (const VideoFrame& frame : video->frames) {
    const auto again = read_frame(*tools_, file, frame.milliseconds, {});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(decode_image(std::as_bytes(std::span(*again))).value().image.pixels,
              decode_image(std::as_bytes(std::span(frame.jpeg))).value().image.pixels)
        << frame.milliseconds;
  }
  const auto beyond = read_frame(*tools_, file, 60'000, {});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kNotFound);
  const auto by_name = read_picture_file(frame_name(file.string(), 0), {});
  ASSERT_TRUE(by_name) << by_name.error().message;
  EXPECT_EQ(*by_name, *read_frame(*tools_, file, 0, {}));
}

TEST_F(VideoTest, TakesAFrameNowAndThenOfAStillPictureAndNeverTooMany) {
  const fs::path still =
      make("still.mp4", {"-f", "lavfi", "-i", "color=red:s=64x64:d=35:r=5", "-c:v", "mpeg4"});
  EXPECT_THAT(times(*read(still)), ElementsAre(0, 10'000, 20'000, 30'000));
  EXPECT_THAT(times(*read(still, {.every_seconds = 20})), ElementsAre(0, 20'000));
  // Spread over the whole, not the first three.
  EXPECT_THAT(times(*read(still, {.most_frames = 3})),
              testing::AllOf(testing::SizeIs(3), testing::Contains(testing::Gt(20'000))));
  // A flicker is not a scene each time.
  const fs::path flicker =
      make("flicker.mp4", {"-f", "lavfi", "-i", "color=white:s=64x64:d=6:r=10", "-vf",
                           "drawbox=t=fill:color=black:enable='mod(n,2)'", "-c:v", "mpeg4"});
  EXPECT_LE(read(flicker)->frames.size(), 7U);
}

// 50 minutes of 1080p: more than is decoded in full.
TEST_F(VideoTest, LooksAtVeryLongVideosByTheirKeyFrames) {
  const fs::path file =
      make("long.mkv", {"-f", "lavfi", "-i", "color=red:s=1920x1080:d=1500:r=0.1", "-f", "lavfi", "-i",
                        "color=blue:s=1920x1080:d=1500:r=0.1", "-filter_complex", "[0][1]concat=n=2:v=1",
                        "-c:v", "mpeg4", "-g", "6", "-sc_threshold", "1000000000"});
  const auto video = read(file);
  ASSERT_TRUE(video) << video.error().message;
  ASSERT_EQ(video->frames.size(), 50U);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(video->frames[i].milliseconds, static_cast<int64_t>(i) * 60'000);
  EXPECT_EQ(colour(video->frames.back().jpeg), "blue");
}

TEST_F(VideoTest, ShowsWhatIsTurnedAndWideAsPlayersDo) {
  const fs::path lying = make("lying.mp4", {"-f", "lavfi", "-i", "testsrc=s=320x200:d=1", "-c:v", "mpeg4"});
  const fs::path turned =
      make("turned.mp4", {"-i", lying.string(), "-c", "copy", "-metadata:s:v:0", "rotate=90"});
  const auto video = read(turned);
  ASSERT_TRUE(video) << video.error().message;
  const auto frame = decode_image(std::as_bytes(std::span(video->frames.at(0).jpeg)));
  ASSERT_TRUE(frame);
  EXPECT_EQ(video->width, frame->image.width);
  EXPECT_EQ(video->height, frame->image.height);
  const fs::path wide = make("wide.mkv", {"-f", "lavfi", "-i", "testsrc=s=3000x100:d=1", "-c:v", "mpeg4"});
  const auto large = read(wide);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(large->width, 3000);
  EXPECT_EQ(decode_image(std::as_bytes(std::span(large->frames.at(0).jpeg)))->image.width, kFrameSide);
}

TEST_F(VideoTest, SaysWhatIsWrongWithAFile) {
  const auto error = [&](const fs::path& file, const VideoOptions& options = {}) {
    const auto video = read(file, options);
    return video ? Error{ErrorCode::kInternal, "it was read"} : video.error();
  };
  EXPECT_EQ(error(folder_ / "none.mp4").code, ErrorCode::kNotFound);
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"empty.mp4", ""},
           {"text.mp4", "Once upon a time, there was a text that was called a video.\n"},
           {"zeros.mp4", std::string(10'000, '\0')},
           // Playlists could name any file of the machine, or of the network.
           {"list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:" +
                            three_scenes("a.mp4").string() + "\n#EXT-X-ENDLIST\n"},
           {"joined.mp4", "ffconcat version 1.0\nfile a.mp4\n"}}) {
    const Error found = error(folder_.write(name, content));
    EXPECT_EQ(found.code, ErrorCode::kBadData) << name << ": " << found.message;
    EXPECT_THAT(found.message, HasSubstr("no video that ffprobe reads: ")) << name;
    EXPECT_THAT(found.message, testing::Not(HasSubstr(folder_.path().string()))) << name;
  }
  const fs::path sound = make("sound.mp4", {"-f", "lavfi", "-i", "sine=d=1", "-c:a", "aac"});
  EXPECT_EQ(error(sound).code, ErrorCode::kUnsupported);
  EXPECT_THAT(error(sound).message, HasSubstr("no image"));
  const fs::path clip = three_scenes("clip.mkv");
  EXPECT_EQ(error(clip, {.max_pixels = 320 * 240 - 1}).code, ErrorCode::kLimit);
  EXPECT_THAT(error(clip, {.max_pixels = 320 * 240 - 1}).message, HasSubstr("320 x 240 pixels"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error(clip, {.stop = stop.get_token()}).code, ErrorCode::kCancelled);
}

TEST_F(VideoTest, ReadsWhatThereIsOfABrokenVideo) {
  const std::string whole = read_file(three_scenes("clip.mkv")).value();
  const auto half = read(folder_.write("half.mkv", whole.substr(0, whole.size() / 2)));
  ASSERT_TRUE(half) << half.error().message;
  EXPECT_LT(half->frames.size(), 4U);
  EXPECT_EQ(colour(half->frames.at(0).jpeg), "red");
  // Whatever is cut off or changed, there is an answer.
  for (size_t i = 1; i < 8; ++i) {
    std::string broken = whole.substr(0, whole.size() * i / 8);
    for (size_t at = 100 * i; at < broken.size(); at += 997)
      broken[at] = static_cast<char>(broken[at] ^ 0x55);
    const auto video = read(folder_.write("broken.mkv", broken));
    EXPECT_TRUE(!video || !video->frames.empty());
  }
}

// Headers of films that were never closed, or lie, say any duration; 0xFFFFFFFF is MP4's for "unknown".
TEST_F(VideoTest, FindsTheScenesWhateverTheHeaderSaysOfTheDuration) {
  std::string bytes = read_file(three_scenes("clip.mp4")).value();
  const size_t header = bytes.find("mvhd");
  ASSERT_LT(header, bytes.size() - 100);
  constexpr size_t kDuration = 20;  // behind the name, flags, two times and the time scale
  for (size_t i = 0; i < 4; ++i) bytes[header + kDuration + i] = '\xff';
  const fs::path lying = folder_.write("lying.mp4", bytes);
  // The same in another container, which says it once.
  std::string other = read_file(three_scenes("clip.mkv")).value();
  const size_t duration =
      other.find(std::string("\x44\x89\x88", 3));  // an EBML float of 8 bytes, in milliseconds
  ASSERT_LT(duration, other.size() - 100);
  other.replace(duration + 3, 8, std::string("\x41\xf0\x00\x00\x00\x00\x00\x00", 8));  // 2^32
  for (const fs::path& file : {lying, folder_.write("lying.mkv", other)}) {
    const auto video = read(file);
    ASSERT_TRUE(video) << video.error().message;
    std::vector<int64_t> times;
    for (const VideoFrame& frame : video->frames) times.push_back(frame.milliseconds);
    EXPECT_THAT(times, testing::ElementsAre(0, 4000, 7000)) << file;
    EXPECT_NEAR(video->seconds, 12, 0.1) << file;
  }
}

// A file of some kilobytes whose frames would be 240 million pixels each:
// refused before one is decoded. One that lasts for a day: within bounds.
TEST_F(VideoTest, IsNotEndedByBombs) {
  std::string bytes =
      read_file(make("small.avi", {"-f", "lavfi", "-i", "color=black:s=64x64:d=1:r=5", "-c:v", "ffv1"}))
          .value();
  const size_t header = bytes.find("strf") + 12;  // of the stream's format: its size, then width and height
  ASSERT_LT(header, bytes.size() - 8);
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  for (const auto& [width, height] : {std::pair{20'000U, 12'000U}, {0U, 0U}, {0x7fffffffU, 0x7fffffffU}}) {
    put(header, width);
    put(header + 4, height);
    const auto refused = read(folder_.write("wide.avi", bytes));
    ASSERT_FALSE(refused) << width;
    EXPECT_EQ(refused.error().code, width == 20'000U ? ErrorCode::kLimit : ErrorCode::kBadData)
        << refused.error().message;
  }
  const fs::path lasting =
      make("lasting.mkv", {"-f", "lavfi", "-i", "color=black:s=16x16:d=100000:r=0.01", "-c:v", "ffv1"});
  const auto video = read(lasting);
  ASSERT_TRUE(video) << video.error().message;
  EXPECT_LE(video->frames.size(), 100U);
  // Memory that is not there, time that is over.
  const fs::path clip = three_scenes("clip.mp4");
  const auto starved = read(clip, {.memory_bytes = int64_t{200} << 20});
  ASSERT_FALSE(starved);
  EXPECT_NE(starved.error().code, ErrorCode::kInternal);
}

// The file that is open is the one that is read, although its path leads elsewhere by then.
TEST_F(VideoTest, ReadsTheFileThatWasOpened) {
  const fs::path clip = make("clip.mp4", {"-f", "lavfi", "-i", "color=red:s=64x48:d=1:r=5", "-c:v", "mpeg4"});
  const fs::path other =
      make("other.mp4", {"-f", "lavfi", "-i", "color=blue:s=64x48:d=1:r=5", "-c:v", "mpeg4"});
  // Programs that swap the file before they read it.
  const auto swapping = [&](const fs::path& program) {
    const fs::path script = folder_.write("swap " + program.filename().string(),
                                          fmt::format("#!/bin/sh\nln -sf '{}' '{}'\nexec '{}' \"$@\"\n",
                                                      other.string(), clip.string(), program.string()));
    fs::permissions(script, fs::perms::owner_all);
    return script;
  };
  const std::string before = *read_file(clip);
  const VideoTools tools{swapping(tools_->ffmpeg), swapping(tools_->ffprobe)};
  const auto frame = read_frame(tools, clip, 0, {});
  ASSERT_TRUE(frame) << frame.error().message;
  ASSERT_TRUE(fs::is_symlink(clip));
  EXPECT_EQ(colour(*frame), "red");
  fs::remove(clip);
  folder_.write("clip.mp4", before);
  const auto video = read_video(tools, clip, {});
  ASSERT_TRUE(video) << video.error().message;
  ASSERT_TRUE(fs::is_symlink(clip));
  EXPECT_EQ(colour(video->frames.at(0).jpeg), "red");
}

// The programs' memory counts against the decoders' budget.
TEST_F(VideoTest, TakesItsMemoryFromThePool) {
  constexpr int64_t kBudget = int64_t{3} << 30;
  auto pool = DecoderPool::start({.program = SACCADE_DECODER, .budget_bytes = kBudget, .processes = 2});
  ASSERT_TRUE(pool) << pool.error().message;
  const VideoOptions options{.processes = pool->get(), .max_wait_seconds = 0.2};
  const fs::path clip = three_scenes("clip.mp4");
  EXPECT_TRUE(read(clip, options));
  EXPECT_TRUE(read_frame(*tools_, clip, 4000, options));
  {
    const auto all = (*pool)->reserve(kBudget, 0);
    ASSERT_TRUE(all);
    for (const Error& error : {read(clip, options).error(), read_frame(*tools_, clip, 0, options).error()}) {
      EXPECT_EQ(error.code, ErrorCode::kCancelled);
      EXPECT_THAT(error.message, HasSubstr("waited 0.2 seconds for a decoder"));
    }
  }
  {
    // A frame waits for a processor; a whole video, which takes long, leaves images one.
    const auto processors = (*pool)->reserve(0, 1);
    EXPECT_FALSE(read_frame(*tools_, clip, 0, options));
    EXPECT_TRUE(read(clip, options));
  }
  // A program that finds no memory is run again with all there is.
  const fs::path log = folder_ / "limits";
  const auto starving = [&](const fs::path& program) {
    const fs::path script = folder_.write(
        "starving " + program.filename().string(),
        fmt::format("#!/bin/sh\nulimit -d >>'{}'\nif [ $(ulimit -d) -lt 3145728 ]; then\n  echo 'Cannot "
                    "allocate memory' >&2\n  exit 1\nfi\nexec '{}' \"$@\"\n",
                    log.string(), program.string()));
    fs::permissions(script, fs::perms::owner_all);
    return script;
  };
  const VideoTools tools{starving(tools_->ffmpeg), starving(tools_->ffprobe)};
  ASSERT_TRUE(read_frame(tools, clip, 0, options));
  EXPECT_EQ(*read_file(log), "910880\n3145728\n");  // KiB: 320 MiB and 72 bytes a pixel of 3840 x 2160; all
  fs::remove(log);
  const auto video = read_video(tools, clip, options);
  ASSERT_TRUE(video) << video.error().message;
  EXPECT_THAT(times(*video), ElementsAre(0, 4000, 7000));
  EXPECT_EQ(*read_file(log), "910880\n3145728\n333080\n3145728\n");  // the frames are 320 x 240
}

TEST_F(VideoTest, RefusesAVideoThatNeedsMoreThanTheBudget) {
  const fs::path large =
      make("large.mkv", {"-f", "lavfi", "-i", "color=red:s=12000x16000:d=1:r=1", "-c:v", "mjpeg"});
  ASSERT_TRUE(read_frame(*tools_, large, 0, {}));
  const auto with_budget = [](int64_t mebibytes) {
    return DecoderPool::start({.program = SACCADE_DECODER, .budget_bytes = mebibytes << 20}).value();
  };
  // Less than the programs take for any video.
  const auto little = with_budget(160);
  const auto frame = read_frame(*tools_, large, 0, {.processes = little.get()});
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kLimit) << frame.error().message;
  EXPECT_THAT(frame.error().message,
              HasSubstr("needs 320 MiB of memory, the budget for decoding is 160 MiB"));
  EXPECT_FALSE(read(large, {.processes = little.get()}));
  // Enough for small ones: the kernel holds the programs to it.
  const auto some = with_budget(330);
  EXPECT_TRUE(read_frame(*tools_, three_scenes("clip.mp4"), 0, {.processes = some.get()}));
  EXPECT_FALSE(read_frame(*tools_, large, 0, {.processes = some.get()}));
}

TEST(VideoTools, AreSaidToBeMissing) {
  EXPECT_THAT(std::string(kNoVideoTools), HasSubstr("ffmpeg"));
}

}  // namespace
}  // namespace saccade
