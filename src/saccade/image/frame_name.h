// Names of video frames: the video's path and the time in it, in the syntax of W3C's Media Fragments URI 1.0
// (section 4.2.1): "/home/ada/clip.mp4#t=42.041".
//
// A collection has a row for each scene of a video under such a name, so that a path still names one image
// (docs/adr/0014-videos-by-their-frames.md). Code that opens a file calls file_of() for its path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace saccade {

// Format name of video frames, whatever the video's own.
inline constexpr std::string_view kVideoFormat = "video";

// Files that are looked into for frames, judged by the name's ending alone (case-insensitive).
bool has_video_extension(const std::filesystem::path& path);

struct FrameName {
  std::string file;          // the video
  int64_t milliseconds = 0;  // from its beginning
};
std::string frame_name(std::string_view file, int64_t milliseconds);
// "#t=42.041": what frame_name() puts behind the file.
std::string frame_fragment(int64_t milliseconds);
// Parses the name of a frame. `nullopt` for any other name: the ending before "#t=" must be a video's.
std::optional<FrameName> read_frame_name(std::string_view name);

// Returns the catalog's name of a frame that was written with fewer or more decimals: "clip.mp4#t=10.000" for
// "clip.mp4#t=10". Any other path is returned as it is.
std::string settled_frame_name(std::string_view name);

// The file that has the picture of that name: the video of a frame, else the path itself.
std::string file_of(std::string_view path);
// Returns the time of a frame in its video, in seconds; `nullopt` if the path names no frame.
std::optional<double> second_of(std::string_view path);
// "0:42", "1:02:03": as players show it.
std::string time_text(double seconds);
// Returns the name for people: "clip.mp4 at 0:42", or the path itself.
std::string shown_name(std::string_view path);

}  // namespace saccade
