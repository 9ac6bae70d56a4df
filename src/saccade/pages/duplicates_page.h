// Groups of duplicates as one HTML page that needs nothing else: pictures inside, no scripts.
#pragma once

#include <stop_token>
#include <string>

#include "saccade/collection/duplicates.h"
#include "saccade/core/error.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "saccade/image/image.h"

namespace saccade {

struct DuplicatesPageOptions {
  std::string collection;  // its folder, for the head of the page
  int thumbnail_side = 240;
  // Of groups, the first so many are shown: a page of ten thousand pictures opens nowhere.
  int64_t most_groups = 200;
  DecodeOptions limits;
};

// A section a group, the best first and marked. A picture that cannot be read any more leaves a tile that
// says why. kCancelled where asked to stop. Cost: one decoding a picture shown, on all threads of the pool.
Result<std::string> duplicates_page(const DuplicateReport& report, const DuplicatesPageOptions& options,
                                    ThreadPool& pool, const ProgressCallback& progress = {},
                                    std::stop_token stop = {});

}  // namespace saccade
