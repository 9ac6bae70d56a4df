// Self-contained HTML page of duplicate groups, with embedded images and without scripts.
#pragma once

#include <stop_token>
#include <string>

#include "saccade/collection/duplicates.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/progress.h"

namespace saccade {

struct DuplicatesPageOptions {
  std::string collection;  // its folder, for the head of the page
  int thumbnail_side = 240;
  // Maximum number of groups shown; browsers cannot open a page of ten thousand images.
  int64_t most_groups = 200;
  DecodeOptions limits;
};

// Renders one section per group, with the best image first and marked. An unreadable image becomes a tile
// with the reason. Returns kCancelled on a stop request. Cost: one decoding per image shown, on all threads
// of the pool.
Result<std::string> duplicates_page(const DuplicateReport& report, const DuplicatesPageOptions& options,
                                    ThreadPool& pool, const ProgressCallback& progress = {},
                                    std::stop_token stop = {});

}  // namespace saccade
