// Generated edits as one HTML page that needs nothing else: each query's reference, its text, what an engine
// made of it, and the true target.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "lab/data/dataset.h"
#include "saccade/image/image.h"

namespace saccade::lab {

struct EditsPageOptions {
  std::string title = "Generated edits";
  int64_t shown = 60;  // queries, drawn by the seed from those with a picture and a target: nobody picks them
  uint64_t seed = 1;
  int thumbnail_side = 192;
  DecodeOptions limits;
};

// `generated`: a folder of `saccade generate edits`, or its list. A picture that cannot be read leaves a
// tile that says why. Errors of read_pseudo_targets; kUsage where no query has both a picture and a target.
// Cost: three decodings a query.
Result<std::string> edits_page(const Dataset& dataset, const std::filesystem::path& generated,
                               const EditsPageOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
