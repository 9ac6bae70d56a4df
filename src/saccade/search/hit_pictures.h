// Hits' pictures read again, for an encoder that looks at them a second time;
// not for use outside this module.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/threads.h"
#include "saccade/image/preprocess.h"
#include "saccade/matrix.h"
#include "saccade/search/search_answer.h"

namespace saccade {

struct PictureProblem {
  enum class Kind {
    kMissing,
    kChanged,
    kUnreadable,
    kOutOfTime,  // no decoder was free within the limits, or a stop was requested
  };
  Kind kind = Kind::kUnreadable;
  std::string text;
};

struct HitPictures {
  std::vector<size_t> read;  // which of the hits were read, in order
  Matrix<float> pixels;      // its first rows: those, as preprocess_picture writes them
  std::vector<std::optional<PictureProblem>> problems;  // one a hit: why it was not read
};

// Reads the images of hits. They must have the bytes that were indexed. After the first one that is out of time, no other is
// begun. Memory: one image's pixels a hit, and that of a PictureReader.
HitPictures read_hit_pictures(std::span<const SearchHit> hits, const IngestSettings& settings,
                              const Preprocessing& preprocessing, const DecodeOptions& limits,
                              ThreadPool& pool);

}  // namespace saccade
