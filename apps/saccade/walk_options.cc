#include "walk_options.h"

#include "number.h"

namespace saccade::app {

void add_walk_options(CLI::App& command, IngestOptions& options) {
  command.add_flag("--retry-failed", options.retry_failed, "try again the files that failed before");
  command.add_flag("--follow-links", options.follow_links,
                   "follow symbolic links to folders (default: skip them)");
  command.add_flag("--hidden", options.hidden, "include files and folders whose names begin with a dot");
  command
      .add_option(
          "--exclude", options.exclude,
          "pattern of files and folders not to take in, as a line of .gitignore; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag_callback(
      "--no-ignore-files", [&options] { options.ignore_files = false; },
      "do not obey files called .saccadeignore");
  command.add_flag_callback(
      "--no-sidecars", [&options] { options.sidecar_captions = false; },
      "do not read captions from the .txt files beside pictures");
  command.add_flag_callback(
      "--no-facts", [&options] { options.facts = false; },
      "do not keep what files say of themselves (EXIF, XMP, IPTC)");
  options.video_tools = find_video_tools();
  command
      .add_option(
          "--video-seconds", options.videos.every_seconds,
          "longest time between two frames of a video that are taken in, in seconds; the first frame of "
          "each scene is taken in besides")
      ->transform(real_number(0))
      ->capture_default_str();
  command
      .add_option("--video-frames", options.videos.most_frames,
                  "number of frames of a video to take in at most; 0: leave videos out")
      ->transform(whole_number(0, 1000))
      ->capture_default_str();
}

}  // namespace saccade::app
