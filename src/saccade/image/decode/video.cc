#include "saccade/image/decode/video.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <span>
#include <sys/stat.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/json.h"
#include "saccade/core/process/limited_process.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/image/frame_name.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr double kSceneScore = 0.3;
constexpr double kLeastGap = 1;          // seconds between two frames
constexpr double kPixelsInFull = 150e9;  // decoded in some 5 to 15 minutes of a processor
constexpr double kAssumedFrameRate = 30;
constexpr int64_t kFrameBytes = int64_t{32} << 20;
// Memory of ffmpeg apart from frames, and frames that it holds at a time: references, those between threads and
// filters. Up to 10 bits a sample. With less than 192 MiB, ffmpeg 5.1 finds memory neither to decode nor to end, and
// loops. ffmpeg 7.1 of Debian 13 is linked to a BLAS; if that is OpenBLAS, it takes 128 MiB more.
constexpr int64_t kProgramBytes = int64_t{320} << 20;
constexpr int64_t kFrameBytesAPixel = 72;
constexpr int64_t kUnknownPixels = int64_t{3840} * 2160;  // of a frame, before anything has been read

// Containers that hold a video by themselves. Playlists
// (HLS, DASH, concat) name other files and are not read.
constexpr std::string_view kContainers = "mov,matroska,avi,mpeg,mpegts,mpegvideo,asf,flv,ogg";

// To the size at which it is shown, at most kFrameSide a side.
std::string scaling() {
  return fmt::format(
      "scale=w='if(between(sar,0.1,10),iw*sar,iw)':h=ih,"
      "scale=w='min({0},iw)':h='min({0},ih)':force_original_aspect_ratio=decrease,setsar=1",
      kFrameSide);
}

// The open file is the program's stdin. By this name it is opened anew, so that it can be sought in.
constexpr std::string_view kVideoInput = "file:/proc/self/fd/0";

// Programs, the open file and the options of one call.
struct VideoReading {
  const VideoTools& tools;
  int file;
  const VideoOptions& options;
  bool whole = false;  // true if all of the video is read, which may take minutes
};

// Returns the arguments that name the input file, for both programs.
std::vector<std::string> video_input() {
  return {"-v",
          "error",
          "-protocol_whitelist",
          "file,pipe",
          "-format_whitelist",
          std::string(kContainers),
          "-i",
          std::string(kVideoInput)};
}

// Returns the additional arguments of ffmpeg, which decodes.
std::vector<std::string> decoding(const VideoOptions& options) {
  const std::string threads = std::to_string(std::max(1, options.threads));
  return {"-nostdin", "-max_pixels", std::to_string(options.max_pixels), "-filter_threads", threads,
          "-threads", threads};
}

// Extracts the program's error messages, without addresses and the file's name.
std::string said(const ProcessOutcome& outcome) {
  std::vector<std::string> lines;
  std::string_view rest = outcome.errors;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.starts_with('[')) line.remove_prefix(std::min(line.find("] ") + 2, line.size()));
    if (line.starts_with(kVideoInput)) line.remove_prefix(std::min(kVideoInput.size() + 2, line.size()));
    // ffmpeg reports this for a playlist, or for an image or text of another kind.
    if (line.find("not on whitelist") != std::string_view::npos)
      return "not a container that holds a video itself";
    if (!line.empty() && std::ranges::find(lines, line) == lines.end())
      lines.emplace_back(line.substr(0, 160));
  }
  std::string text = lines.empty() ? std::string("no reason given") : lines.front();
  if (lines.size() > 1) text += "; " + lines.back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return text;
}

bool lacks_memory(const ProcessOutcome& outcome) {
  // The second is that of a thread without room for its stack, the third the loader's of a library.
  constexpr std::array<std::string_view, 3> kWords = {
      "annot allocate memory", "Resource temporarily unavailable", "failed to map segment"};
  return std::ranges::any_of(
      kWords, [&](std::string_view words) { return outcome.errors.find(words) != std::string::npos; });
}

tl::unexpected<Error> refused(std::string_view program, const ProcessOutcome& outcome) {
  if (lacks_memory(outcome)) return fail(ErrorCode::kLimit, "{} ran out of memory", program);
  return fail(ErrorCode::kBadData, "no video that {} reads: {}", program, said(outcome));
}

ProcessLimits limits_of(const VideoOptions& options) {
  return {.seconds = options.max_seconds,
          .memory_bytes = options.memory_bytes,
          .output_bytes = kFrameBytes,
          .file_bytes = kFrameBytes};
}

// Runs one of the programs, for frames of so many pixels, with a share of the pool's budget. If that is too little, or
// may be, it is run once more with as much as there is, after a call of `again`.
Result<ProcessOutcome> run_program(
    const VideoReading& reading, const fs::path& program, std::span<const std::string> arguments,
    int64_t pixels, const std::function<void()>& again = [] {}) {
  const VideoOptions& options = reading.options;
  ProcessLimits limits = limits_of(options);
  DecoderPool* const pool = options.processes;
  if (pool == nullptr) return run_limited(program, arguments, limits, options.stop, reading.file);
  const int64_t most = std::min(options.memory_bytes, pool->budget_bytes());
  if (most < kProgramBytes) {
    return fail(ErrorCode::kLimit, "{} needs {} MiB of memory, the budget for decoding is {} MiB",
                program.filename().string(), kProgramBytes >> 20, most >> 20);
  }
  // Work that may take minutes leaves images half of the memory and a processor, while that is enough.
  const int processors = reading.whole ? std::min(options.threads, pool->processes() - 1) : options.threads;
  const int64_t first = std::min(kProgramBytes + kFrameBytesAPixel * pixels,
                                 reading.whole ? std::max(most / 2, kProgramBytes) : most);
  for (int64_t bytes = first;; bytes = most) {
    SACCADE_ASSIGN(const DecoderPool::Reservation share,
                   pool->reserve(bytes, processors, options.stop, options.max_wait_seconds));
    limits.data_bytes = bytes;
    Result<ProcessOutcome> outcome = run_limited(program, arguments, limits, options.stop, reading.file);
    // A signal is often that of a program that found no memory.
    const bool lacking = outcome ? lacks_memory(*outcome) : outcome.error().code == ErrorCode::kBadData;
    if (!lacking || bytes == most) return outcome;
    again();
  }
}

// A number within a text, as ffprobe writes durations.
double number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value > 0 && value < 1e9 ? value : 0;
}

// "2024-05-31T23:30:00.000000Z". Programs that know no date
// write that of their clock's beginning (1904, 1970).
std::optional<int64_t> taken_of(const Json& format) {
  const auto tags = format.find("tags");
  if (tags == format.end() || !tags->is_object()) return std::nullopt;
  const auto found = tags->find("creation_time");
  if (found == tags->end() || !found->is_string()) return std::nullopt;
  std::tm time{};
  const std::string text = found->get<std::string>();
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return std::nullopt;
  constexpr int kFirstYear = 1980;
  constexpr int kLastYear = 2200;
  if (time.tm_year + 1900 < kFirstYear || time.tm_year + 1900 > kLastYear) return std::nullopt;
  return ::timegm(&time);
}

// Returns true if the video is displayed rotated by 90 degrees.
bool lies_on_its_side(const Json& stream) {
  const auto list = stream.find("side_data_list");
  if (list == stream.end() || !list->is_array()) return false;
  return std::ranges::any_of(*list, [](const Json& data) {
    const auto turned = data.is_object() ? data.find("rotation") : data.end();
    if (turned == data.end() || !turned->is_number()) return false;
    const auto degrees = static_cast<int64_t>(turned->get<double>());
    return degrees % 180 != 0;
  });
}

Result<Video> probe(const VideoReading& reading) {
  std::vector<std::string> arguments = {"-select_streams",
                                        "V",  // pictures of covers are no video
                                        "-show_entries",
                                        "stream=width,height,duration:stream_side_data=rotation:"
                                        "format=duration:format_tags=creation_time",
                                        "-of",
                                        "json"};
  const std::vector<std::string> file = video_input();
  arguments.insert(arguments.end(), file.begin(), file.end());
  SACCADE_ASSIGN(const ProcessOutcome outcome,
                 run_program(reading, reading.tools.ffprobe, arguments, kUnknownPixels));
  if (outcome.code != 0) return refused("ffprobe", outcome);
  SACCADE_ASSIGN(const Json json, parse_json(outcome.out).in("ffprobe"));
  const Json none = Json::object();
  const Json& format = json.contains("format") && json["format"].is_object() ? json["format"] : none;
  if (!json.contains("streams") || !json["streams"].is_array() || json["streams"].empty()) {
    return fail(ErrorCode::kUnsupported, "it has sound, or other data, and no image");
  }
  const Json& stream = json["streams"][0];
  Video video;
  SACCADE_ASSIGN(video.width, json_field_or<int>(stream, "width", 0));
  SACCADE_ASSIGN(video.height, json_field_or<int>(stream, "height", 0));
  if (video.width <= 0 || video.height <= 0) {
    return fail(ErrorCode::kBadData, "no video that ffprobe reads: images of {} x {}", video.width,
                video.height);
  }
  if (int64_t{video.width} * video.height > reading.options.max_pixels) {
    return fail(ErrorCode::kLimit, "{} x {} pixels; the limit is {} pixels", video.width, video.height,
                reading.options.max_pixels);
  }
  if (lies_on_its_side(stream)) std::swap(video.width, video.height);
  video.seconds = std::max(number_of(format, "duration"), number_of(stream, "duration"));
  video.taken = taken_of(format);
  return video;
}

// The frames that ffmpeg has written, by time.
Result<std::vector<VideoFrame>> written(const fs::path& folder) {
  std::vector<VideoFrame> frames;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().stem().string();
    VideoFrame frame;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), frame.milliseconds);
    if (bad != std::errc() || end != name.data() + name.size() || frame.milliseconds < 0) continue;
    SACCADE_ASSIGN(frame.jpeg, read_file(entry.path(), kFrameBytes));
    if (!frame.jpeg.empty()) frames.push_back(std::move(frame));
  }
  if (error) return fail_errno(error.value(), folder.string());
  std::ranges::sort(frames, {}, &VideoFrame::milliseconds);
  // If decoding begins later (frames with earlier times come first), that is the start of the video.
  if (!frames.empty()) frames.front().milliseconds = 0;
  return frames;
}

// Frames to take, by the video's duration.
struct Spacing {
  double every = 0;         // a frame at least so often, in seconds
  double gap = 0;           // none nearer to the one before
  bool key_frames = false;  // no others are looked at

  bool operator==(const Spacing&) const = default;
};

Spacing spacing_of(const Video& video, const VideoOptions& options) {
  const double share = video.seconds / static_cast<double>(std::max<int64_t>(1, options.most_frames));
  const double pixels = static_cast<double>(video.width) * video.height * video.seconds * kAssumedFrameRate;
  Spacing spacing;
  spacing.gap = std::max(kLeastGap, share);
  spacing.every = std::max(options.every_seconds, spacing.gap);
  spacing.key_frames = pixels > kPixelsInFull;
  return spacing;
}

// Returns the time of the last frame in seconds: reads the whole file, and decodes nothing.
Result<double> measure(const VideoReading& reading) {
  std::vector<std::string> arguments = {"-nostdin"};
  const std::vector<std::string> file = video_input();
  arguments.insert(arguments.end(), file.begin(), file.end());
  arguments.insert(arguments.end(), {"-map", "0:V:0", "-c", "copy", "-nostats", "-progress", "pipe:1", "-f",
                                     "null", "/dev/null"});
  SACCADE_ASSIGN(const ProcessOutcome outcome,
                 run_program(reading, reading.tools.ffmpeg, arguments, kUnknownPixels));
  constexpr std::string_view kTime = "out_time_us=";
  const size_t found = outcome.out.rfind(kTime);
  if (found == std::string::npos) return refused("ffmpeg", outcome);
  const char* const text = outcome.out.c_str() + found + kTime.size();
  return static_cast<double>(std::strtoll(text, nullptr, 10)) * 1e-6;
}

// Extracts the frames chosen by the spacing. Returns none if the run hit its limits.
Result<std::vector<VideoFrame>> extract(const VideoReading& reading, const Video& video,
                                        const Spacing& spacing) {
  std::string chosen = fmt::format("isnan(prev_selected_t)+gte(t-prev_selected_t,{:.3f})", spacing.every);
  if (!spacing.key_frames) {
    chosen += fmt::format("+gt(scene,{})*gte(t-prev_selected_t,{:.3f})", kSceneScore, spacing.gap);
  }
  SACCADE_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
  std::vector<std::string> arguments = decoding(reading.options);
  if (spacing.key_frames) arguments.insert(arguments.end(), {"-skip_frame", "nokey"});
  const std::vector<std::string> file = video_input();
  arguments.insert(arguments.end(), file.begin(), file.end());
  // A frame's file is called by its time in milliseconds.
  std::string pattern;
  for (const char c : folder.path().string()) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  arguments.insert(arguments.end(), {"-map",
                                     "0:V:0",
                                     "-vf",
                                     fmt::format("select='{}',{}", chosen, scaling()),
                                     "-frames:v",
                                     std::to_string(reading.options.most_frames),
                                     "-fps_mode",
                                     "passthrough",
                                     "-enc_time_base",
                                     "1:1000",
                                     "-c:v",
                                     "mjpeg",
                                     "-q:v",
                                     "2",
                                     "-threads",
                                     "1",
                                     "-f",
                                     "image2",
                                     "-frame_pts",
                                     "1",
                                     pattern + "/%d.jpg"});
  const auto empty = [&] {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path(), error))
      fs::remove(entry.path(), error);
  };
  SACCADE_ASSIGN(const ProcessOutcome outcome, run_program(reading, reading.tools.ffmpeg, arguments,
                                                           int64_t{video.width} * video.height, empty));
  SACCADE_ASSIGN(std::vector<VideoFrame> frames, written(folder.path()));
  if (frames.empty() && outcome.code != 0) return refused("ffmpeg", outcome);
  if (frames.empty()) {
    return fail(ErrorCode::kBadData, "no video that ffmpeg reads: no frame of it: {}", said(outcome));
  }
  return frames;
}

Result<Descriptor> open_video(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return fail_errno(errno, path.string());
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kUnsupported, "{}: not a regular file", path.string());
  return file;
}

}  // namespace

std::optional<VideoTools> find_video_tools() {
  auto ffmpeg = find_program("ffmpeg");
  auto ffprobe = find_program("ffprobe");
  if (!ffmpeg || !ffprobe) return std::nullopt;
  return VideoTools{*std::move(ffmpeg), *std::move(ffprobe)};
}

Result<Video> read_video(const VideoTools& tools, const fs::path& path, const VideoOptions& options) {
  SACCADE_ASSIGN(const Descriptor file, open_video(path));
  const VideoReading reading{tools, file.get(), options, true};
  SACCADE_ASSIGN(Video video, probe(reading));
  const Spacing spacing = spacing_of(video, options);
  SACCADE_ASSIGN(video.frames, extract(reading, video, spacing));
  // A frame comes every so often up to the end: headers may say any duration.
  const double last = static_cast<double>(video.frames.back().milliseconds) / 1000;
  const bool all = std::ssize(video.frames) < options.most_frames;
  if (!all || video.seconds <= last + 2 * spacing.every) return video;
  const Result<double> measured = measure(reading);
  if (!measured || *measured <= 0 || *measured > 0.9 * video.seconds) return video;
  video.seconds = *measured;
  const Spacing closer = spacing_of(video, options);
  if (closer != spacing) {
    SACCADE_ASSIGN(video.frames, extract(reading, video, closer));
  }
  return video;
}

Result<std::string> read_frame(const VideoTools& tools, int file, int64_t milliseconds,
                               const VideoOptions& options) {
  const VideoReading reading{tools, file, options};
  std::vector<std::string> arguments = decoding(options);
  // The first frame that is not before it; its own time may have been rounded up.
  if (milliseconds > 0) {
    arguments.insert(arguments.end(), {"-ss", fmt::format("{}ms", milliseconds - 1)});
  }
  const std::vector<std::string> named = video_input();
  arguments.insert(arguments.end(), named.begin(), named.end());
  arguments.insert(arguments.end(), {"-map", "0:V:0", "-frames:v", "1", "-vf", scaling(), "-c:v", "mjpeg",
                                     "-q:v", "2", "-threads", "1", "-f", "image2pipe", "-"});
  SACCADE_ASSIGN(ProcessOutcome outcome, run_program(reading, tools.ffmpeg, arguments, kUnknownPixels));
  if (!outcome.out.empty()) return std::move(outcome.out);
  if (outcome.code != 0) {
    // Since version 7 it is an error to ffmpeg too that no frame comes: is it that the video ends before?
    const Result<Video> video = probe(reading);
    const bool ends =
        video && video->seconds > 0 && static_cast<double>(milliseconds) >= 1000 * video->seconds;
    if (!ends) return refused("ffmpeg", outcome);
  }
  return fail(ErrorCode::kNotFound, "no frame at {}", time_text(static_cast<double>(milliseconds) / 1000));
}

Result<std::string> read_frame(const VideoTools& tools, const fs::path& path, int64_t milliseconds,
                               const VideoOptions& options) {
  SACCADE_ASSIGN(const Descriptor file, open_video(path));
  return read_frame(tools, file.get(), milliseconds, options);
}

Result<std::string> read_open_frame(int file, int64_t milliseconds, const DecodeOptions& options) {
  const auto tools = find_video_tools();
  if (!tools) return fail(ErrorCode::kUnsupported, "{}", kNoVideoTools);
  return read_frame(*tools, file, milliseconds,
                    {.max_pixels = options.max_pixels,
                     .stop = options.stop,
                     .processes = options.processes,
                     .max_wait_seconds = options.max_wait_seconds});
}

Result<std::string> read_picture_file(const fs::path& path, const DecodeOptions& options) {
  auto frame = read_frame_name(settled_frame_name(path.native()));
  if (!frame && has_video_extension(path)) frame = FrameName{path.string(), 0};
  if (!frame) return read_file(path, options.max_bytes);
  SACCADE_ASSIGN(const Descriptor file, open_video(frame->file));
  return read_open_frame(file.get(), frame->milliseconds, options).in(frame->file);
}

}  // namespace saccade
