#include "walk_options.h"

#include "command.h"
#include "number.h"

namespace saccade::app {

void add_walk_options(CLI::App& command, IngestOptions& options) {
  command.add_flag("--retry-failed", options.retry_failed, "retry files that failed before");
  command.add_flag("--follow-links", options.follow_links,
                   "follow symbolic links to folders (default: skip them)");
  command.add_flag("--hidden", options.hidden, "include files and folders whose names begin with a dot");
  command
      .add_option("--exclude", options.exclude,
                  "pattern of files and folders to skip, in .gitignore syntax; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag_callback(
      "--no-ignore-files", [&options] { options.ignore_files = false; }, "ignore .saccadeignore files");
  command.add_flag_callback(
      "--no-sidecars", [&options] { options.sidecar_captions = false; },
      "do not read captions from .txt files next to images");
  command.add_flag_callback(
      "--no-metadata", [&options] { options.facts = false; },
      "do not store embedded metadata (EXIF, XMP, IPTC)");
  add_old_name(command, "--no-metadata", "--no-facts");
  options.video_tools = find_video_tools();
  add_number(
      command, "--video-seconds", options.videos.every_seconds, real_number(0),
      "maximum time between two indexed frames of a video, in seconds; the first frame of each scene is "
      "always indexed");
  add_number(command, "--video-frames", options.videos.most_frames, whole_number(0, 1000),
             "maximum number of frames per video; 0: skip videos");
}

void add_encoding_options(CLI::App& command, IngestOptions& options) {
  add_decode_options(command, options.limits);
  add_number(command, "--batch-size", options.batch, whole_number(1, 4096),
             "batch size: number of images encoded together");
  add_old_name(command, "--batch-size", "--batch");
}

}  // namespace saccade::app
