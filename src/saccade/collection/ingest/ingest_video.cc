#include "saccade/collection/ingest/ingest_video.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "saccade/collection/file_state.h"
#include "saccade/core/hash.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/read_pixels.h"

namespace saccade {
namespace {

// The frames of that video which are in the collection, by time.
Result<std::vector<Item>> frames_of(const CollectionWriter& collection, const std::string& video) {
  std::vector<std::pair<int64_t, Item>> found;
  SACCADE_TRY(collection.for_each_item_under(video, [&](const Item& item) {
    const auto frame = read_frame_name(item.path);
    if (frame && frame->file == video) found.emplace_back(frame->milliseconds, item);
    return Status{};
  }));
  std::ranges::sort(found, {}, &std::pair<int64_t, Item>::first);
  std::vector<Item> frames;
  for (auto& [time, item] : found) frames.push_back(std::move(item));
  return frames;
}

std::string fragment_of(const Item& frame) {
  return frame_fragment(read_frame_name(frame.path)->milliseconds);
}

}  // namespace

VideoTaker::VideoTaker(CollectionWriter& collection, IngestDecider& decider, const IngestOptions& options,
                       IngestReport& report, ThreadPool& pool, std::stop_token stop,
                       std::function<Result<FilePreparer*>()> preparer)
    : collection_(collection),
      decider_(decider),
      options_(options),
      report_(report),
      pool_(pool),
      stop_(std::move(stop)),
      preparer_(std::move(preparer)) {}

Status VideoTaker::take(const std::string& path, const std::string& caption) {
  decoded_ = false;
  SACCADE_ASSIGN(frames_, frames_of(collection_, path));
  SACCADE_ASSIGN(const bool settled, is_settled(path, caption));
  if (!settled) {
    // Skips a video that failed before, here or under a name that no longer exists, as for an image.
    const int64_t skipped = report_.skipped_failed;
    SACCADE_ASSIGN(const std::optional<FileTask> task, decider_.offer(path, caption));
    if (task) {
      decider_.hold();
      SACCADE_TRY(take_new(*task));
      decider_.release();
    } else if (report_.skipped_failed > skipped) {
      remove_frames();  // of what the video was before it failed
    }
  }
  if (stop_.stop_requested()) {
    decider_.drop();
    return {};
  }
  SACCADE_TRY(decider_.finish());
  if (decoded_) ++report_.videos;
  return {};
}

// Returns true if the file need not be read: it is unchanged, or was removed permanently.
Result<bool> VideoTaker::is_settled(const std::string& path, const std::string& caption) {
  if (frames_.empty()) {
    SACCADE_ASSIGN(const bool removed, collection_.was_removed(frame_name(path, 0)));
    if (removed) ++report_.stayed_out;
    return removed;
  }
  const auto state = file_state(path);
  if (!state) return false;
  const bool same = std::ranges::all_of(frames_, [&](const Item& frame) {
    return frame.size == state->size && frame.mtime_ns == state->mtime_ns;
  });
  if (!same) return false;
  for (Item& frame : frames_) {
    decider_.note_identity(frame, state->identity);
    if (caption.empty() || caption == frame.caption) continue;
    frame.caption = caption;
    decider_.beside().updates.push_back(frame);
  }
  report_.unchanged += std::ssize(frames_);
  return true;
}

Status VideoTaker::take_new(const FileTask& video) {
  const auto failed = [&](const Error& error) -> Status {
    PreparedFile file;
    file.task = video;
    file.of_the_bytes = is_of_the_bytes(error.code);
    file.error = error;
    SACCADE_TRY(decider_.take(std::move(file)));
    if (is_of_the_bytes(error.code)) remove_frames();
    return {};
  };
  const auto hash = sha256_file(video.path);
  if (!hash) return failed(hash.error());
  report_.bytes_read += video.state.size;
  if (!frames_.empty() && frames_.front().hash == *hash + fragment_of(frames_.front())) return touch(video);
  if (frames_.empty()) {
    SACCADE_ASSIGN(const bool known, take_known(video, *hash));
    if (known) return {};
  }
  VideoOptions options = options_.videos;
  options.max_pixels = options_.limits.max_pixels;
  options.threads = pool_.size();
  options.stop = stop_;
  options.processes = options_.limits.processes;
  auto content = read_video(*options_.video_tools, video.path, options);
  if (content) return take_frames(video, *hash, *std::move(content));
  if (content.error().code == ErrorCode::kCancelled) return {};
  return failed(content.error());
}

// Frames of a video that has become unreadable.
void VideoTaker::remove_frames() {
  for (const Item& frame : frames_) decider_.beside().removals.push_back(frame.id);
}

// Handles a video whose bytes are unchanged while its modification time is not.
Status VideoTaker::touch(const FileTask& video) {
  for (Item& frame : frames_) {
    frame.size = video.state.size;
    frame.mtime_ns = video.state.mtime_ns;
    frame.file = video.state.identity;
    if (!video.caption.empty()) frame.caption = video.caption;
    decider_.beside().updates.push_back(frame);
  }
  forget_failures_of(video.path);
  report_.unchanged += std::ssize(frames_);
  return {};
}

// A video whose bytes the collection has under another name, which is gone (it has moved) or not (it is a
// copy): its frames are known without decoding it. They are found by the first, which every video has.
Result<bool> VideoTaker::take_known(const FileTask& video, const std::string& hash) {
  std::optional<std::string> source;
  int64_t after = 0;
  for (bool gone = false; !gone;) {
    SACCADE_ASSIGN(const std::vector<Item> known, collection_.find_hash(hash + frame_fragment(0), after));
    if (known.empty()) break;
    for (const Item& item : known) {
      after = item.id;
      gone = is_gone(item.path);
      if (gone || !source) source = file_of(item.path);
      if (gone) break;
    }
  }
  if (!source) return false;
  SACCADE_ASSIGN(const std::vector<Item> frames, frames_of(collection_, *source));
  for (const Item& frame : frames) {
    PreparedFile file;
    file.task = video;
    file.task.path = video.path + fragment_of(frame);
    file.hash = frame.hash;
    file.known_content = true;
    SACCADE_ASSIGN(const auto again, decider_.take(std::move(file)));
    if (again) return fail(ErrorCode::kInternal, "{}: gone from the catalog meanwhile", frame.path);
  }
  return true;
}

void VideoTaker::forget_failures_of(const std::string& path) {
  decider_.beside().forget_failures.push_back(path);
}

Status VideoTaker::take_frames(const FileTask& video, const std::string& hash, Video content) {
  SACCADE_ASSIGN(FilePreparer* const preparer, preparer_());
  decoded_ = true;
  forget_failures_of(video.path);
  SACCADE_TRY(collection_.for_each_failure_under(video.path, [&](const Failure& failure) {
    if (read_frame_name(failure.path)) forget_failures_of(failure.path);
    return Status{};
  }));
  PictureFacts facts;
  if (content.taken) {
    facts.taken = content.taken;
    facts.zone_minutes = 0;  // a video's clock is UTC's
  }
  std::set<std::string> names;
  std::vector<FileTask> tasks;
  const auto block = static_cast<size_t>(std::max(options_.batch, 2 * pool_.size()));
  for (VideoFrame& frame : content.frames) {
    if (stop_.stop_requested()) return {};
    FileTask task = video;
    task.path = frame_name(video.path, frame.milliseconds);
    names.insert(task.path);
    SACCADE_ASSIGN(const bool removed, collection_.was_removed(task.path));
    if (removed) {
      ++report_.stayed_out;
      continue;
    }
    const auto there = std::ranges::find(frames_, task.path, &Item::path);
    if (there != frames_.end()) task.existing = *there;
    task.frame = std::make_shared<FrameSource>(FrameSource{std::move(frame.jpeg),
                                                           hash + frame_fragment(frame.milliseconds), facts,
                                                           content.width, content.height});
    tasks.push_back(std::move(task));
    if (tasks.size() == block) SACCADE_TRY(take_block(*preparer, std::exchange(tasks, {})));
  }
  SACCADE_TRY(take_block(*preparer, std::move(tasks)));
  for (const Item& frame : frames_) {
    if (names.find(frame.path) == names.end()) decider_.beside().removals.push_back(frame.id);
  }
  return {};
}

Status VideoTaker::take_block(FilePreparer& preparer, std::vector<FileTask> tasks) {
  for (PreparedFile& file : preparer.prepare(std::move(tasks))) {
    if (stop_.stop_requested()) return {};
    const std::string path = file.task.path;
    SACCADE_ASSIGN(const auto again, decider_.take(std::move(file)));
    if (again) return fail(ErrorCode::kInternal, "{}: gone from the catalog meanwhile", path);
  }
  return {};
}

}  // namespace saccade
