// Frames of videos, one for each scene, by ffmpeg and ffprobe if they are installed. They run in separate
// processes under limits that the kernel enforces (core/process/limited_process.h).
//
// They read one file and no other: no playlists, no protocols but files' (no network). The file is the one that is
// open here, whatever becomes of its path meanwhile. Each frame is returned as a JPEG and decoded as any untrusted image is (image/decode/process/decoder_pool.h).
// docs/adr/0014-videos-by-their-frames.md has the reasons.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade {

struct VideoTools {
  std::filesystem::path ffmpeg;
  std::filesystem::path ffprobe;
};
// Finds both programs in PATH. `nullopt` if one of them is missing.
std::optional<VideoTools> find_video_tools();
// Why a video cannot be read then, and what would change that.
inline constexpr std::string_view kNoVideoTools =
    "videos are read by ffmpeg and ffprobe, which are not here: install ffmpeg";

struct VideoOptions {
  double every_seconds = 10;  // a frame at least so often, however still the picture stands
  int64_t most_frames = 100;  // of a video; they are farther apart in a long one. 0: videos are not looked at
  double max_seconds = 600;   // of processor time, for each of the programs' calls
  int64_t max_pixels = 200'000'000;         // of a frame
  int64_t memory_bytes = int64_t{4} << 30;  // of address space
  int threads = 2;                          // that decode one video
  std::stop_token stop = {};                // asked to stop, the programs are ended: kCancelled
  // Pool whose budget the programs' memory is taken from; nullptr: memory_bytes alone bounds it. A program first gets
  // what frames of the video's size need, and is run once more with all there is if that was too little. A whole
  // video leaves images a processor.
  DecoderPool* processes = nullptr;
  double max_wait_seconds = 0;  // for the pool, as in DecodeOptions
};

struct VideoFrame {
  int64_t milliseconds = 0;  // from the beginning of the video
  std::string jpeg;          // at most kFrameSide pixels on a side, in square pixels
};
inline constexpr int kFrameSide = 1280;

struct Video {
  int width = 0;  // as it is shown, before kFrameSide
  int height = 0;
  double seconds = 0;              // as its file says, or measured if that is far off; 0 if it does not say
  std::optional<int64_t> taken;    // seconds since 1970 UTC, likewise
  std::vector<VideoFrame> frames;  // by time; the first at 0
};

// Extracts the frame at which each scene begins (a change of more than 0.3 by ffmpeg's scene score), and one
// every every_seconds between. Frames are at least one second, and at least the most_frames-th part of the
// video, apart. A video of more than 150 thousand million pixels, all frames together, is sampled by its key
// frames alone, one every every_seconds. The limit is 40 minutes of 1080p, or 10 of 2160p, at the assumed 30
// frames a second.
//
// Errors: kBadData (no video, broken before its first frame), kUnsupported (no picture in it), kLimit
// (pixels, time, memory), kCancelled, kIo. If a video is truncated later, the frames before that are
// returned. Thread-safe.
Result<Video> read_video(const VideoTools& tools, const std::filesystem::path& path,
                         const VideoOptions& options);

// Extracts that frame again, as JPEG. Same errors; kNotFound if the file, or the frame, does not exist.
Result<std::string> read_frame(const VideoTools& tools, const std::filesystem::path& path,
                               int64_t milliseconds, const VideoOptions& options);
// Likewise, from an open file; errors do not name it.
Result<std::string> read_frame(const VideoTools& tools, int file, int64_t milliseconds,
                               const VideoOptions& options);

// Extracts that frame from an open file, as JPEG, with the programs of PATH (kUnsupported without). Uses
// max_pixels, stop, processes and max_wait_seconds.
Result<std::string> read_open_frame(int file, int64_t milliseconds, const DecodeOptions& options);

// Returns the bytes of the image of that name. A frame (frame_name.h), or a video, represented by its first
// frame, is read by read_open_frame(). Otherwise returns the file's bytes, at most max_bytes, as read_file().
// Thread-safe.
Result<std::string> read_picture_file(const std::filesystem::path& path, const DecodeOptions& options);

}  // namespace saccade
