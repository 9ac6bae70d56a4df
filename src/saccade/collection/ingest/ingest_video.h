// Taking videos in: a row for each scene, under the frame's
// name (image/frame_name.h). Not for use outside this module.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection_writer.h"
#include "saccade/collection/ingest/ingest_decide.h"
#include "saccade/collection/ingest/ingest_options.h"
#include "saccade/collection/ingest/ingest_prepare.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/decode/video.h"

namespace saccade {

// Ingest of one video. All its frames are added in one transaction. If its first frame is in the collection,
// then so are the others, except removed ones.
class VideoTaker {
 public:
  // `preparer` is asked for when a video is to be decoded, which needs an encoder. Nothing may wait in
  // `decider` when take() is called.
  VideoTaker(CollectionWriter& collection, IngestDecider& decider, const IngestOptions& options,
             IngestReport& report, ThreadPool& pool, std::stop_token stop,
             std::function<Result<FilePreparer*>()> preparer);

  // `path`: a catalog path. A video that cannot be read is a failure of the run's report, not an error.
  Status take(const std::string& path, const std::string& caption);

 private:
  Result<bool> is_settled(const std::string& path, const std::string& caption);
  Status take_new(const FileTask& video);
  Result<bool> take_known(const FileTask& video, const std::string& hash);
  Status take_frames(const FileTask& video, const std::string& hash, Video content);
  Status take_block(FilePreparer& preparer, std::vector<FileTask> tasks);
  Status touch(const FileTask& video);
  void forget_failures_of(const std::string& path);
  void remove_frames();

  CollectionWriter& collection_;
  IngestDecider& decider_;
  const IngestOptions& options_;
  IngestReport& report_;
  ThreadPool& pool_;
  std::stop_token stop_;
  std::function<Result<FilePreparer*>()> preparer_;
  // State of the video that is being indexed:
  std::vector<Item> frames_;  // those that there are
  bool decoded_ = false;
};

}  // namespace saccade
