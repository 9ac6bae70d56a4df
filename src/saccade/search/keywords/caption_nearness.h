// Nearness of a text to the texts that calibrated a collection's match probabilities: parts and words of its
// captions (search/matching/background.h). The calibration holds for such texts. A text about other things also has a
// best hit, which stands out as much as a right one does.
//
// The nearness of a text is its embedding's largest cosine with those of texts drawn from captions, itself
// excluded. A text is unlike the captions if its nearness is below the median nearness of these texts among
// themselves. Both sides of the comparison use the same draw, so its size hardly matters.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

inline constexpr int64_t kMostNearnessTexts = 1024;  // that are drawn
inline constexpr int64_t kFewestNearnessTexts = 60;  // with fewer nothing is unlike them

class CaptionNearness {
 public:
  CaptionNearness() = default;  // nothing is unlike them

  // Encodes kMostNearnessTexts texts at most. The encoder is the collection's and reads texts. Errors are
  // those of the catalog and of encoding; kCancelled.
  static Result<CaptionNearness> of(const CollectionReader& collection, EncoderBackend& encoder,
                                    const std::stop_token& stop = {});

  // `row` of length 1. Cost: as many dot products as texts were drawn. Thread-safe.
  [[nodiscard]] float nearness(std::span<const float> row) const;
  [[nodiscard]] bool unlike(std::span<const float> row) const;
  // The nearness that half of the drawn texts are below; -1 where there are too few.
  [[nodiscard]] float usual() const { return usual_; }

 private:
  Matrix<float> rows_;
  float usual_ = -1;
};

}  // namespace saccade
