// Generated edits as one self-contained HTML page: each query's reference, its text, the generated image, and
// the true target.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {

struct EditsPageOptions {
  std::string title = "Generated edits";
  int64_t shown = 60;  // queries, drawn by the seed from those with an image and a target: nobody picks them
  uint64_t seed = 1;
  int thumbnail_side = 192;
  DecodeOptions limits;
};

// Makes the page. `generated`: a folder of `saccade generate edits`, or its list. An unreadable image gets a
// tile with the reason. Errors: those of read_pseudo_targets; kUsage if no query has both an image and a
// target. Cost: three decodings per query.
Result<std::string> edits_page(const Dataset& dataset, const std::filesystem::path& generated,
                               const EditsPageOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
